"""Partitions by topic id: what members of the new protocol own, and what topics there are.

A topic id survives neither deletion nor recreation, so whoever holds one cannot confuse a
topic with its successor of the same name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple, Protocol
from uuid import UUID


class TopicIdPartition(NamedTuple):
    """One partition of one topic, named by id; a tuple because sets of them are compared."""

    topic_id: UUID
    partition: int


PartitionSet = frozenset[TopicIdPartition]

NO_PARTITIONS: PartitionSet = frozenset()

# The same set as it is written down and sent: partitions by topic, both sorted.
PartitionsByTopic = tuple[tuple[UUID, tuple[int, ...]], ...]


class TopicShape(NamedTuple):
    """What an assignor must know of a topic."""

    topic_id: UUID
    partitions: int


class TopicCatalog(Protocol):
    """The topics there are. `version` rises with every change, so that nobody has to look twice."""

    @property
    def version(self) -> int:
        """A number that is never the same for two states of the catalog."""
        ...

    def shape(self, name: str) -> TopicShape | None:
        """Id and partition count of a topic, or None when there is none."""
        ...

    def name_of(self, topic_id: UUID) -> str | None:
        """The name of a topic that is there."""
        ...

    def names(self) -> Iterable[str]:
        """Names that a pattern may match: every topic but the broker's own."""
        ...


def by_topic(partitions: Iterable[TopicIdPartition]) -> PartitionsByTopic:
    """Group a set, in a fixed order, so that equal sets are equal bytes."""
    topics: defaultdict[UUID, list[int]] = defaultdict(list)
    for topic_id, partition in partitions:
        topics[topic_id].append(partition)
    return tuple((topic_id, tuple(sorted(topics[topic_id]))) for topic_id in sorted(topics))


def partition_set(topics: Iterable[tuple[UUID, Iterable[int]]]) -> PartitionSet:
    """The set that `by_topic` grouped."""
    return frozenset(
        TopicIdPartition(topic_id, partition) for topic_id, partitions in topics for partition in partitions
    )

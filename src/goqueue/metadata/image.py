"""The image: what all metadata events add up to.

`apply` is the only thing that changes it, and it refuses an event that contradicts what
is there, so a store may try events on a copy before it writes them down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from uuid import UUID

import msgspec
from msgspec import structs

from goqueue.errors import Conflict, TopicExists, TopicNotFound

NO_CONFIG: Mapping[str, str] = MappingProxyType({})


class PartitionAssignment(msgspec.Struct, frozen=True):
    """Which nodes hold a partition, and which of them leads it."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is now. `config` holds only what was set, never defaults."""

    name: str
    topic_id: UUID
    partitions: tuple[PartitionAssignment, ...]
    replication_factor: int = 1
    config: Mapping[str, str] = field(default_factory=lambda: NO_CONFIG, hash=False)
    internal: bool = False
    created_ms: int = 0


class TopicCreated(msgspec.Struct, frozen=True):
    """A name got a topic."""

    topic: Topic


class TopicDeleted(msgspec.Struct, frozen=True):
    """A topic is gone; its files are still to be removed."""

    name: str
    topic_id: UUID


class DeletionFinished(msgspec.Struct, frozen=True):
    """The last file of a deleted topic was removed."""

    topic_id: UUID


class TopicConfigChanged(msgspec.Struct, frozen=True):
    """A topic's settings are now exactly these."""

    name: str
    topic_id: UUID
    config: Mapping[str, str]


class PartitionsAdded(msgspec.Struct, frozen=True):
    """A topic has more partitions: these follow the `first` that it had."""

    name: str
    topic_id: UUID
    first: int
    partitions: tuple[PartitionAssignment, ...]


class EpochsRaised(msgspec.Struct, frozen=True):
    """The leaders of a topic's partitions begin anew: what they wrote last may be lost."""

    name: str
    topic_id: UUID


class ProducerIdsReserved(msgspec.Struct, frozen=True):
    """Every producer id below `next_producer_id` may have been given out."""

    next_producer_id: int


class ClusterNamed(msgspec.Struct, frozen=True):
    """The cluster got its id, once and for all."""

    cluster_id: str


Event = (
    TopicCreated
    | TopicDeleted
    | DeletionFinished
    | TopicConfigChanged
    | PartitionsAdded
    | EpochsRaised
    | ProducerIdsReserved
    | ClusterNamed
)


class Image:
    """Topics by name and by id, deletions under way, and the counters of the cluster."""

    __slots__ = ("_by_id", "_by_name", "_deletions", "cluster_id", "next_producer_id")

    def __init__(self) -> None:
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[UUID, Topic] = {}
        self._deletions: dict[UUID, str] = {}
        self.next_producer_id = 0
        self.cluster_id = ""

    @classmethod
    def restored(
        cls, topics: Iterable[Topic], deletions: Mapping[UUID, str], *, next_producer_id: int, cluster_id: str
    ) -> Image:
        """The image that a store found written down."""
        image = cls()
        for topic in topics:
            image._put(topic)
        image._deletions = dict(deletions)
        image.next_producer_id = next_producer_id
        image.cluster_id = cluster_id
        return image

    def topic(self, name: str) -> Topic | None:
        """The topic of that name."""
        return self._by_name.get(name)

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        """The topic of that id."""
        return self._by_id.get(topic_id)

    def topics(self) -> list[Topic]:
        """All topics, by name."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def deletions(self) -> dict[UUID, str]:
        """Deleted topics, by id, whose files may still be there."""
        return dict(self._deletions)

    def copy(self) -> Image:
        """An image on which events can be tried."""
        return Image.restored(
            self._by_name.values(),
            self._deletions,
            next_producer_id=self.next_producer_id,
            cluster_id=self.cluster_id,
        )

    def apply(self, event: Event) -> None:
        """Take one event in, or raise the error that says why it cannot be."""
        match event:
            case TopicCreated(topic):
                self._create(topic)
            case TopicDeleted(name, topic_id):
                self._existing(name, topic_id)
                self._remove(name)
                self._deletions[topic_id] = name
            case DeletionFinished(topic_id):
                self._deletions.pop(topic_id, None)
            case TopicConfigChanged(name, topic_id, config):
                topic = self._existing(name, topic_id)
                self._put(replace(topic, config=MappingProxyType(dict(config))))
            case PartitionsAdded(name, topic_id, first, partitions):
                topic = self._existing(name, topic_id)
                if first != len(topic.partitions):
                    raise Conflict(f"topic {name!r} has {len(topic.partitions)} partitions, not {first}")
                self._put(replace(topic, partitions=topic.partitions + partitions))
            case EpochsRaised(name, topic_id):
                topic = self._existing(name, topic_id)
                raised = tuple(structs.replace(one, leader_epoch=one.leader_epoch + 1) for one in topic.partitions)
                self._put(replace(topic, partitions=raised))
            case ProducerIdsReserved(next_producer_id):
                if next_producer_id < self.next_producer_id:
                    raise Conflict(f"producer ids below {self.next_producer_id} were given out already")
                self.next_producer_id = next_producer_id
            case ClusterNamed(cluster_id):
                if self.cluster_id:
                    raise Conflict(f"the cluster has its id already: {self.cluster_id}")
                self.cluster_id = cluster_id

    def _create(self, topic: Topic) -> None:
        if topic.name in self._by_name:
            raise TopicExists(topic.name)
        if topic.topic_id in self._by_id or topic.topic_id in self._deletions:
            raise Conflict(f"topic id {topic.topic_id} was used before")
        self._put(replace(topic, config=MappingProxyType(dict(topic.config))))

    def _existing(self, name: str, topic_id: UUID) -> Topic:
        topic = self._by_name.get(name)
        # An event made for a topic that has since been deleted and created again is stale.
        if topic is None or topic.topic_id != topic_id:
            raise TopicNotFound(name)
        return topic

    def _put(self, topic: Topic) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic

    def _remove(self, name: str) -> None:
        del self._by_id[self._by_name.pop(name).topic_id]

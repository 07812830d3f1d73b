"""Homes: which node answers for what, as the metadata says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import mmh3

from goqueue.broker.replicas.roles import not_leader
from goqueue.errors import CoordinatorUnavailable, PartitionNotFound, TopicNotFound
from goqueue.records import TopicPartition

if TYPE_CHECKING:
    from goqueue.metadata.events import Topic
    from goqueue.metadata.image import Image


class Homes:
    """Leaders of partitions, coordinators of keys, and the nodes that are alive."""

    def __init__(self, node_id: int, image: Callable[[], Image]) -> None:
        self.node_id = node_id
        self._image = image

    @property
    def revision(self) -> int:
        """Of the metadata, as this node knows it."""
        return self._image().revision

    def leader_of(self, place: TopicPartition) -> int:
        """The node that leads a partition; raises NotLeader while none does."""
        image = self._image()
        topic = image.topic(place.topic)
        if topic is None:
            raise TopicNotFound(place.topic)
        if not 0 <= place.partition < topic.partition_count:
            raise PartitionNotFound(place.topic, place.partition)
        assignment = image.assignments(topic.topic_id)[place.partition]
        if assignment.leader < 0:
            raise not_leader(place, assignment)
        return assignment.leader

    def is_here(self, place: TopicPartition) -> bool:
        """Whether this node leads a partition."""
        image = self._image()
        topic = image.topic(place.topic)
        if topic is None or not 0 <= place.partition < topic.partition_count:
            return False
        return image.assignments(topic.topic_id)[place.partition].leader == self.node_id

    def coordinator_of(self, topic: str, key: str) -> int:
        """The node that coordinates a key of an internal topic; this one as long as nobody has made the topic."""
        found = self._image().topic(topic)
        return self.node_id if found is None else self.coordinator_at(topic, _shard_of(key, found))

    def coordinator_epoch(self, topic: str, key: str) -> int:
        """The epoch of the term in which a key of an internal topic is coordinated; -1 if nobody has made the topic."""
        image = self._image()
        found = image.topic(topic)
        return -1 if found is None else image.assignments(found.topic_id)[_shard_of(key, found)].leader_epoch

    def coordinator_at(self, topic: str, shard: int) -> int:
        """The node that leads one partition of an internal topic."""
        found = self._image().topic(topic)
        if found is None:
            return self.node_id
        leader = self._image().assignments(found.topic_id)[shard].leader
        if leader < 0:
            raise CoordinatorUnavailable(f"no node leads partition {shard} of {topic} at present")
        return leader

    def coordinators(self, topic: str) -> set[int]:
        """The nodes that lead an internal topic; raises CoordinatorUnavailable while a partition has no leader."""
        found = self._image().topic(topic)
        return set() if found is None else {self.coordinator_at(topic, at) for at in range(found.partition_count)}

    def terms(self, topic: str) -> tuple[tuple[int, int], ...]:
        """Who leads each partition of a topic, and in which epoch; empty if there is no such topic."""
        image = self._image()
        found = image.topic(topic)
        assignments = () if found is None else image.assignments(found.topic_id)
        return tuple((one.leader, one.leader_epoch) for one in assignments)

    def others(self) -> list[int]:
        """The other nodes that are alive, in order."""
        return sorted(node for node in self._image().sessions if node != self.node_id)

    def by_leader(self, places: Iterable[TopicPartition]) -> Mapping[int, Sequence[TopicPartition]]:
        """The places by the node that leads them; -1 has those that nobody leads at present, or that are not there."""
        found: dict[int, list[TopicPartition]] = {}
        image = self._image()
        for place in places:
            topic = image.topic(place.topic)
            known = topic is not None and 0 <= place.partition < topic.partition_count
            leader = image.assignments(topic.topic_id)[place.partition].leader if topic is not None and known else -1
            found.setdefault(leader, []).append(place)
        return found


def _shard_of(key: str, topic: Topic) -> int:
    return int(mmh3.hash(key.encode(), signed=False)) % topic.partition_count

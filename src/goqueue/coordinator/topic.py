"""The internal topic of a coordinator: made on first use, its partitions opened when asked for, and led or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from goqueue.broker.replicas.partitions import Partition, Partitions
from goqueue.broker.replicas.roles import Leading, Role, not_leader
from goqueue.broker.topics import TopicService
from goqueue.errors import GoQueueError, NotCoordinator
from goqueue.records import TopicPartition


class LedShards(Protocol):
    """Whoever works on shards as long as this node leads their partitions: a `Coordinator`, or the like of it."""

    def lead(self, partition: int, /) -> None:
        """A term begins: load the shard."""
        ...

    def drop(self, partition: int, reason: GoQueueError, /) -> None:
        """The term is over: forget the shard, and stop loading it."""
        ...


class CoordinatorTopic:
    """An `OpenPartition` over the broker's topics and partitions."""

    def __init__(
        self,
        topics: TopicService,
        partitions: Partitions,
        name: str,
        *,
        partition_count: int,
        config: Mapping[str, str],
    ) -> None:
        self.name = name
        self._topics = topics
        self._partitions = partitions
        self._configured_count = partition_count
        self._config = dict(config)

    @property
    def partition_count(self) -> int:
        """What the topic was made with; the setting counts only until then, or keys would move."""
        topic = self._topics.find(self.name)
        return self._configured_count if topic is None else topic.partition_count

    async def __call__(self, partition: int, /) -> Partition:
        """Open one partition, which this node must lead."""
        await self._topics.ensure_internal(self.name, self._configured_count, self._config)
        return await self._partitions.open_leader(self.name, partition)

    def refusal(self, partition: int) -> NotCoordinator | None:
        """Why this node does not coordinate a shard; None if it does, or if nobody has made the topic yet."""
        topic = self._topics.find(self.name)
        if topic is None or self._partitions.is_led(self.name, partition):
            return None
        assignment = self._topics.assignments(topic)[partition]
        reason = not_leader(TopicPartition(self.name, partition), assignment)
        return NotCoordinator(str(reason), leader=assignment.leader)

    def led(self) -> list[int]:
        """The shards that this node leads and that have ever written anything."""
        return self._partitions.led_with_data(self.name)

    def follow_roles(self, shards: LedShards) -> None:
        """From now on shards are loaded when their partition's leadership comes, and dropped when it goes."""

        def on_role(place: TopicPartition, role: Role | None) -> None:
            if place.topic != self.name:
                return
            if isinstance(role, Leading):
                shards.lead(place.partition)
            else:
                topic = self._topics.get(self.name)
                shards.drop(place.partition, not_leader(place, self._topics.assignments(topic)[place.partition]))

        self._partitions.on_role(on_role)

"""The internal topic of a coordinator: made on first use, its partitions opened when asked for."""

from __future__ import annotations

from collections.abc import Mapping

from goqueue.broker.partitions import Partition, Partitions
from goqueue.broker.topics import TopicService


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

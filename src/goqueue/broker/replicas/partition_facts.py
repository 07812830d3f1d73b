"""Facts about partitions as front-ends of single requests ask for them: whoever leads, the answer is the same.

`LocalFacts` knows the partitions that this node leads. In a cluster front-ends get one that asks the leaders.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from goqueue.broker.reading.queries import OffsetSpec, PartitionOffsets, PartitionQueries
from goqueue.log.timestamps import TimestampOffset
from goqueue.records import Isolation, TopicPartition


class PartitionFacts(Protocol):
    """Questions about partitions, each answered by its leader."""

    async def bounds(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionOffsets]:
        """The bounds of each; the first error of one is raised."""
        ...

    async def offset_at(self, place: TopicPartition, spec: OffsetSpec, isolation: Isolation) -> TimestampOffset | None:
        """The offset that `spec` means there; None when no record is that young, or there is none at all."""
        ...

    async def append_time_ms(self, place: TopicPartition, offset: int) -> int:
        """When the record at `offset` was stored; -1 if there is none."""
        ...

    async def sizes(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """What each takes on its leader's disk. Opens nothing."""
        ...

    async def delete_records(self, topic: str, partition: int, offset: int) -> int:
        """Forget all records below `offset` (-1: below the high watermark); returns the new log start."""
        ...


class LocalFacts:
    """`PartitionFacts` of the partitions that this node leads."""

    def __init__(self, queries: PartitionQueries) -> None:
        self._queries = queries
        self.delete_records = queries.delete_records

    async def bounds(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionOffsets]:
        """See `PartitionFacts.bounds`."""
        wanted = list(places)
        await self._queries.opened(wanted)
        return {at: self._queries.offsets(at.topic, at.partition) for at in wanted}

    async def offset_at(self, place: TopicPartition, spec: OffsetSpec, isolation: Isolation) -> TimestampOffset | None:
        """See `PartitionFacts.offset_at`."""
        await self._queries.opened([place])
        return self._queries.list_offset(place.topic, place.partition, spec, isolation)

    async def append_time_ms(self, place: TopicPartition, offset: int) -> int:
        """See `PartitionFacts.append_time_ms`."""
        await self._queries.opened([place])
        return self._queries.append_time_ms(place.topic, place.partition, offset)

    async def sizes(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """See `PartitionFacts.sizes`."""
        return {at: self._queries.size_bytes(at.topic, at.partition) for at in places}

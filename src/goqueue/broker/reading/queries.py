"""Questions about partitions that are neither a publish nor a fetch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from goqueue.broker.reading.fetch import epoch_refusal
from goqueue.broker.replicas.opening import Opening
from goqueue.broker.replicas.partitions import Partition, Partitions
from goqueue.errors import GoQueueError, InternalTopic, InvalidRequest, OffsetNotAvailable, OffsetOutOfRange
from goqueue.log.state.log_end import LogEnd, log_ends
from goqueue.log.timestamps import TimestampOffset
from goqueue.ports import Files
from goqueue.records import Isolation

if TYPE_CHECKING:
    from goqueue.log.state.producer_state import ProducerInfo
    from goqueue.metadata.store import MetadataStore

# A point in a log: a timestamp in milliseconds, or one of these. Values are Kafka's.
OffsetSpec = int
LATEST: OffsetSpec = -1
EARLIEST: OffsetSpec = -2
MAX_TIMESTAMP: OffsetSpec = -3
# With tiers, the start of what is on the broker's own disk. We have one tier.
EARLIEST_LOCAL: OffsetSpec = -4

# delete_records: everything that a reader may see.
HIGH_WATERMARK = -1

_NO_TIMESTAMP = -1


# (partition, first, last, why): records are no longer in a log.
OnRemoved = Callable[[Partition, int, int, str], None]


class PartitionOffsets(msgspec.Struct, frozen=True):
    """The offsets that bound a partition."""

    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    end_offset: int
    leader_epoch: int


class PartitionSize(msgspec.Struct, frozen=True):
    """What a partition takes on the disk."""

    topic: str
    topic_id: UUID
    partition: int
    size_bytes: int


class LogDir(msgspec.Struct, frozen=True):
    """A data directory and what lies in it."""

    path: str
    usable_bytes: int
    partitions: tuple[PartitionSize, ...]

    @property
    def total_bytes(self) -> int:
        """What our partitions take and what is left for them."""
        return self.usable_bytes + sum(one.size_bytes for one in self.partitions)


class PartitionQueries:
    """Answers about single partitions, and about the disk they lie on."""

    def __init__(
        self,
        partitions: Partitions,
        metadata: MetadataStore,
        *,
        files: Files,
        data_dir: str,
        on_removed: OnRemoved | None = None,
    ) -> None:
        self._on_removed = on_removed
        self._partitions = partitions
        self._metadata = metadata
        self._files = files
        self._data_dir = data_dir

    def opening(self, places: Iterable[tuple[str, int]]) -> Awaitable[None] | None:
        """What to wait for before questions about these partitions read nothing on the event loop; None if nothing."""
        openings = [one for place in places if (one := self._partitions.opening(*place)) is not None]
        return _all_open(openings) if openings else None

    async def opened(self, places: Iterable[tuple[str, int]]) -> None:
        """Have the partitions open. One that cannot be is left to the question that follows."""
        opening = self.opening(places)
        if opening is not None:
            await opening

    def offsets(self, topic: str, partition: int) -> PartitionOffsets:
        """The bounds of a partition."""
        log = (place := _settled(self._partitions.leader(topic, partition))).log
        return PartitionOffsets(
            log_start_offset=log.start_offset,
            last_stable_offset=log.last_stable_offset,
            high_watermark=log.high_watermark,
            end_offset=log.end_offset,
            leader_epoch=place.leader_epoch,
        )

    def list_offset(
        self,
        topic: str,
        partition: int,
        spec: OffsetSpec,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        *,
        leader_epoch: int = -1,
    ) -> TimestampOffset | None:
        """The offset that `spec` means here; None when no record is that young, or there is none at all."""
        place = self._place(topic, partition, leader_epoch)
        log = place.log
        upper = log.last_stable_offset if isolation == Isolation.READ_COMMITTED else log.high_watermark
        if spec == LATEST:
            _settled(place)
            return TimestampOffset(upper, _NO_TIMESTAMP, place.leader_epoch)
        if spec in {EARLIEST, EARLIEST_LOCAL}:
            return TimestampOffset(log.start_offset, _NO_TIMESTAMP, place.leader_epoch)
        _settled(place)
        if spec == MAX_TIMESTAMP:
            return log.offset_of_max_timestamp(upper)
        if spec < 0:
            raise InvalidRequest(f"{spec} is neither a timestamp nor earliest or latest", field="timestamp")
        return log.offset_for_timestamp(spec, upper=upper)

    def append_time_ms(self, topic: str, partition: int, offset: int) -> int:
        """When the record at `offset` was stored; -1 if there is none."""
        return self._partitions.leader(topic, partition).log.append_time_ms(offset)

    async def delete_records(self, topic: str, partition: int, offset: int) -> int:
        """Forget all records below `offset` (-1: below the high watermark); returns the new log start."""
        place = await self._partitions.open_leader(topic, partition)
        if place.internal:
            raise InternalTopic(topic)
        if not place.config.is_deleted_by_age:
            raise InvalidRequest(
                f"topic {topic!r} is compacted: its records go by key, not by offset",
                field="offset",
                hint="add 'delete' to the topic's cleanup.policy",
            )
        log = place.log
        target = log.high_watermark if offset == HIGH_WATERMARK else offset
        if not 0 <= target <= log.high_watermark:
            raise OffsetOutOfRange(offset, log.start_offset, log.high_watermark)
        # Below the start there is nothing left to delete, which is what was asked for.
        start = log.start_offset
        if target <= start:
            return start
        now_start = log.delete_before(target)
        if self._on_removed is not None and now_start > start:
            self._on_removed(place, start, now_start - 1, "deleted")
        return now_start

    def epoch_end(self, topic: str, partition: int, epoch: int, *, leader_epoch: int = -1) -> tuple[int, int]:
        """(epoch, end offset) of the last leader epoch that is not above `epoch`; (-1, -1) if there is none."""
        return self._place(topic, partition, leader_epoch).log.end_offset_for_epoch(epoch)

    def producers(self, topic: str, partition: int) -> list[ProducerInfo]:
        """The producers that this node's replica of the partition remembers; a follower's may lag, as in Kafka."""
        return self._partitions.replica(topic, partition).log.producers.all()

    def size_bytes(self, topic: str, partition: int) -> int:
        """What one partition takes on the disk. Opens nothing."""
        return self._partitions.size_bytes(topic, partition)

    def log_dirs(self) -> list[LogDir]:
        """The one data directory, with the size of every replica of this node. Opens nothing."""
        sizes = tuple(
            PartitionSize(topic.name, topic.topic_id, partition, self._partitions.size_bytes(topic.name, partition))
            for topic, partition in self._partitions.held()
        )
        return [LogDir(self._data_dir, self._files.free_bytes(), sizes)]

    def log_ends(self) -> list[LogEnd]:
        """The end of every open log at one instant, that of the metadata among them.

        Nothing is awaited in here, so no write comes in between: files cut there are what a kill at
        this instant would have left, which every start can cope with.
        """
        return self._metadata.log_ends() + log_ends(self._partitions.open_logs())

    def _place(self, topic: str, partition: int, leader_epoch: int) -> Partition:
        place = self._partitions.leader(topic, partition)
        if leader_epoch >= 0 and leader_epoch != place.leader_epoch:
            raise epoch_refusal(leader_epoch, place.leader_epoch)
        return place


async def _all_open(openings: Sequence[Opening]) -> None:
    for opening in openings:
        # Whoever asks about the partition is told why it cannot be opened.
        with suppress(GoQueueError):
            await opening


def _settled(place: Partition) -> Partition:
    """The partition, if its leader knows up to where it may be read. A new one may not, for a moment."""
    if not place.writer.is_settled:
        raise OffsetNotAvailable(f"the leader of {place.key} is new and does not know its high watermark yet")
    return place

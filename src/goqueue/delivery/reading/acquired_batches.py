"""AcquiredReads: the records that were acquired by offsets, as batches that hold little else.

Of a batch only what lies from its first to its last acquired record is given away: a producer's
batch may hold ten thousand records, and a consumer takes a few hundred of them at a time. The
batch in which a group stands is kept, and where in it, so that the next read begins there
without reading, checking and counting all over again.

Batches are given away closed. One that comes back is opened once before it is given out again: if nobody
can read it, it is set aside instead of being sent to one consumer after the other.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from goqueue.broker.reading.record_reads import is_hidden
from goqueue.broker.reading.unreadable import Unreadable
from goqueue.codec.batch import BatchHeader, parse_batch_header
from goqueue.codec.batch_cut import START, Mark, cut_batch, is_cuttable
from goqueue.delivery.state.records import QueueId
from goqueue.errors import CorruptBatch, CorruptFrame, StorageError
from goqueue.ports import Buffer, ColdRead, Offload
from goqueue.records import TopicPartition

if TYPE_CHECKING:
    from goqueue.broker.replicas.partitions import Partition, Partitions
    from goqueue.delivery.values import AcquiredRange

# What is read at first for a run of so many records: their sizes are not known yet.
_BYTES_PER_RECORD = 128
_BYTES_MIN = 16 * 1024
# What all kept batches may take together; a larger one is not kept.
_KEPT_BYTES_MAX = 16 * 1024 * 1024
# How many batches are remembered as readable.
_CHECKED_MAX = 1024
# A read with so much of its batch, in eighths, is not worth a copy: the batch goes as it is.
_WHOLE_EIGHTHS = 7


@dataclass(slots=True)
class AcquiredBatches:
    """Batches in the order of the log. All that was acquired up to `covered_to` is in them, hidden or unreadable."""

    batches: list[Buffer] = field(default_factory=list)
    hidden: list[tuple[int, int]] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    covered_to: int = -1


@dataclass(slots=True)
class _Batch:
    """A batch that was read and checked, and the last place in it where a record is known to begin."""

    header: BatchHeader
    data: Buffer
    hidden: bool
    unreadable: Unreadable | None = None
    # Whether it was opened, and could be.
    is_checked: bool = False
    mark: Mark = START


class AcquiredReads:
    """Reads for those who acquired messages. At most one batch of each queue is kept; the last used is dropped last."""

    def __init__(self, partitions: Partitions, offload: Offload) -> None:
        self._partitions = partitions
        self._offload = offload
        self._kept: OrderedDict[QueueId, _Batch] = OrderedDict()
        self._kept_bytes = 0
        # Batches that were opened and could be, by place and checksum: they come back again and again in parts.
        self._checked: OrderedDict[tuple[str, int, int, int], None] = OrderedDict()

    async def read(
        self, group: str, at: TopicPartition, acquired: Sequence[AcquiredRange], bytes_left: int, *, must: bool
    ) -> AcquiredBatches:
        """The records of rising runs, as many as fit; with `must`, those of one batch at least."""
        partition = await self._partitions.open_leader(*at)
        queue_id = QueueId(group, partition.topic_id, at.partition)
        answer = AcquiredBatches()
        record_bytes = _BYTES_PER_RECORD
        for first, last, delivery_count in acquired:
            offset = max(first, answer.covered_to + 1)
            while offset <= last:
                if offset < partition.log.start_offset:
                    # Retention was faster: nobody is given them.
                    gone = min(partition.log.start_offset - 1, last)
                    answer.hidden.append((offset, gone))
                    answer.covered_to, offset = max(answer.covered_to, gone), gone + 1
                    continue
                wanted = max(_BYTES_MIN, (last - offset + 1) * record_bytes) if last > offset else 1
                try:
                    found = self._find(queue_id, offset) or await self._load(
                        partition, offset, min(wanted, max(bytes_left, 1))
                    )
                except CorruptFrame as error:
                    damage = partition.unreadable.note_damage(offset, partition.log.last_stable_offset, error)
                    answer.unreadable.append(damage)
                    answer.covered_to, offset = damage.last, damage.last + 1
                    continue
                if not found:
                    # Nothing is left up to the end of the log: retention was faster.
                    answer.covered_to = max(answer.covered_to, acquired[-1].last)
                    return answer
                for one in found:
                    header = one.header
                    if header.base_offset > last:
                        # What lies before it up to the end of the run has left the log. An earlier batch may
                        # reach further than the run: what it holds of the next runs was given with it.
                        answer.covered_to, offset = max(answer.covered_to, last), last + 1
                        break
                    if one.hidden:
                        answer.hidden.append((header.base_offset, header.last_offset))
                    elif await self._is_unreadable(partition, one, _deliveries(acquired, header)):
                        answer.unreadable.extend(filter(None, [one.unreadable]))
                    else:
                        last_here = _last_within(acquired, header.last_offset)
                        data = _cut(one, max(offset, header.base_offset), last_here)
                        if len(data) > bytes_left and (answer.batches or not must):
                            return answer
                        answer.batches.append(data)
                        bytes_left -= len(data)
                        # What comes back is taken from anywhere; the group stands where it takes what is new.
                        if delivery_count == 1:
                            self._keep(queue_id, one if last_here < header.last_offset else None)
                    answer.covered_to = header.last_offset
                    offset = header.last_offset + 1
                    record_bytes = len(one.data) // max(header.count, 1) + 1
        return answer

    async def batch_end(self, queue_id: QueueId, partition: Partition, offset: int) -> int:
        """The last offset of the batch that holds `offset`; `offset` itself where that cannot be told."""
        try:
            found = self._find(queue_id, offset) or await self._load(partition, offset, 1)
        except (CorruptFrame, StorageError):
            # Whoever reads it is told.
            return offset
        if not found or not found[0].header.base_offset <= offset:
            return offset
        # It is read next.
        self._keep(queue_id, found[0])
        return found[0].header.last_offset

    def count(self, at: TopicPartition, answer: AcquiredBatches, messages: int) -> None:
        """They are given away: traffic of the topic."""
        traffic = self._partitions.leader(*at).traffic
        traffic.messages_out += messages
        traffic.bytes_out += sum(map(len, answer.batches))

    async def _is_unreadable(self, partition: Partition, one: _Batch, delivery_count: int) -> bool:
        """Whether nobody can read a batch: by its header, and if it has come back, by opening it."""
        if one.unreadable is None and not one.is_checked:
            one.unreadable = partition.unreadable.check_header(one.header)
            place = (*partition.key, one.header.base_offset, one.header.crc)
            if one.unreadable is None and delivery_count > 1 and place not in self._checked:
                try:
                    opened = partition.unreadable.open(one.header, one.data, nowait=True)
                except ColdRead:
                    opened = await self._offload(partial(partition.unreadable.open, one.header, one.data))
                one.unreadable = opened if isinstance(opened, Unreadable) else None
                one.is_checked = True
                if one.unreadable is None:
                    self._checked[place] = None
                    if len(self._checked) > _CHECKED_MAX:
                        self._checked.popitem(last=False)
        return one.unreadable is not None

    def _find(self, queue_id: QueueId, offset: int) -> list[_Batch]:
        """The kept batch, if the offset lies in it."""
        one = self._kept.get(queue_id)
        if one is None:
            return []
        return [one] if one.header.base_offset <= offset <= one.header.last_offset else []

    async def _load(self, partition: Partition, offset: int, bytes_max: int) -> list[_Batch]:
        """At least one batch from `offset` on, if there is one."""
        log = partition.log
        ask = partial(log.read_batches, offset, max_bytes=bytes_max, upper=log.last_stable_offset)
        try:
            try:
                read = ask(nowait=True)
            except ColdRead:
                read = await self._offload(ask)
        except OSError as error:
            raise StorageError(f"{partition.key}: {error}") from error
        headers = [parse_batch_header(batch) for batch in read.batches]
        aborted = log.aborted_between(offset, read.next_offset) if any(one.is_transactional for one in headers) else ()
        return [
            _Batch(header, batch, is_hidden(header, aborted))
            for header, batch in zip(headers, read.batches, strict=True)
        ]

    def _keep(self, queue_id: QueueId, one: _Batch | None) -> None:
        """Keep a batch, or none any more, in place of the one before."""
        before = self._kept.pop(queue_id, None)
        if before is not None:
            self._kept_bytes -= len(before.data)
        if one is None or len(one.data) > _KEPT_BYTES_MAX:
            return
        # What was read at once may be more than this batch: a copy keeps no more than is counted.
        if not isinstance(one.data, bytes):
            one.data = bytes(one.data)
        self._kept[queue_id] = one
        self._kept_bytes += len(one.data)
        while self._kept_bytes > _KEPT_BYTES_MAX:
            _, gone = self._kept.popitem(last=False)
            self._kept_bytes -= len(gone.data)


def _last_within(acquired: Sequence[AcquiredRange], last: int) -> int:
    """The last acquired offset that is not behind `last`."""
    return max(min(one.last, last) for one in acquired if one.first <= last)


def _deliveries(acquired: Sequence[AcquiredRange], header: BatchHeader) -> int:
    """How often the messages of a batch were delivered, this time included; the most of them counts."""
    return max(
        (one.delivery_count for one in acquired if one.first <= header.last_offset and one.last >= header.base_offset),
        default=1,
    )


def _cut(one: _Batch, first: int, last: int) -> Buffer:
    """What of the batch lies from one offset to another, or all of it where it cannot be cut."""
    header, base = one.header, one.header.base_offset
    if not is_cuttable(header) or 8 * (last - first + 1) >= _WHOLE_EIGHTHS * header.count:
        return one.data
    try:
        data, one.mark = cut_batch(one.data, header, first - base, last - base, one.mark)
    except CorruptBatch:
        # The checksum is right, so this is how its producer made it.
        return one.data
    return data

"""Opened batches: the records behind offsets, as queues may see them.

Only what is decided is read (below the last stable offset), and what an aborted transaction wrote
is left out. Neighbouring receives share a batch, so the last few opened ones are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from goqueue.broker.reading.unreadable import Unreadable
from goqueue.broker.replicas.partitions import Partition
from goqueue.codec.batch import BatchHeader, parse_batch_header
from goqueue.delivery.values import ADDRESS_HEADER
from goqueue.errors import CorruptFrame, OffsetOutOfRange
from goqueue.ports import Buffer, ColdRead
from goqueue.records import Record

_BATCHES_MAX = 8
_BYTES_MAX = 2 * 1024 * 1024
_READ_BYTES = 256 * 1024


class Opened(NamedTuple):
    """A stretch of offsets and the records that may be seen there."""

    first: int
    last: int
    records: list[Record]
    # Roughly what one record takes in an answer.
    record_bytes: int
    # Whether some of the records are for one group only.
    is_addressed: bool = False
    # The time of records without a timestamp: that of the batch, or of its append if it has none either.
    time_ms: int = -1
    # Why nobody can read it, if that is so.
    unreadable: Unreadable | None = None


class Part(NamedTuple):
    """Records of a range, and where to go on; it may end before the range does."""

    records: list[Record]
    next_offset: int
    record_bytes: int
    is_addressed: bool = False
    time_ms: int = -1
    unreadable: Unreadable | None = None


class OpenedBatches:
    """The last opened batches of one partition."""

    __slots__ = ("_opened", "_size")

    def __init__(self) -> None:
        self._opened: OrderedDict[int, Opened] = OrderedDict()
        self._size = 0

    def find(self, offset: int, last: int) -> Part | None:
        """The records from `offset` to `last`, as far as the batch there goes; None if it is not open."""
        for opened in self._opened.values():
            if opened.first <= offset <= opened.last:
                self._opened.move_to_end(opened.first)
                return _part(opened, offset, last)
        return None

    def add(self, opened: list[Opened]) -> None:
        """Keep them, in place of the oldest."""
        for one in opened:
            old = self._opened.pop(one.first, None)
            if old is not None:
                self._size -= old.record_bytes * len(old.records)
            self._opened[one.first] = one
            self._size += one.record_bytes * len(one.records)
        while len(self._opened) > max(_BATCHES_MAX, len(opened)) or (
            self._size > _BYTES_MAX and len(self._opened) > len(opened)
        ):
            _, gone = self._opened.popitem(last=False)
            self._size -= gone.record_bytes * len(gone.records)


def open_batches(place: Partition, offset: int, last: int, *, nowait: bool) -> list[Opened]:
    """Read and open what covers `offset`, and perhaps more up to `last`. May raise ColdRead with `nowait`.

    A batch that cannot be opened, or a frame that is damaged, is a stretch by itself: see `Opened.unreadable`.
    """
    log = place.log
    upper = log.last_stable_offset
    try:
        read = log.read_batches(offset, max_bytes=_READ_BYTES, upper=upper, nowait=nowait)
    except OffsetOutOfRange:
        # Deleted by retention: up to the new start there is nothing.
        return [Opened(offset, max(log.start_offset - 1, offset), [], 0)]
    except CorruptFrame as damage:
        found = place.unreadable.note_damage(offset, upper, damage)
        return [Opened(offset, found.last, [], 0, unreadable=found)]
    opened: list[Opened] = []
    for batch in read.batches:
        header = parse_batch_header(batch)
        # Between batches there is nothing: compaction took it.
        first = min(offset, header.base_offset)
        try:
            records = _visible(place, header, batch, nowait=nowait)
        except ColdRead:
            if not opened:
                raise
            break
        if isinstance(records, Unreadable):
            opened.append(Opened(first, header.last_offset, [], 0, unreadable=records))
        else:
            opened.append(_opened(place, first, header, batch, records, nowait=nowait))
        offset = header.last_offset + 1
        if offset > last:
            break
    return opened or [Opened(offset, max(upper - 1, offset), [], 0)]


def _opened(
    place: Partition, first: int, header: BatchHeader, batch: Buffer, records: list[Record], *, nowait: bool
) -> Opened:
    size = len(batch) if not header.codec else sum(len(r.value or b"") + len(r.key or b"") + 16 for r in records)
    # Dead letters are sent back in transactions, so that other batches need no look at their headers.
    addressed = header.is_transactional and any(address_of(one) is not None for one in records)
    time_ms = header.max_timestamp_ms
    if time_ms <= 0:
        time_ms = place.log.append_time_ms(header.base_offset, nowait=nowait)
    return Opened(first, header.last_offset, records, size // max(len(records), 1) + 1, addressed, time_ms)


def address_of(record: Record) -> str | None:
    """The only group that a record is for; None: for all."""
    for name, value in record.headers:
        if name == ADDRESS_HEADER:
            return (value or b"").decode(errors="replace")
    return None


def place_batches(place: Partition, offset: int, last: int, *, nowait: bool = True) -> list[Opened]:
    """As `open_batches`, counted as traffic of the topic."""
    opened = open_batches(place, offset, last, nowait=nowait)
    place.traffic.bytes_out += sum(one.record_bytes * len(one.records) for one in opened)
    return opened


def raw_batch(place: Partition, offset: int) -> bytes | None:
    """The stored bytes of the batch that covers `offset`; None if the log has none, or has damaged it."""
    try:
        read = place.log.read_batches(offset, max_bytes=1, upper=place.log.last_stable_offset)
    except (OffsetOutOfRange, CorruptFrame):
        return None
    return bytes(read.batches[0]) if read.batches else None


def _visible(place: Partition, header: BatchHeader, batch: Buffer, *, nowait: bool) -> list[Record] | Unreadable:
    if header.is_control:
        return []
    if header.is_transactional and any(
        aborted.producer_id == header.producer_id and aborted.first_offset <= header.base_offset <= aborted.last_offset
        for aborted in place.log.aborted_between(header.base_offset, header.last_offset + 1)
    ):
        return []
    return place.unreadable.open(header, batch, nowait=nowait)


def _part(opened: Opened, offset: int, last: int) -> Part:
    records = opened.records
    stop = min(last, opened.last)
    if records and records[-1].offset - records[0].offset == len(records) - 1:
        base = records[0].offset
        found = records[max(offset - base, 0) : max(stop - base + 1, 0)]
    else:
        found = [record for record in records if offset <= record.offset <= stop]
    return Part(found, stop + 1, opened.record_bytes, opened.is_addressed, opened.time_ms, opened.unreadable)

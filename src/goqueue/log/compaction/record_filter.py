"""The second half of a compaction pass: what becomes of each frame.

A frame is copied as it is, written again with fewer records, or dropped. Offsets, order,
timestamps, producers and sequences stay. The rules are those of Kafka's cleaner, but for
records without a key, which are kept.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from goqueue.codec.batch import CONTROL, TRANSACTIONAL, parse_batch_header
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import encode_sparse_batch
from goqueue.codec.frame import HEADER_BYTES, Flags, encode_frame_header
from goqueue.codec.frame_headers import decode_headers, encode_headers
from goqueue.errors import InvalidRequest
from goqueue.log.compaction.key_map import AbortedRanges, NewestOffsets, key_hash
from goqueue.log.index.batch_lanes import record_runs

if TYPE_CHECKING:
    from goqueue.codec.batch import BatchHeader
    from goqueue.codec.frame import FrameHeader
    from goqueue.log.state.producer_state import LastBatch
    from goqueue.records import Record

# A frame's header that says when its tombstones, or its marker, may go.
HORIZON_HEADER = "delete-horizon-ms"
_HORIZON = struct.Struct(">q")


class FrameFilter:
    """Decides over the frames of one pass, which come in offset order from the log's start."""

    def __init__(
        self,
        newest: NewestOffsets,
        last_batches: Mapping[int, LastBatch],
        *,
        now_ms: int,
        tombstone_retention_ms: int,
    ) -> None:
        self._newest = newest
        self._end_offset = newest.end_offset
        self._last_batches = last_batches
        self._now_ms = now_ms
        self._horizon_ms = now_ms + tombstone_retention_ms
        self._aborted = AbortedRanges(())
        # Producers of whose current transaction this pass has met a batch.
        self._in_transaction: set[int] = set()
        self.records_dropped = 0
        # Behind the last tombstone, or marker, whose time is over: whoever did not see it must not rely on this log.
        self.tombstones_gone_to = 0

    def begin_segment(self, aborted: AbortedRanges) -> None:
        """The frames that follow are of a segment that these aborted transactions touch."""
        self._aborted = aborted

    def keep(self, header: FrameHeader, frame: memoryview, *, is_last: bool) -> bytes | memoryview | None:
        """The frame to write: the very same object if nothing changed, None if it goes.

        `is_last`: nothing follows in its segment, so at least an empty batch must stay to say
        where the segment ends.
        """
        batch = parse_batch_header(frame, HEADER_BYTES)
        is_control = bool(batch.attributes & CONTROL)
        if is_control:
            # A marker may go once no batch of its transaction is left for it to decide about.
            is_needed = batch.producer_id in self._in_transaction
            self._in_transaction.discard(batch.producer_id)
        elif batch.attributes & TRANSACTIONAL:
            self._in_transaction.add(batch.producer_id)
        if batch.base_offset >= self._end_offset:
            return frame
        is_kept = is_last or self._is_last_of_producer(batch)
        if is_control:
            return frame if is_needed else self._keep_marker(header, frame, is_kept=is_kept)
        return self._keep_data(header, frame, batch, is_kept=is_kept)

    def _is_last_of_producer(self, batch: BatchHeader) -> bool:
        """Whether a restart would forget the producer's sequence, or at least its epoch, without it."""
        last = self._last_batches.get(batch.producer_id)
        if last is None:
            return False
        if last.last_offset >= 0:
            return batch.last_offset == last.last_offset
        return bool(batch.attributes & CONTROL) and batch.producer_epoch == last.epoch

    def _keep_marker(self, header: FrameHeader, frame: memoryview, *, is_kept: bool) -> bytes | memoryview | None:
        horizon_ms = _horizon_of(header, frame)
        if horizon_ms is None:
            return self._with_horizon(header, frame, _value(header, frame))
        if horizon_ms > self._now_ms or is_kept:
            return frame
        self.records_dropped += 1
        self.tombstones_gone_to = header.offset + 1
        return None

    def _keep_data(
        self, header: FrameHeader, frame: memoryview, batch: BatchHeader, *, is_kept: bool
    ) -> bytes | memoryview | None:
        if not batch.count:
            return frame if is_kept else None
        horizon_ms = _horizon_of(header, frame)
        if batch.attributes & TRANSACTIONAL and self._aborted.covers(batch.producer_id, batch.base_offset):
            kept: Sequence[Record] | None = ()
        else:
            kept = self._records_kept(header, frame, batch, horizon_ms)
        if kept is None:
            return frame
        self.records_dropped += batch.count - len(kept)
        if not kept and not is_kept:
            return None
        starts_horizon = horizon_ms is None and any(_is_tombstone(record) for record in kept)
        if len(kept) == batch.count:
            return self._with_horizon(header, frame, _value(header, frame)) if starts_horizon else frame
        value = encode_sparse_batch(batch, kept)
        if header.flags & Flags.MIXED_LANES:
            header = _with_lanes(header, kept)
        if not kept:
            # What is empty is not compressed, and the frame says what its batch says.
            header = header._replace(flags=header.flags & ~Flags.COMPRESSED)
        if starts_horizon:
            return self._with_horizon(header, frame, value)
        return _build_frame(header, value, bytes(_headers(header, frame)))

    def _records_kept(
        self, header: FrameHeader, frame: memoryview, batch: BatchHeader, horizon_ms: int | None
    ) -> Sequence[Record] | None:
        """The records that stay; None if the frame stays as it is."""
        marks, first, last = self._newest.marks, batch.base_offset, batch.last_offset
        if marks is not None and first >= self._newest.from_offset and horizon_ms is None:
            superseded = marks.superseded.count(first, last)
            if superseded == batch.count:
                return ()
            if not superseded and not marks.deletions.count(first, last):
                return None
        try:
            records = decode_records(_value(header, frame))
        except InvalidRequest:
            return None  # what its producer sent: unreadable, and so without keys
        stay = horizon_ms is None or horizon_ms > self._now_ms
        return [record for record in records if self._is_newest(record, tombstones_stay=stay)]

    def _is_newest(self, record: Record, *, tombstones_stay: bool) -> bool:
        if record.key is None:
            return True
        if record.offset < self._newest.offsets.get(key_hash(record.key), -1):
            return False
        if record.value is None and not tombstones_stay:
            self.tombstones_gone_to = record.offset + 1
            return False
        return True

    def _with_horizon(self, header: FrameHeader, frame: memoryview, value: bytes | memoryview) -> bytes:
        pairs = [*decode_headers(_headers(header, frame)), (HORIZON_HEADER, _HORIZON.pack(self._horizon_ms))]
        return _build_frame(header, value, encode_headers(pairs))


def _is_tombstone(record: Record) -> bool:
    return record.key is not None and record.value is None


def _value(header: FrameHeader, frame: memoryview) -> memoryview:
    return frame[HEADER_BYTES : HEADER_BYTES + header.value_bytes]


def _headers(header: FrameHeader, frame: memoryview) -> memoryview:
    return frame[HEADER_BYTES + header.value_bytes :]


def _horizon_of(header: FrameHeader, frame: memoryview) -> int | None:
    if not header.headers_bytes:
        return None
    for name, value in decode_headers(_headers(header, frame)):
        if name == HORIZON_HEADER and len(value) == _HORIZON.size:
            return int(_HORIZON.unpack(value)[0])
    return None


def _with_lanes(header: FrameHeader, records: Sequence[Record]) -> FrameHeader:
    """The frame's lane again, now that some of its records are gone."""
    lanes = {run.lane for run in record_runs(records)}
    if len(lanes) > 1:
        return header._replace(priority=min(lanes))
    return header._replace(flags=header.flags & ~Flags.MIXED_LANES, priority=min(lanes, default=header.priority))


def _build_frame(header: FrameHeader, value: bytes | memoryview, headers: bytes) -> bytes:
    head = encode_frame_header(
        [value],
        flags=header.flags,
        offset=header.offset,
        timestamp_ns=header.timestamp_ns,
        priority=header.priority,
        headers=headers,
    )
    return b"".join((head, value, headers))

"""From time to offset: the first record at or after a timestamp, and the newest of all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from goqueue.codec.batch import decode_records
from goqueue.codec.frame import HEADER_BYTES, FrameDamage, StoredFrame
from goqueue.errors import CorruptFrame
from goqueue.log.frame_reader import frames_in
from goqueue.log.segment import Segment
from goqueue.log.segment_list import Segments
from goqueue.log.time_index import NO_TIMESTAMP


class TimestampOffset(NamedTuple):
    """A record found by its time."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


def first_at_or_after(segments: Segments, timestamp_ms: int, *, start: int, upper: int) -> TimestampOffset | None:
    """The record with the smallest offset in [start, upper) whose timestamp is not below the one asked for."""
    for segment in segments.from_offset(start):
        if segment.base_offset >= upper:
            return None
        if segment.max_timestamp_ms < timestamp_ms:
            continue
        first = max(segment.times_before(timestamp_ms), start)
        for frame, batch in _batches(segment, first, upper):
            if frame.batch.max_timestamp_ms >= timestamp_ms:
                found = _first_record(frame, batch, timestamp_ms, start=start, upper=upper)
                if found is not None:
                    return found
    return None


def newest(segments: Segments, *, start: int, upper: int) -> TimestampOffset | None:
    """The record with the largest timestamp in [start, upper), the first of them if there are several."""
    best: tuple[StoredFrame, memoryview] | None = None
    best_ms = NO_TIMESTAMP
    for segment in segments.from_offset(start):
        if segment.base_offset >= upper:
            break
        if segment.max_timestamp_ms <= best_ms:
            continue
        for frame, batch in _batches(segment, start, upper):
            if frame.batch.max_timestamp_ms > best_ms:
                best, best_ms = (frame, batch), frame.batch.max_timestamp_ms
    return _first_record(*best, best_ms, start=start, upper=upper) if best is not None else None


def _batches(segment: Segment, first: int, upper: int) -> Iterator[tuple[StoredFrame, memoryview]]:
    """The segment's batches that reach `first` and end below `upper`."""
    files = segment.pin()
    try:
        position = segment.position_before(first, files) if first > segment.base_offset else 0
        for _, view, frame in frames_in(files.log, position, segment.size_bytes):
            if frame.batch.last_offset >= upper:
                return
            if frame.batch.last_offset >= first:
                value = frame.position + HEADER_BYTES
                yield frame, view[value : value + frame.header.value_bytes]
    except FrameDamage as damage:
        raise CorruptFrame(segment.path, damage.position, damage.reason) from None
    finally:
        files.unpin()


def _first_record(
    frame: StoredFrame, batch: memoryview, timestamp_ms: int, *, start: int, upper: int
) -> TimestampOffset | None:
    for record in decode_records(batch):
        if record.timestamp_ms >= timestamp_ms and start <= record.offset < upper:
            return TimestampOffset(record.offset, record.timestamp_ms, frame.batch.leader_epoch)
    return None

"""From time to offset: the first record at or after a timestamp, and the newest of all.

The records of a batch without timestamps are found by the time of their append.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nlargest
from typing import NamedTuple

from goqueue.codec.batch_decode import decode_records
from goqueue.codec.frame import HEADER_BYTES, FrameDamage
from goqueue.codec.frame_walk import StoredFrame
from goqueue.errors import CorruptFrame, InvalidRequest
from goqueue.log.index.time_index import frame_time_ms
from goqueue.log.segment.frame_reader import find_frame, frame_at, frames_in
from goqueue.log.segment.segment import Segment
from goqueue.log.segment.segment_files import SegmentFiles
from goqueue.log.segment.segment_list import Segments
from goqueue.records import Record

_TIMESTAMP_MAX = 2**63 - 1
# Batches opened before a segment is gone through again for more.
_BATCHES_OPENED = 16


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
        if segment.max_timestamp_ms < timestamp_ms and not segment.has_unknown_times:
            continue
        first = max(segment.times_before(timestamp_ms), start)
        for frame, records in _opened(segment, first, start, upper, timestamp_ms):
            for record in records:
                if record.timestamp_ms >= timestamp_ms:
                    return _found(frame, record)
    return None


def newest(segments: Segments, *, start: int, upper: int) -> TimestampOffset | None:
    """The record with the largest timestamp in [start, upper), the first of them if there are several.

    What a segment or a batch says of its largest timestamp is a bound: the record that had
    it may be deleted, compacted away, or not to be seen yet. So the most promising come
    first, and what cannot be better any more is not opened.
    """
    within = [segment for segment in segments.from_offset(start) if segment.base_offset < upper]
    best: TimestampOffset | None = None
    for segment in sorted(within, key=lambda segment: (-_bound_ms(segment), segment.base_offset)):
        if best is not None and _bound_ms(segment) < best.timestamp_ms:
            break
        best = _newest_in(segment, best, start, upper)
    return best


def _bound_ms(segment: Segment) -> int:
    """No record of the segment is newer than this."""
    return _TIMESTAMP_MAX if segment.has_unknown_times else segment.max_timestamp_ms


def _newest_in(segment: Segment, best: TimestampOffset | None, start: int, upper: int) -> TimestampOffset | None:
    files, end = segment.pin_to_end()
    try:
        tried: tuple[int, int] | None = None
        while True:
            bounds = (
                (frame_time_ms(frame.header, frame.batch), -frame.header.offset, position)
                for position, frame, _ in _frames(segment, files, end, start, upper)
            )
            promising = nlargest(_BATCHES_OPENED, (row for row in bounds if tried is None or row[:2] < tried))
            for bound_ms, _, position in promising:
                if best is not None and bound_ms < best.timestamp_ms:
                    return best
                view, frame = frame_at(files.log, position, end)
                for record in _records(frame, view, start, upper):
                    best = _newer(best, _found(frame, record))
            if len(promising) < _BATCHES_OPENED:
                return best
            tried = promising[-1][:2]
    except FrameDamage as damage:
        raise CorruptFrame(segment.path, damage.position, damage.reason) from None
    finally:
        files.unpin()


def _opened(
    segment: Segment, first: int, start: int, upper: int, timestamp_ms: int
) -> Iterator[tuple[StoredFrame, list[Record]]]:
    """The batches from `first` on that may hold a record of that time, opened."""
    files, end = segment.pin_to_end()
    try:
        for _, frame, view in _frames(segment, files, end, first, upper):
            if frame_time_ms(frame.header, frame.batch) >= timestamp_ms:
                yield frame, _records(frame, view, start, upper)
    finally:
        files.unpin()


def _frames(
    segment: Segment, files: SegmentFiles, end: int, first: int, upper: int
) -> Iterator[tuple[int, StoredFrame, memoryview]]:
    """The frames that reach `first` and end below `upper`: position, frame, and the buffer it is in.

    Damaged ones are left out: nobody can read them, so they hold no record that could be found. Readers come upon the
    damage, and report it.
    """
    position: int | None = segment.frames_before(first, files)
    while position is not None:
        try:
            for chunk, view, frame in frames_in(files.log, position, end):
                if frame.batch.last_offset >= upper:
                    return
                if frame.batch.last_offset >= first:
                    yield chunk + frame.position, frame, view
        except FrameDamage as damage:
            position = find_frame(
                files.log, damage.position, end, offset_min=segment.base_offset, offset_max=segment.end_offset
            )
        else:
            return


def _records(frame: StoredFrame, view: memoryview, start: int, upper: int) -> list[Record]:
    value = frame.position + HEADER_BYTES
    try:
        opened = decode_records(view[value : value + frame.header.value_bytes])
    except InvalidRequest:
        # Its checksums hold, so this is what its producer sent: it has no record that a reader could look for.
        return []
    if frame.batch.max_timestamp_ms <= 0:
        append_ms = frame_time_ms(frame.header, frame.batch)
        opened = [record if record.timestamp_ms > 0 else record._replace(timestamp_ms=append_ms) for record in opened]
    return [record for record in opened if start <= record.offset < upper]


def _found(frame: StoredFrame, record: Record) -> TimestampOffset:
    return TimestampOffset(record.offset, record.timestamp_ms, frame.batch.leader_epoch)


def _newer(best: TimestampOffset | None, found: TimestampOffset) -> TimestampOffset:
    if best is None or (found.timestamp_ms, -found.offset) > (best.timestamp_ms, -best.offset):
        return found
    return best

"""The loop that decides how long a crash keeps a partition away: many small, plain frames, fast.

A plain frame has no producer, no control record, one lane and the epoch of the one before
it, so nothing but the indexes need to know of it. They are dealt with here in one loop
that makes no objects. Whatever is not plain, or not sound, is left to the careful reader.
"""

from __future__ import annotations

from struct import Struct

from crc32c import crc32c

from goqueue.codec.frame import HEADER_BYTES, PRIORITY_MAX
from goqueue.log.index.lane_index import LaneIndex
from goqueue.log.segment.frame_spans import START_CRC
from goqueue.log.segment.segment import Segment

# Start word and flags, CRC, offset, append time, priority, value and headers length; then of the batch base
# offset, length, leader epoch, attributes, last offset delta, largest timestamp, producer id, count.
_ROW = Struct(">4sIqqB3xIHqii5xhi8xqq6xi")
_ROW_BYTES = _ROW.size
_CONTROL = 0x20
_MIXED_LANES = 0x40
_PLAIN_CRC = {start: crc for start, crc in START_CRC.items() if not start[3] & (0x08 | _MIXED_LANES)}


def take_plain_frames(
    segment: Segment, lanes: LaneIndex, view: memoryview, chunk: int, expected: int, epoch: int
) -> tuple[int, int]:
    """Index the plain frames at the beginning of `view`, which lies at byte `chunk` of the segment.

    Returns how many bytes they take and which offset is due next.
    """
    index, times = segment.index, segment.times
    max_ms, next_position = times.max_timestamp_ms, index.next_position
    unpack_from, plain_crc = _ROW.unpack_from, _PLAIN_CRC
    position, last = 0, len(view) - _ROW_BYTES
    size = len(view)
    run_lane, run_first = -1, expected
    while position <= last:
        (
            start, crc, offset, append_ns, priority, value_bytes, headers_bytes,
            base, length, leader_epoch, attributes, delta, newest_ms, producer_id, count,
        ) = unpack_from(view, position)  # fmt: skip
        end = position + HEADER_BYTES + value_bytes + headers_bytes
        if (
            end > size
            or start not in plain_crc
            or producer_id >= 0
            or leader_epoch != epoch
            or offset != expected
            or base != offset
            or length + 12 != value_bytes
            or count != delta + 1
            or priority > PRIORITY_MAX
            or attributes & _CONTROL
            or crc32c(view[position + 8 : end], plain_crc[start]) != crc
        ):
            break
        if newest_ms <= 0:  # as `frame_time_ms` has it
            newest_ms = append_ns // 1_000_000
        if newest_ms > max_ms or chunk + position >= next_position:
            segment.note_frame(offset, chunk + position, newest_ms)
            max_ms, next_position = times.max_timestamp_ms, index.next_position
        if priority != run_lane:
            if offset > run_first:
                lanes.append_run(run_lane, run_first, offset - run_first)
            run_lane, run_first = priority, offset
        expected = offset + count
        position = end
    if expected > run_first:
        lanes.append_run(run_lane, run_first, expected - run_first)
    return position, expected

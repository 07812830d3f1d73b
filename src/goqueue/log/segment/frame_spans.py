"""Frames in a buffer, checked, with no more taken out of each than reading needs.

`codec.frame_walk.walk_frames` does the same and gives both headers whole; this is the loop
under every fetch, where making those takes as long as the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from crc32c import crc32c

from goqueue.codec.frame import HEADER_BYTES, Flags
from goqueue.codec.frame_walk import walk_frames

# Start word and flags, CRC, offset; value and headers length; the batch's base offset,
# length and last offset delta.
_SPAN = Struct(">4sIq12xIHqi11xi")
_SPAN_BYTES = _SPAN.size
_START = b"GQ\x01"
_FLAGS_MAX = sum(Flags)
# The checksum of the four bytes before the CRC, for every form that they may have.
START_CRC = {
    _START + bytes([flags]): crc32c(_START + bytes([flags]))
    for flags in range(_FLAGS_MAX + 1)
    if not flags & ~_FLAGS_MAX
}


def frame_spans(view: memoryview) -> Iterator[tuple[int, int, int, int, int]]:
    """(position, end of the value, end of the frame, first offset, last offset) of each frame in `view`.

    Raises what `walk_frames` raises where it would.
    """
    size = len(view)
    position = 0
    unpack_from, start_crc = _SPAN.unpack_from, START_CRC
    while position < size:
        if size - position < _SPAN_BYTES:
            break
        start, crc, offset, value_bytes, headers_bytes, base, length, delta = unpack_from(view, position)
        value_end = position + HEADER_BYTES + value_bytes
        end = value_end + headers_bytes
        if (
            end > size
            or start not in start_crc
            or crc32c(view[position + 8 : end], start_crc[start]) != crc
            or base != offset
            or length + 12 != value_bytes
            or delta < 0
        ):
            break
        yield position, value_end, end, offset, offset + delta
        position = end
    if position < size:
        # Something is wrong, or merely cut off: the careful reader says what.
        for frame in walk_frames(view, position):
            value_end = frame.position + HEADER_BYTES + frame.header.value_bytes
            yield frame.position, value_end, frame.end, frame.header.offset, frame.batch.last_offset

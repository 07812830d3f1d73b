"""Frames out of a file, in large reads, each checked; and how to find the next good one behind a bad one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from goqueue.codec.frame import HEADER_BYTES, FrameDamage, FrameHeader, parse_frame_header
from goqueue.codec.frame_walk import StoredFrame, walk_frames
from goqueue.ports import File

CHUNK_BYTES = 1024 * 1024
# Deals with the frames at the beginning of a chunk, given it and where it lies; returns how many bytes those take.
TakeFirst = Callable[[memoryview, int], int]
_START = b"GQ\x01"


def frames_in(
    file: File, position: int, end: int, take_first: TakeFirst | None = None
) -> Iterator[tuple[int, memoryview, StoredFrame]]:
    """Every frame from `position` to `end` as (where its chunk begins, the chunk, the frame in it).

    Raises FrameDamage, its position counted in the file, at the first that is not whole.
    `take_first` may take frames off the beginning of each chunk, which are not yielded then.
    """
    want = CHUNK_BYTES
    while position < end:
        asked = min(want, end - position)
        view = memoryview(file.pread(asked, position))
        want = CHUNK_BYTES
        try:
            taken = take_first(view, position) if take_first is not None else 0
            for frame in walk_frames(view, taken):
                yield position, view, frame
        except FrameDamage as damage:
            at = position + damage.position
            # Fewer bytes than asked for: the file was cut, and to ask again would give the same for ever.
            if not damage.is_short or position + len(view) >= end or len(view) < asked:
                raise FrameDamage(at, damage.reason, is_short=damage.is_short) from None
            if damage.position == 0:
                want = _size_of_large_frame(view, at, end)
            position = at
        else:
            if not view:
                raise FrameDamage(position, f"{end - position} bytes are missing", is_short=True)
            position += len(view)


def frame_at(file: File, position: int, end: int) -> tuple[memoryview, StoredFrame]:
    """The one frame at `position`, checked."""
    start = file.pread(min(HEADER_BYTES, end - position), position)
    size = _header_at(start, position).size
    view = memoryview(file.pread(min(size, end - position), position))
    try:
        return view, next(walk_frames(view))
    except FrameDamage as damage:
        raise FrameDamage(position, damage.reason, is_short=damage.is_short) from None


def find_frame(file: File, damaged: int, end: int, *, offset_min: int, offset_max: int) -> int | None:
    """Where the first good frame behind the damaged one begins; None if no good one follows.

    The damaged frame's own length is believed first, so that a frame inside somebody's
    message is not taken for one of ours. Then every place that looks like a beginning
    is tried. A frame counts as found if its checksum holds, its offset lies in the range
    where the next one can be, and what follows it is the end or looks like a frame too.
    """
    for position in _candidates(file, damaged, end):
        try:
            _, frame = frame_at(file, position, end)
        except FrameDamage:
            continue
        if offset_min <= frame.header.offset <= offset_max and _is_followed(file, position + frame.end, end):
            return position
    return None


def _candidates(file: File, damaged: int, end: int) -> Iterator[int]:
    try:
        behind = damaged + _header_at(file.pread(HEADER_BYTES, damaged), damaged).size
    except FrameDamage:
        behind = end
    if behind < end:
        yield behind
    position = damaged + 1
    while position < end:
        data = file.pread(min(CHUNK_BYTES, end - position), position)
        found = data.find(_START)
        while found >= 0:
            yield position + found
            found = data.find(_START, found + 1)
        if position + len(data) >= end or len(data) < len(_START):
            return
        position += len(data) - len(_START) + 1


def _is_followed(file: File, position: int, end: int) -> bool:
    following = file.pread(min(len(_START), end - position), position)
    return _START.startswith(bytes(following))


def _header_at(data: bytes | bytearray, position: int) -> FrameHeader:
    try:
        return parse_frame_header(data)
    except FrameDamage as damage:
        raise FrameDamage(position, damage.reason, is_short=damage.is_short) from None


def _size_of_large_frame(view: memoryview, position: int, end: int) -> int:
    """Bytes of a frame that no chunk can hold, read in one go; damage if the file cannot hold it either."""
    size = parse_frame_header(view).size
    if size > end - position:
        raise FrameDamage(position, f"{size - end + position} of its bytes are missing", is_short=True)
    return size

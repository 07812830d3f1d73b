"""Frames back to back: each checked whole, form, checksum and the batch inside.

Both loops write the same check out: a call for each frame would cost as much as the check.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from goqueue.codec.batch import BatchHeader
from goqueue.codec.frame import (
    FLAGS_UNUSED,
    HEADER_BYTES,
    PRIORITY_MAX,
    START_CRC,
    START_WORD,
    VALUE_START_BYTES,
    FrameDamage,
    FrameHeader,
    bad_header,
    parse_frame_header,
)
from goqueue.ports import Buffer


class StoredFrame(NamedTuple):
    """A frame found sound by `walk_frames`: where it begins and ends, and both of its headers."""

    position: int
    end: int
    header: FrameHeader
    batch: BatchHeader


def check_frame(buffer: Buffer, position: int = 0) -> FrameHeader:
    """Check the whole frame at `position`: form, checksum, and a batch that fits its frame."""
    return next(walk_frames(buffer, position)).header


def walk_frames(buffer: Buffer, position: int = 0, end: int | None = None) -> Iterator[StoredFrame]:
    """Every frame from `position` to `end`, checked as `check_frame` does; `FrameDamage` at the first bad one.

    One loop and one unpacking per frame: after a crash the recovery of a segment of
    small frames is as fast as this function.
    """
    view = memoryview(buffer)
    size = len(view) if end is None else end
    unpack_from, start_crc = _HEADER_AND_BATCH.unpack_from, START_CRC
    while position < size:
        if size - position < VALUE_START_BYTES:
            raise _short(view, position, size)
        fields = unpack_from(view, position)
        start, flags, crc, offset, timestamp_ns, priority, reserved, key_bytes, value_bytes, headers_bytes = fields[:10]
        if (
            start != START_WORD
            or reserved
            or key_bytes
            or offset < 0
            or priority > PRIORITY_MAX
            or flags & FLAGS_UNUSED
        ):
            raise bad_header(view, position)
        frame_end = position + HEADER_BYTES + value_bytes + headers_bytes
        if frame_end > size:
            raise FrameDamage(position, f"{frame_end - size} of its bytes are missing", is_short=True)
        if crc32c(view[position + 8 : frame_end], start_crc[flags]) != crc:
            raise FrameDamage(position, "the checksum does not match")
        batch: BatchHeader = _batch_header(BatchHeader, fields[10:])
        if batch[0] != offset or batch[1] + 12 != value_bytes or batch[3] != 2 or not 0 <= batch[12] <= batch[6] + 1:
            raise FrameDamage(position, "the batch inside does not fit its frame")
        header: FrameHeader = _frame_header(
            FrameHeader, (flags, crc, offset, timestamp_ns, priority, 0, value_bytes, headers_bytes)
        )
        yield _stored_frame(StoredFrame, (position, frame_end, header, batch))
        position = frame_end


def sound_frames(buffer: Buffer, before: int) -> tuple[list[int], int, bool]:
    """Where the batches of all frames up to offset `before` begin, each frame checked as `walk_frames` does.

    Also how many bytes these frames take, and whether `before` was reached: what is behind that is not looked at.
    Ends at a frame that is cut short. For who reads megabytes at once and the headers of all batches together.
    """
    view = memoryview(buffer)
    found: list[int] = []
    position, size = 0, len(view)
    unpack_from, start_crc = _CHECKED.unpack_from, START_CRC
    while size - position >= VALUE_START_BYTES:
        # fmt: off
        (start, flags, crc, offset, priority, reserved, key_bytes, value_bytes, headers_bytes,
         base_offset, length, magic, last_delta, count) = unpack_from(view, position)
        # fmt: on
        if (
            start != START_WORD
            or reserved
            or key_bytes
            or offset < 0
            or priority > PRIORITY_MAX
            or flags & FLAGS_UNUSED
        ):
            raise bad_header(view, position)
        frame_end = position + HEADER_BYTES + value_bytes + headers_bytes
        if frame_end > size:
            return found, position, False
        if crc32c(view[position + 8 : frame_end], start_crc[flags]) != crc:
            raise FrameDamage(position, "the checksum does not match")
        if base_offset != offset or length + 12 != value_bytes or magic != 2 or not 0 <= count <= last_delta + 1:
            raise FrameDamage(position, "the batch inside does not fit its frame")
        if offset >= before:
            return found, position, True
        found.append(position + HEADER_BYTES)
        position = frame_end
        if offset + last_delta + 1 >= before:
            return found, position, True
    if position < size:
        damage = _short(view, position, size)
        if not damage.is_short:
            raise damage
    return found, position, False


# The header of a frame and that of its batch, read by one unpacking.
_HEADER_AND_BATCH = Struct(">3sBIqqBBHIH" + "qiibIhiqqqhii")
# The same without what no check looks at.
_CHECKED = Struct(">3sBIq8xBBHIH" + "qi4xb4x2xi8x8x8x2x4xi")
# Skips the keyword handling of a NamedTuple's own constructor, which costs more than the parsing.
_frame_header = tuple.__new__
_batch_header = tuple.__new__
_stored_frame = tuple.__new__


def _short(view: memoryview, position: int, size: int) -> FrameDamage:
    if size - position < HEADER_BYTES:
        return FrameDamage(position, "the header is cut short", is_short=True)
    header = parse_frame_header(view, position)
    if header.size > size - position:
        return FrameDamage(position, f"{header.size - size + position} of its bytes are missing", is_short=True)
    return FrameDamage(position, f"a value of {header.value_bytes} bytes holds no batch")

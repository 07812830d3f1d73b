"""The frame: 34 bytes around one record batch, and the checksum that guards them all.

    Magic "GQ"(2) Version(1) Flags(1) CRC(4) Offset(8) Timestamp ns(8) Priority(1)
    Reserved(1) KeyLen(2) ValueLen(4) HeaderLen(2), then key, value, headers

Big-endian. The value is one Kafka batch, the key is empty, the headers belong to the
frame and not to its records. The CRC covers every byte but its own four.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntFlag
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from goqueue.codec.batch import HEADER_BYTES as BATCH_HEADER_BYTES
from goqueue.codec.crc32c import followed_by
from goqueue.errors import GoQueueError, InvalidRecord, MessageTooLarge
from goqueue.ports import Buffer

HEADER_BYTES = 34
PRIORITY_MAX = 4
VALUE_BYTES_MAX = 2**32 - 1
HEADERS_BYTES_MAX = 2**16 - 1
# A frame has no key, so its batch header follows its own header: no frame is shorter than both.
VALUE_START_BYTES = HEADER_BYTES + BATCH_HEADER_BYTES
_MAGIC = b"GQ"
_VERSION = 1
START_WORD = _MAGIC + bytes([_VERSION])
# The four bytes before the CRC take 256 forms, so both they and their checksum are tables.
_START = [START_WORD + bytes([flags]) for flags in range(256)]
START_CRC = [crc32c(start) for start in _START]


class Flags(IntFlag):
    """What the frame says of its batch without opening it."""

    # Every frame's flags are tested on the hot path, and the enum's own operators are fifty
    # times slower than those of int: a test for a flag shall cost nothing.
    __and__ = __rand__ = int.__and__  # type: ignore[assignment]
    __or__ = __ror__ = int.__or__  # type: ignore[assignment]

    COMPRESSED = 0x01
    HEADERS = 0x02
    CONTROL = 0x08
    COMMIT = 0x10
    TRANSACTIONAL = 0x20
    MIXED_LANES = 0x40


FLAGS_UNUSED = 0xFF & ~sum(Flags)


class FrameDamage(GoQueueError):
    """Bytes that are no whole, undamaged frame. `is_short` says that the buffer ended inside it."""

    def __init__(self, position: int, reason: str, *, is_short: bool = False) -> None:
        super().__init__(f"frame at byte {position}: {reason}")
        self.position = position
        self.reason = reason
        self.is_short = is_short


class FrameHeader(NamedTuple):
    """The 34 bytes, without magic, version and reserved. `flags` is a plain int: enums are slow."""

    flags: int
    crc: int
    offset: int
    timestamp_ns: int
    priority: int
    key_bytes: int
    value_bytes: int
    headers_bytes: int

    @property
    def size(self) -> int:
        """Bytes of the whole frame."""
        return HEADER_BYTES + self.key_bytes + self.value_bytes + self.headers_bytes


class Outline(NamedTuple):
    """A frame found by `outline_frames`: where it begins and ends, its first offset, and its flags."""

    position: int
    end: int
    offset: int
    flags: int


def encode_frame_header(
    parts: Sequence[Buffer],
    *,
    flags: int,
    offset: int,
    timestamp_ns: int,
    priority: int,
    headers: bytes = b"",
    last_crc: int | None = None,
) -> bytes:
    """The header for a value that lies in `parts`. Write it, the parts, then `headers`.

    `last_crc` is the checksum of the last part, if it is known. The frame's own is then made of it where that is
    cheaper than to look at the bytes again; it also tells of bytes that changed since.
    """
    value_bytes = 0
    for part in parts:
        value_bytes += len(part)
    if value_bytes > VALUE_BYTES_MAX:
        raise MessageTooLarge(value_bytes, VALUE_BYTES_MAX)
    headers_bytes = len(headers)
    if headers_bytes:
        if headers_bytes > HEADERS_BYTES_MAX:
            raise InvalidRecord(f"frame headers of {headers_bytes} bytes are larger than {HEADERS_BYTES_MAX}")
        flags = int(flags) | _HEADERS
    tail = _TAIL.pack(offset, timestamp_ns, priority, 0, 0, value_bytes, headers_bytes)
    crc = crc32c(tail, START_CRC[flags])
    is_known = last_crc is not None and len(parts[-1]) >= _LARGE_BYTES
    for part in parts[:-1] if is_known else parts:
        crc = crc32c(part, crc)
    if last_crc is not None and is_known:
        crc = followed_by(crc, last_crc, len(parts[-1]))
    if headers_bytes:
        crc = crc32c(headers, crc)
    return _START[flags] + crc.to_bytes(4, "big") + tail


def parse_frame_header(buffer: Buffer, position: int = 0) -> FrameHeader:
    """Read the header at `position`. Its form is checked here, its checksum by `frame_walk`."""
    if len(buffer) - position < HEADER_BYTES:
        raise FrameDamage(position, "the header is cut short", is_short=True)
    start, flags, crc, offset, timestamp_ns, priority, reserved, key_bytes, value_bytes, headers_bytes = (
        _HEADER.unpack_from(buffer, position)
    )
    if start != START_WORD or reserved or key_bytes or offset < 0 or priority > PRIORITY_MAX or flags & FLAGS_UNUSED:
        raise bad_header(buffer, position)
    return _frame_header(FrameHeader, (flags, crc, offset, timestamp_ns, priority, 0, value_bytes, headers_bytes))


def outline_frames(buffer: Buffer, start: int, size: int) -> Iterator[Outline]:
    """Every frame whose header lies in `buffer`, by the form of that alone: for who looks for a place.

    The buffer was taken at byte `start` of `size`. Ends where a frame is cut short; `FrameDamage` where none begins.
    """
    view = memoryview(buffer)
    position, last = 0, min(len(view) - HEADER_BYTES, size - start - VALUE_START_BYTES)
    while position <= last:
        word, flags, offset, key_bytes, value_bytes, headers_bytes = _OUTLINE.unpack_from(view, position)
        if word != START_WORD or key_bytes:
            raise FrameDamage(start + position, bad_header(view, position).reason)
        end = position + HEADER_BYTES + value_bytes + headers_bytes
        if start + end > size:
            return
        yield _outline(Outline, (start + position, start + end, offset, flags))
        position = end


def bad_header(buffer: Buffer, position: int) -> FrameDamage:
    """What is wrong with the form of the header at `position`."""
    start, flags, _, offset, _, priority, reserved, key_bytes, _, _ = _HEADER.unpack_from(buffer, position)
    if start[:2] != _MAGIC:
        return FrameDamage(position, f"no frame begins here: {bytes(start[:2]).hex()} is not 'GQ'")
    if start[2] != _VERSION:
        return FrameDamage(position, f"version {start[2]} is not known")
    if flags & FLAGS_UNUSED:
        return FrameDamage(position, f"flags {flags:#04x} are not known")
    if offset < 0:
        return FrameDamage(position, f"offset {offset} is negative")
    if priority > PRIORITY_MAX:
        return FrameDamage(position, f"priority {priority} is not a lane")
    return FrameDamage(position, f"reserved byte {reserved} and key length {key_bytes} must be zero")


_HEADERS = int(Flags.HEADERS)
_HEADER = Struct(">3sBIqqBBHIH")
_OUTLINE = Struct(">3sB4xq10xHIH")
_TAIL = Struct(">qqBBHIH")
# From here on it is cheaper to compute with two checksums than to look at the bytes.
_LARGE_BYTES = 128 * 1024
# Skips the keyword handling of a NamedTuple's own constructor, which costs more than the parsing.
_frame_header = tuple.__new__
_outline = tuple.__new__

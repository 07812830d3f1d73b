"""The frame: 34 bytes around one record batch, and the checksum that guards them all.

    Magic "GQ"(2) Version(1) Flags(1) CRC(4) Offset(8) Timestamp ns(8) Priority(1)
    Reserved(1) KeyLen(2) ValueLen(4) HeaderLen(2), then key, value, headers

Big-endian. The value is one Kafka batch, the key is empty, the headers belong to the
frame and not to its records. The CRC covers every byte but its own four.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntFlag
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from goqueue.codec.batch import BatchHeader
from goqueue.codec.crc32c import followed_by
from goqueue.errors import GoQueueError, InvalidRecord, MessageTooLarge
from goqueue.ports import Buffer

HEADER_BYTES = 34
PRIORITY_MAX = 4
VALUE_BYTES_MAX = 2**32 - 1
HEADERS_BYTES_MAX = 2**16 - 1


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


class StoredFrame(NamedTuple):
    """A frame found sound by `walk_frames`: where it begins and ends, and both of its headers."""

    position: int
    end: int
    header: FrameHeader
    batch: BatchHeader


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
    crc = crc32c(tail, _START_CRC[flags])
    is_known = last_crc is not None and len(parts[-1]) >= _LARGE_BYTES
    for part in parts[:-1] if is_known else parts:
        crc = crc32c(part, crc)
    if last_crc is not None and is_known:
        crc = followed_by(crc, last_crc, len(parts[-1]))
    if headers_bytes:
        crc = crc32c(headers, crc)
    return _START[flags] + crc.to_bytes(4, "big") + tail


def parse_frame_header(buffer: Buffer, position: int = 0) -> FrameHeader:
    """Read the header at `position`. Its form is checked here, its checksum in `check_frame`."""
    if len(buffer) - position < HEADER_BYTES:
        raise FrameDamage(position, "the header is cut short", is_short=True)
    start, flags, crc, offset, timestamp_ns, priority, reserved, key_bytes, value_bytes, headers_bytes = (
        _HEADER.unpack_from(buffer, position)
    )
    if start != _START_WORD or reserved or key_bytes or offset < 0 or priority > PRIORITY_MAX or flags & _UNKNOWN:
        raise _bad_header(buffer, position)
    return _frame_header(FrameHeader, (flags, crc, offset, timestamp_ns, priority, 0, value_bytes, headers_bytes))


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
    unpack_from, start_crc = _HEADER_AND_BATCH.unpack_from, _START_CRC
    while position < size:
        if size - position < _VALUE_START_BYTES:
            raise _short(view, position, size)
        fields = unpack_from(view, position)
        start, flags, crc, offset, timestamp_ns, priority, reserved, key_bytes, value_bytes, headers_bytes = fields[:10]
        if start != _START_WORD or reserved or key_bytes or offset < 0 or priority > PRIORITY_MAX or flags & _UNKNOWN:
            raise _bad_header(view, position)
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
    unpack_from, start_crc = _CHECKED.unpack_from, _START_CRC
    while size - position >= _VALUE_START_BYTES:
        # fmt: off
        (start, flags, crc, offset, priority, reserved, key_bytes, value_bytes, headers_bytes,
         base_offset, length, magic, last_delta, count) = unpack_from(view, position)
        # fmt: on
        if start != _START_WORD or reserved or key_bytes or offset < 0 or priority > PRIORITY_MAX or flags & _UNKNOWN:
            raise _bad_header(view, position)
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


def outline_frames(buffer: Buffer, start: int, size: int) -> Iterator[Outline]:
    """Every frame whose header lies in `buffer`, by the form of that alone: for who looks for a place.

    The buffer was taken at byte `start` of `size`. Ends where a frame is cut short; `FrameDamage` where none begins.
    """
    view = memoryview(buffer)
    position, last = 0, min(len(view) - HEADER_BYTES, size - start - _VALUE_START_BYTES)
    while position <= last:
        word, flags, offset, key_bytes, value_bytes, headers_bytes = _OUTLINE.unpack_from(view, position)
        if word != _START_WORD or key_bytes:
            raise FrameDamage(start + position, _bad_header(view, position).reason)
        end = position + HEADER_BYTES + value_bytes + headers_bytes
        if start + end > size:
            return
        yield _outline(Outline, (start + position, start + end, offset, flags))
        position = end


def encode_headers(pairs: Iterable[tuple[str, bytes]]) -> bytes:
    """The headers block: Count(2), then for each KeyLen(2) key ValLen(2) value."""
    count = 0
    pieces = [b""]
    for name, value in pairs:
        key = name.encode()
        if len(key) > HEADERS_BYTES_MAX or len(value) > HEADERS_BYTES_MAX:
            raise InvalidRecord(f"frame header {name[:40]!r} is too long")
        pieces += (_U16.pack(len(key)), key, _U16.pack(len(value)), value)
        count += 1
    if not count:
        return b""
    pieces[0] = _U16.pack(count)
    block = b"".join(pieces)
    if len(block) > HEADERS_BYTES_MAX:
        raise InvalidRecord(f"frame headers of {len(block)} bytes are larger than {HEADERS_BYTES_MAX}")
    return block


def decode_headers(block: Buffer) -> list[tuple[str, bytes]]:
    """The pairs in a headers block. Positions in the damage are those inside the block."""
    if not len(block):
        return []
    view = memoryview(block)
    texts: list[bytes] = []
    position = 2
    for _ in range(2 * _u16_at(view, 0)):
        length = _u16_at(view, position)
        position += 2
        if position + length > len(view):
            raise FrameDamage(position, "the headers block is cut short")
        texts.append(bytes(view[position : position + length]))
        position += length
    if position != len(view):
        raise FrameDamage(position, "the headers block has bytes left over")
    try:
        return [(key.decode(), value) for key, value in zip(texts[::2], texts[1::2], strict=True)]
    except UnicodeDecodeError as error:
        raise FrameDamage(0, "a header's name is not UTF-8") from error


_MAGIC = b"GQ"
_VERSION = 1
_START_WORD = _MAGIC + bytes([_VERSION])
_HEADERS = int(Flags.HEADERS)
_UNKNOWN = 0xFF & ~sum(Flags)
_HEADER = Struct(">3sBIqqBBHIH")
_OUTLINE = Struct(">3sB4xq10xHIH")
_TAIL = Struct(">qqBBHIH")
# A frame has no key, so its batch header follows its own header: one unpacking reads both.
_HEADER_AND_BATCH = Struct(">3sBIqqBBHIH" + "qiibIhiqqqhii")
_VALUE_START_BYTES = _HEADER_AND_BATCH.size
# The same without what no check looks at.
_CHECKED = Struct(">3sBIq8xBBHIH" + "qi4xb4x2xi8x8x8x2x4xi")
_U16 = Struct(">H")
# From here on it is cheaper to compute with two checksums than to look at the bytes.
_LARGE_BYTES = 256 * 1024
# The four bytes before the CRC take 256 forms, so both they and their checksum are tables.
_START = [_START_WORD + bytes([flags]) for flags in range(256)]
_START_CRC = [crc32c(start) for start in _START]
# Skips the keyword handling of a NamedTuple's own constructor, which costs more than the parsing.
_frame_header = tuple.__new__
_batch_header = tuple.__new__
_stored_frame = tuple.__new__
_outline = tuple.__new__


def _u16_at(view: memoryview, position: int) -> int:
    if position + 2 > len(view):
        raise FrameDamage(position, "the headers block is cut short")
    (number,) = _U16.unpack_from(view, position)
    return int(number)


def _short(view: memoryview, position: int, size: int) -> FrameDamage:
    if size - position < HEADER_BYTES:
        return FrameDamage(position, "the header is cut short", is_short=True)
    header = parse_frame_header(view, position)
    if header.size > size - position:
        return FrameDamage(position, f"{header.size - size + position} of its bytes are missing", is_short=True)
    return FrameDamage(position, f"a value of {header.value_bytes} bytes holds no batch")


def _bad_header(buffer: Buffer, position: int) -> FrameDamage:
    start, flags, _, offset, _, priority, reserved, key_bytes, _, _ = _HEADER.unpack_from(buffer, position)
    if start[:2] != _MAGIC:
        return FrameDamage(position, f"no frame begins here: {bytes(start[:2]).hex()} is not 'GQ'")
    if start[2] != _VERSION:
        return FrameDamage(position, f"version {start[2]} is not known")
    if flags & _UNKNOWN:
        return FrameDamage(position, f"flags {flags:#04x} are not known")
    if offset < 0:
        return FrameDamage(position, f"offset {offset} is negative")
    if priority > PRIORITY_MAX:
        return FrameDamage(position, f"priority {priority} is not a lane")
    return FrameDamage(position, f"reserved byte {reserved} and key length {key_bytes} must be zero")

"""The headers block of a frame: Count(2), then for each KeyLen(2) key ValLen(2) value. Not those of its records."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from goqueue.codec.frame import HEADERS_BYTES_MAX, FrameDamage
from goqueue.errors import InvalidRecord
from goqueue.ports import Buffer


def encode_headers(pairs: Iterable[tuple[str, bytes]]) -> bytes:
    """The block for these pairs; nothing at all for none."""
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


_U16 = Struct(">H")


def _u16_at(view: memoryview, position: int) -> int:
    if position + 2 > len(view):
        raise FrameDamage(position, "the headers block is cut short")
    (number,) = _U16.unpack_from(view, position)
    return int(number)

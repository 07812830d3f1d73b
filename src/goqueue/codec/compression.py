"""The four compressions a Kafka batch may have, with a bound on what they unpack to.

Kafka's dialects: snappy in the framing of the Java library xerial (plain blocks are
read too), lz4 as frames with independent blocks, zstd and gzip as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from struct import Struct

import cramjam

from goqueue.errors import CorruptBatch, UnpacksTooLarge, UnsupportedCompression
from goqueue.ports import Buffer


class Codec(IntEnum):
    """How the records of a batch are packed. Values are Kafka's."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: int, data: Buffer) -> bytes:
    """Pack `data` so that every Kafka client can unpack it."""
    if codec == Codec.NONE:
        return bytes(data)
    if codec == Codec.GZIP:
        return bytes(cramjam.gzip.compress(data, level=6))
    if codec == Codec.SNAPPY:
        return _xerial_compress(data)
    if codec == Codec.LZ4:
        # Java's reader refuses blocks that refer to each other.
        packer = cramjam.lz4.Compressor(block_linked=False)
        packer.compress(bytes(data))
        return bytes(packer.finish())
    if codec == Codec.ZSTD:
        return bytes(cramjam.zstd.compress(data, level=3))
    raise UnsupportedCompression(f"compression type {codec} is not known")


def decompress(codec: int, data: Buffer, size_max: int) -> bytes:
    """Unpack `data`; more than `size_max` bytes, or damage, is a `CorruptBatch`."""
    if codec == Codec.NONE:
        return bytes(data)
    try:
        if codec == Codec.GZIP:
            return _unpack(cramjam.gzip.decompress_into, data, size_max)
        if codec == Codec.SNAPPY:
            return _snappy_decompress(memoryview(data), size_max)
        if codec == Codec.LZ4:
            return _unpack(cramjam.lz4.decompress_into, data, size_max)
        if codec == Codec.ZSTD:
            return _unpack(cramjam.zstd.decompress_into, data, size_max)
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"compressed records cannot be unpacked: {error}") from error
    raise UnsupportedCompression(f"compression type {codec} is not known")


_XERIAL_HEADER = b"\x82SNAPPY\x00" + (1).to_bytes(4, "big") + (1).to_bytes(4, "big")
_XERIAL_BLOCK_BYTES = 32 * 1024
_XERIAL_LENGTH = Struct(">i")
_FIRST_GUESS_BYTES_MIN = 64 * 1024
_GUESS_FACTOR = 8
# What cramjam says when the room it was given is too small.
_NO_ROOM = "failed to write whole buffer"


def _unpack(decompress_into: Callable[[Buffer, bytearray], int], data: Buffer, size_max: int) -> bytes:
    # The sizes that these formats carry are optional and may lie, so the room grows by
    # trial; it never exceeds the bound, whatever the input claims.
    room_bytes = min(size_max, max(_FIRST_GUESS_BYTES_MIN, len(data) * _GUESS_FACTOR))
    while True:
        room = bytearray(room_bytes)
        try:
            written = decompress_into(data, room)
        except cramjam.DecompressionError as error:
            if _NO_ROOM not in str(error):
                raise
            if room_bytes >= size_max:
                raise _too_large(size_max) from error
            room_bytes = min(size_max, room_bytes * _GUESS_FACTOR)
        else:
            return bytes(memoryview(room)[:written])


def _xerial_compress(data: Buffer) -> bytes:
    view = memoryview(data)
    pieces = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        pieces += (_XERIAL_LENGTH.pack(len(block)), block)
    return b"".join(pieces)


def _snappy_decompress(view: memoryview, size_max: int) -> bytes:
    if view[:8] != _XERIAL_HEADER[:8]:
        return _snappy_block(view, size_max)
    pieces: list[bytes] = []
    total_bytes = 0
    position = len(_XERIAL_HEADER)
    while position < len(view):
        if position + _XERIAL_LENGTH.size > len(view):
            raise CorruptBatch("compressed records end inside a snappy block's length")
        (length,) = _XERIAL_LENGTH.unpack_from(view, position)
        position += _XERIAL_LENGTH.size
        if not 0 <= length <= len(view) - position:
            raise CorruptBatch(f"a snappy block claims {length} bytes of the {len(view) - position} left")
        pieces.append(_snappy_block(view[position : position + length], size_max, total_bytes))
        total_bytes += len(pieces[-1])
        position += length
    return b"".join(pieces)


def _snappy_block(block: memoryview, size_max: int, before_bytes: int = 0) -> bytes:
    size = cramjam.snappy.decompress_raw_len(block)
    if before_bytes + size > size_max:
        raise _too_large(size_max)
    room = bytearray(size)
    written = cramjam.snappy.decompress_raw_into(block, room)
    if written != size:
        raise CorruptBatch(f"a snappy block of {size} bytes unpacked to {written}")
    return bytes(room)


def _too_large(size_max: int) -> UnpacksTooLarge:
    return UnpacksTooLarge(f"compressed records unpack to more than {size_max} bytes")

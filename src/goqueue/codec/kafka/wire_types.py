"""Kafka's types on the wire: what `decode` needs to read each. None trusts a length before it has seen the bytes.

Readers take the data, a position and the data's size, and return the value and the
position behind it. What is wrong with the bytes is raised as MalformedRequest, or as one
of BAD_BYTES by Python itself.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any
from uuid import UUID

from goqueue.errors import MalformedRequest

# Types of fixed size, as `struct` calls them.
NUMBERS: Mapping[str, str] = MappingProxyType(
    {
        "bool": "?",
        "int8": "b",
        "int16": "h",
        "uint16": "H",
        "int32": "i",
        "int64": "q",
        "float64": "d",
        "ms32": "i",
        "ms64": "q",
        "error": "h",
    }
)

BAD_BYTES = (struct.error, IndexError, UnicodeDecodeError)

# Array elements one request may hold in all. Each costs us a few hundred bytes of objects,
# so without this bound a request of small structs would cost thirty times its size.
ELEMENTS_MAX = 200_000

# Types with a length before them, as the source that reads them from `d[p:e]`.
SIZED: Mapping[str, str] = MappingProxyType(
    {"string": 'str(d[p:e], "utf-8")', "bytes": "bytes(d[p:e])", "records": "d[p:e]"}
)

unpack_int16 = struct.Struct(">h").unpack_from
unpack_int32 = struct.Struct(">i").unpack_from


def read_uvarint(data: memoryview, position: int) -> tuple[int, int]:
    """A number of up to 35 bits in groups of seven, the lowest first."""
    byte = data[position]
    value = byte & 0x7F
    shift = 7
    while byte & 0x80:
        position += 1
        byte = data[position]
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > 35:
            raise MalformedRequest("a length of more than five bytes")
    return value, position + 1


def read_uuid(data: memoryview, position: int, size: int) -> tuple[UUID | None, int]:
    """An id; the zero id is none."""
    end = _end(position, 16, size)
    number = int.from_bytes(data[position:end], "big")
    return (UUID(int=number) if number else None), end


def compact_length(data: memoryview, position: int) -> tuple[int, int]:
    """Compact lengths are one more than the length, so that zero can be null, which is -1 here."""
    value, position = read_uvarint(data, position)
    return value - 1, position


def bad_length(kind: str, length: int, position: int, size: int) -> MalformedRequest:
    """What is wrong with the length of a string, bytes or records."""
    if length < 0:
        return MalformedRequest(f"a {kind} of {length} bytes")
    return MalformedRequest(f"{length} bytes announced at byte {position}, {size - position} are there")


def bad_count(count: int) -> MalformedRequest:
    """What is wrong with the length of an array."""
    if count < 0:
        return MalformedRequest(f"an array of {count} elements")
    return MalformedRequest(f"an array announces {count} elements, more than the request can hold")


def read_tags(
    data: memoryview,
    position: int,
    size: int,
    elements: list[int],
    known: Mapping[int, tuple[str, Callable[[memoryview, int, int, list[int]], tuple[Any, int]]]],
) -> tuple[dict[str, Any], int]:
    """Tagged fields by name; unknown ones are skipped, as the protocol asks."""
    values = {}
    count, position = read_uvarint(data, position)
    for _ in range(count):
        tag, position = read_uvarint(data, position)
        length, position = read_uvarint(data, position)
        end = _end(position, length, size)
        if tag in known:
            name, read = known[tag]
            values[name], stopped = read(data, position, end, elements)
            if stopped != end:
                raise MalformedRequest(f"{name} does not fill its {length} bytes")
        position = end
    return values, position


def _end(position: int, length: int, size: int) -> int:
    end = position + length
    if end > size:
        raise MalformedRequest(f"{length} bytes announced at byte {position}, {size - position} are there")
    return end

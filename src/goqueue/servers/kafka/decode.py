"""Bytes to requests. Nothing here trusts a length before it has seen the bytes.

`decoder(key, version)` compiles the shape of one request, once; what it returns reads
it. Record data comes out as a view of the bytes handed in, never as a copy.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple
from uuid import UUID

from goqueue.errors import MalformedRequest
from goqueue.servers.kafka.schema import FieldShape, MessageShape, message_shape

# Array elements one request may hold in all. Each costs us a few hundred bytes of objects,
# so without this bound a request of small structs would cost thirty times its size.
ELEMENTS_MAX = 200_000


class RequestHeader(NamedTuple):
    """What every request begins with. `end` is where its body begins."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    end: int


class Cursor:
    """A place in a request, and how much of it may still become objects."""

    __slots__ = ("data", "elements_left", "position", "size")

    def __init__(self, data: memoryview, position: int = 0) -> None:
        self.data = data
        self.position = position
        self.size = len(data)
        self.elements_left = ELEMENTS_MAX

    def take(self, size: int) -> memoryview:
        """The next `size` bytes."""
        start = self.position
        end = start + size
        if size < 0 or end > self.size:
            raise MalformedRequest(f"{size} bytes announced at byte {start}, {self.size - start} are there")
        self.position = end
        return self.data[start:end]


Read = Callable[[Cursor], Any]


def read_header(data: memoryview) -> RequestHeader:
    """The first fields of a request. Tagged fields behind them are left to `skip_tags`."""
    if len(data) < _HEADER.size:
        raise MalformedRequest(f"a request of {len(data)} bytes has no header")
    key, version, correlation_id, name_size = _HEADER.unpack_from(data)
    end = _HEADER.size + max(name_size, 0)
    if end > len(data):
        raise MalformedRequest("the client id is longer than the request")
    try:
        name = str(data[_HEADER.size : end], "utf-8")
    except UnicodeDecodeError as error:
        raise MalformedRequest("the client id is not text") from error
    return RequestHeader(key, version, correlation_id, name, end)


def skip_tags(data: memoryview, position: int) -> int:
    """Where the body begins, behind the tagged fields of a flexible header."""
    cursor = Cursor(data, position)
    try:
        _read_tags(cursor, {})
    except _BAD_BYTES as error:
        raise MalformedRequest(f"the request's header is cut off: {error}") from error
    return cursor.position


@cache
def decoder(api_key: int, version: int) -> Callable[[memoryview, int], Any]:
    """A function (data, position) -> request, for one version of one API."""
    shape = message_shape(api_key, "request")
    read = _struct_reader(shape.fields, version, shape)

    def decode(data: memoryview, position: int) -> Any:
        cursor = Cursor(data, position)
        # Bytes behind the request are let pass, as Kafka does: librdkafka asks for the metadata
        # of all topics with three bytes too many.
        try:
            return read(cursor)
        except _BAD_BYTES as error:
            raise MalformedRequest(f"{shape.name} v{version} breaks off: {error}") from error

    return decode


# --- compiling ------------------------------------------------------------------------


def _struct_reader(fields: tuple[FieldShape, ...], version: int, shape: MessageShape) -> Read:
    """Reads the fields of one struct; those of other versions keep their defaults."""
    flexible = shape.is_flexible(version)
    defaults = {one.name: _default_of(one) for one in fields}
    steps = [
        (one.name, _field_reader(one, version, shape)) for one in fields if version in one.versions and one.tag is None
    ]
    tagged = {
        one.tag: (one.name, _field_reader(one, version, shape))
        for one in fields
        if version in one.versions and one.tag is not None
    }

    def read(cursor: Cursor) -> SimpleNamespace:
        values = defaults.copy()
        for name, read_field in steps:
            values[name] = read_field(cursor)
        if flexible:
            # Almost always there are no tags at all.
            if cursor.data[cursor.position]:
                values.update(_read_tags(cursor, tagged))
            else:
                cursor.position += 1
        return SimpleNamespace(**values)

    return read


def _default_of(one: FieldShape) -> object:
    if one.type == "struct" and not one.is_array and one.nullable is None:
        return SimpleNamespace(**{child.name: _default_of(child) for child in one.children})
    return one.default


def _field_reader(one: FieldShape, version: int, shape: MessageShape) -> Read:
    flexible = shape.is_flexible(version)
    # A tagged field is null by its absence, so a tag that is there is never null.
    nullable = one.is_nullable(version) and one.tag is None
    if one.is_array:
        item = (
            _struct_reader(one.children, version, shape)
            if one.type == "struct"
            else _scalar_reader(one.type, flexible=flexible, nullable=False)
        )
        return _array_reader(item, one.name, flexible=flexible, nullable=nullable)
    if one.type == "struct":
        read = _struct_reader(one.children, version, shape)
        return _nullable_struct_reader(read) if nullable else read
    return _scalar_reader(one.type, flexible=flexible, nullable=nullable)


def _array_reader(read_item: Read, name: str, *, flexible: bool, nullable: bool) -> Read:
    def read(cursor: Cursor) -> tuple[Any, ...] | None:
        count = _uvarint(cursor) - 1 if flexible else _int32(cursor)
        if count < 0:
            if count == -1 and nullable:
                return None
            raise MalformedRequest(f"{name} has {count} elements")
        cursor.elements_left -= count
        # Every element takes a byte at least, so a longer array cannot be in these bytes.
        if count > cursor.size - cursor.position or cursor.elements_left < 0:
            raise MalformedRequest(f"{name} announces {count} elements, more than the request can hold")
        return tuple([read_item(cursor) for _ in range(count)])

    return read


def _nullable_struct_reader(read_struct: Read) -> Read:
    def read(cursor: Cursor) -> Any:
        return read_struct(cursor) if _int8(cursor) >= 0 else None

    return read


def _scalar_reader(kind: str, *, flexible: bool, nullable: bool) -> Read:
    if kind in _FIXED:
        return _FIXED[kind]
    measure = _uvarint_length if flexible else _int16 if kind == "string" else _int32
    convert = _SIZED[kind]

    def read(cursor: Cursor) -> object:
        size = measure(cursor)
        if size == -1:
            if nullable:
                return None
            raise MalformedRequest(f"null where a {kind} must be")
        return convert(cursor.take(size))

    return read


def _read_tags(cursor: Cursor, known: dict[int, tuple[str, Read]]) -> dict[str, Any]:
    """Tagged fields by name; unknown ones are skipped, as the protocol asks."""
    values = {}
    for _ in range(_uvarint(cursor)):
        tag, size = _uvarint(cursor), _uvarint(cursor)
        content = cursor.take(size)
        if tag in known:
            name, read = known[tag]
            inner = Cursor(content)
            inner.elements_left = cursor.elements_left
            values[name] = read(inner)
            cursor.elements_left = inner.elements_left
            if inner.position != size:
                raise MalformedRequest(f"{name} does not fill its {size} bytes")
    return values


# --- the types of the wire ------------------------------------------------------------

_HEADER = struct.Struct(">hhih")
_BAD_BYTES = (struct.error, IndexError, UnicodeDecodeError)


def _fixed(code: str) -> Read:
    size = struct.calcsize(">" + code)
    unpack = struct.Struct(">" + code).unpack_from

    def read(cursor: Cursor) -> Any:
        position = cursor.position
        cursor.position = position + size
        return unpack(cursor.data, position)[0]

    return read


_int8 = _fixed("b")
_int16 = _fixed("h")
_int32 = _fixed("i")
_int64 = _fixed("q")


def _uvarint(cursor: Cursor) -> int:
    data, position = cursor.data, cursor.position
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
    cursor.position = position + 1
    return value


def _uvarint_length(cursor: Cursor) -> int:
    """Compact lengths are one more than the length, so that zero can be null."""
    return _uvarint(cursor) - 1


def _uuid(cursor: Cursor) -> UUID | None:
    number = int.from_bytes(cursor.take(16), "big")
    return UUID(int=number) if number else None


def _text(data: memoryview) -> str:
    return str(data, "utf-8")


def _same(data: memoryview) -> memoryview:
    return data


_SIZED: dict[str, Callable[[memoryview], object]] = {"string": _text, "bytes": bytes, "records": _same}

_FIXED: dict[str, Read] = {
    "bool": _fixed("?"),
    "int8": _int8,
    "int16": _int16,
    "uint16": _fixed("H"),
    "int32": _int32,
    "int64": _int64,
    "float64": _fixed("d"),
    "ms32": _int32,
    "ms64": _int64,
    "error": _int16,
    "uuid": _uuid,
}

"""Replies to bytes: a list of buffers, so that record data is sent from where it lies.

`encoder(key, version)` compiles the shape of one response, once. What it returns takes
the plain mapping that a handler made: names that this version lacks are dropped, names
that are missing get Kafka's default, and a name that no version knows is a bug of ours.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any
from uuid import UUID

from goqueue.ports import Buffer
from goqueue.servers.kafka.schema import FieldShape, MessageShape, message_shape

API_VERSIONS_KEY = 18

# Below this size it costs less to copy a buffer than to hand it to the kernel by itself (measured).
SMALL_BYTES = 1024

Write = Callable[["Parts", Any], None]


class Parts:
    """A response being written: small fields gather in `tail`, records stand by themselves."""

    __slots__ = ("done", "size_done", "tail")

    def __init__(self) -> None:
        self.done: list[Buffer] = []
        self.size_done = 0
        self.tail = bytearray()

    def add_views(self, views: Sequence[Buffer], size: int) -> None:
        """Put buffers of `size` bytes in all behind what is written; only small ones are copied."""
        if size < SMALL_BYTES * len(views):
            self.tail += b"".join(views)
            return
        if views:
            self.done.append(self.tail)
            self.done.extend(views)
            self.size_done += len(self.tail) + size
            self.tail = bytearray()

    def finish(self) -> list[Buffer]:
        """All buffers in order, the frame's length filled in."""
        size = self.size_done + len(self.tail)
        self.done.append(self.tail)
        _INT32.pack_into(self.done[0], 0, size - 4)
        return self.done


@cache
def encoder(api_key: int, version: int) -> Callable[[int, Mapping[str, Any]], list[Buffer]]:
    """A function (correlation id, reply) -> buffers of the whole frame."""
    shape = message_shape(api_key, "response")
    write = _struct_writer(shape.fields, version, shape)
    # The one exception of the protocol: a client that does not know our versions yet could
    # not tell how to read a flexible header, so ApiVersions never has one.
    has_tags = shape.is_flexible(version) and api_key != API_VERSIONS_KEY

    def encode(correlation_id: int, reply: Mapping[str, Any]) -> list[Buffer]:
        parts = Parts()
        parts.tail += _FRAME_HEAD.pack(0, correlation_id)
        if has_tags:
            parts.tail.append(0)
        write(parts, reply)
        return parts.finish()

    return encode


# --- compiling ------------------------------------------------------------------------


def _struct_writer(fields: tuple[FieldShape, ...], version: int, shape: MessageShape) -> Write:
    known = frozenset(one.name for one in fields)
    here = [one for one in fields if version in one.versions]
    steps = [
        (one.name, _default_of(one, version), _field_writer(one, version, shape)) for one in here if one.tag is None
    ]
    tagged = sorted(
        (one.tag, one.name, _default_of(one, version), _field_writer(one, version, shape))
        for one in here
        if one.tag is not None
    )
    tagged_names = frozenset(name for _, name, _, _ in tagged)
    flexible = shape.is_flexible(version)

    def write(parts: Parts, value: Mapping[str, Any]) -> None:
        assert value.keys() <= known, f"{shape.name} {shape.kind} knows no {sorted(value.keys() - known)}"  # noqa: S101
        for name, default, write_field in steps:
            write_field(parts, value.get(name, default))
        if flexible:
            # Almost always there are no tags at all.
            if tagged_names.isdisjoint(value):
                parts.tail.append(0)
            else:
                _write_tags(parts, value, tagged)

    return write


def _default_of(one: FieldShape, version: int) -> object:
    """None only where this version can say null; a struct is the mapping of its defaults.

    No records are an empty run, not null: some clients take null for a broken answer.
    """
    if one.type == "records":
        return ()
    if one.is_nullable(version):
        return one.default
    if one.is_array:
        return ()
    if one.type == "struct":
        return {}
    return "" if one.default is None and one.type == "string" else one.default


def _field_writer(one: FieldShape, version: int, shape: MessageShape) -> Write:
    flexible = shape.is_flexible(version)
    nullable = one.is_nullable(version) and one.tag is None
    if one.is_array:
        item = (
            _struct_writer(one.children, version, shape)
            if one.type == "struct"
            else _scalar_writer(one.type, flexible=flexible)
        )
        return _array_writer(item, flexible=flexible)
    if one.type == "struct":
        write = _struct_writer(one.children, version, shape)
        return _nullable_struct_writer(write) if nullable else write
    return _scalar_writer(one.type, flexible=flexible)


def _array_writer(write_item: Write, *, flexible: bool) -> Write:
    def write(parts: Parts, value: Sequence[Any] | None) -> None:
        count = -1 if value is None else len(value)
        if flexible:
            _write_uvarint(parts.tail, count + 1)
        else:
            parts.tail += _INT32.pack(count)
        for item in value or ():
            write_item(parts, item)

    return write


def _nullable_struct_writer(write_struct: Write) -> Write:
    def write(parts: Parts, value: Mapping[str, Any] | None) -> None:
        if value is None:
            parts.tail += b"\xff"
        else:
            parts.tail += b"\x01"
            write_struct(parts, value)

    return write


def _scalar_writer(kind: str, *, flexible: bool) -> Write:
    if kind in _FIXED:
        return _fixed(_FIXED[kind])
    if kind == "uuid":
        return _write_uuid
    if kind == "records":
        return _write_records_compact if flexible else _write_records
    if flexible:
        return _write_bytes_compact
    return _write_string if kind == "string" else _write_bytes


def _write_tags(parts: Parts, value: Mapping[str, Any], tagged: Sequence[tuple[int, str, object, Write]]) -> None:
    """Tagged fields that differ from their default, in the order of their tags."""
    contents = []
    for tag, name, default, write_field in tagged:
        one = value.get(name, default)
        if one is not None and one != default:
            inner = Parts()
            write_field(inner, one)
            contents.append((tag, inner.tail))
    _write_uvarint(parts.tail, len(contents))
    for tag, content in contents:
        _write_uvarint(parts.tail, tag)
        _write_uvarint(parts.tail, len(content))
        parts.tail += content


# --- the types of the wire ------------------------------------------------------------

_FRAME_HEAD = struct.Struct(">ii")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_FIXED = {
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


def _fixed(code: str) -> Write:
    pack = struct.Struct(">" + code).pack

    def write(parts: Parts, value: Any) -> None:
        parts.tail += pack(value)

    return write


def _write_uvarint(tail: bytearray, value: int) -> None:
    while value > 0x7F:
        tail.append(value & 0x7F | 0x80)
        value >>= 7
    tail.append(value)


def _write_uuid(parts: Parts, value: UUID | None) -> None:
    parts.tail += bytes(16) if value is None else value.bytes


def _write_bytes_compact(parts: Parts, value: str | Buffer | None) -> None:
    data = value.encode() if isinstance(value, str) else value
    _write_uvarint(parts.tail, 0 if data is None else len(data) + 1)
    parts.tail += data or b""


def _write_string(parts: Parts, value: str | None) -> None:
    data = None if value is None else value.encode()
    parts.tail += _INT16.pack(-1 if data is None else len(data)) + (data or b"")


def _write_bytes(parts: Parts, value: Buffer | None) -> None:
    parts.tail += _INT32.pack(-1 if value is None else len(value))
    parts.tail += value or b""


def _write_records(parts: Parts, value: Sequence[Buffer] | None) -> None:
    if value is None:
        parts.tail += _INT32.pack(-1)
        return
    size = sum(map(len, value))
    parts.tail += _INT32.pack(size)
    parts.add_views(value, size)


def _write_records_compact(parts: Parts, value: Sequence[Buffer] | None) -> None:
    if value is None:
        parts.tail.append(0)
        return
    size = sum(map(len, value))
    _write_uvarint(parts.tail, size + 1)
    parts.add_views(value, size)

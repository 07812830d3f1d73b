"""Messages to bytes: a list of buffers, so that record data is sent from where it lies.

`encoder(key, version)` turns the shape of one response into the source of a function, once,
as `decode` does. It takes the plain mapping that a handler made: names that this version
lacks are dropped, names that are missing get Kafka's default, and a name that no version
knows is a bug of ours. `request_encoder` is the same for the other direction, for clients.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Any
from uuid import UUID

from goqueue.codec.kafka.schema import FieldShape, MessageShape, message_shape
from goqueue.codec.kafka.wire_types import NUMBERS
from goqueue.ports import Buffer

API_VERSIONS_KEY = 18

# Below this size it costs less to copy a buffer than to hand it to the kernel by itself (measured).
SMALL_BYTES = 1024

_FRAME_HEAD = struct.Struct(">ii")
_REQUEST_HEAD = struct.Struct(">ihhi")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


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


Write = Callable[[Parts, Any], None]


@cache
def encoder(api_key: int, version: int) -> Callable[[int, Mapping[str, Any]], list[Buffer]]:
    """A function (correlation id, reply) -> buffers of the whole frame."""
    shape = message_shape(api_key, "response")
    write = _Source(shape, version).compiled()
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


@cache
def request_encoder(api_key: int, version: int) -> Callable[[int, str, Mapping[str, Any]], list[Buffer]]:
    """A function (correlation id, client id, request) -> buffers of the whole frame."""
    shape = message_shape(api_key, "request")
    write = _Source(shape, version).compiled()
    is_flexible = shape.is_flexible(version)

    def encode(correlation_id: int, client_id: str, request: Mapping[str, Any]) -> list[Buffer]:
        parts = Parts()
        parts.tail += _REQUEST_HEAD.pack(0, api_key, version, correlation_id)
        _write_string(parts, client_id)
        if is_flexible:
            parts.tail.append(0)
        write(parts, request)
        return parts.finish()

    return encode


class _Source:
    """The source of the functions that write one version: one function per struct.

    Each takes the parts `o` and a mapping `v`. What they call is in `names`.
    """

    def __init__(self, shape: MessageShape, version: int) -> None:
        self._version = version
        self._flexible = shape.is_flexible(version)
        self._shape = shape
        self._lines: list[str] = []
        self._names: dict[str, Any] = {
            "_refuse": _refuse,
            "_count": _write_count_compact if self._flexible else _write_count,
        }

    def compiled(self) -> Write:
        """The function that writes the whole message."""
        name = self._struct(self._shape.fields)
        source = "\n".join(self._lines)
        exec(compile(source, f"<{self._shape.name} v{self._version}>", "exec"), self._names)  # noqa: S102 - our own shapes
        function: Write = self._names[name]
        return function

    def _struct(self, fields: tuple[FieldShape, ...]) -> str:
        """Add a function for a struct."""
        here = [one for one in fields if self._version in one.versions]
        known = self._name(frozenset(one.name for one in fields))
        body = [f"if not v.keys() <= {known}: _refuse(v, {known})", "get = v.get"]
        for is_number, group in groupby([one for one in here if one.tag is None], _is_number):
            run = list(group)
            body += [self._numbers(run)] if is_number else [line for one in run for line in self._field(one)]
        if self._flexible:
            body += self._tags([one for one in here if one.tag is not None])
        name = f"write_{len(self._names)}"
        self._names[name] = None
        self._lines += [f"def {name}(o, v):", *(f"    {line}" for line in body)]
        return name

    def _numbers(self, run: list[FieldShape]) -> str:
        """Neighbours of fixed size are written at once."""
        pack = self._name(struct.Struct(">" + "".join(NUMBERS[one.type] for one in run)).pack)
        values = ", ".join(f"get({one.name!r}, {one.default!r})" for one in run)
        return f"o.tail += {pack}({values})"

    def _field(self, one: FieldShape) -> list[str]:
        value = f"get({one.name!r}, {self._name(self._default_of(one))})"
        if one.is_array:
            item = self._struct(one.children) if one.type == "struct" else self._name(self._scalar(one.type))
            return [f"value = {value}", "_count(o, value)", "for item in value or ():", f"    {item}(o, item)"]
        if one.type != "struct":
            return [f"{self._name(self._scalar(one.type))}(o, {value})"]
        write = self._struct(one.children)
        if not one.is_nullable(self._version):
            return [f"{write}(o, {value})"]
        return [
            f"value = {value}",
            'o.tail += b"\\xff" if value is None else b"\\x01"',
            f"if value is not None: {write}(o, value)",
        ]

    def _tags(self, tagged: list[FieldShape]) -> list[str]:
        if not tagged:
            return ["o.tail.append(0)"]
        names = self._name(frozenset(one.name for one in tagged))
        rows = self._name(
            [(one.tag, one.name, self._default_of(one), self._tagged(one)) for one in sorted(tagged, key=_tag_of)]
        )
        self._names["_write_tags"] = _write_tags
        # Almost always there are no tags at all.
        return [f"if {names}.isdisjoint(v): o.tail.append(0)", f"else: _write_tags(o, v, {rows})"]

    def _tagged(self, one: FieldShape) -> Write:
        """Writes a tagged field. It is null by its absence, so one that is written is not."""
        if one.is_array or one.type == "struct":
            name = f"tagged_{len(self._names)}"
            self._names[name] = None
            plain = FieldShape(**{**{slot: getattr(one, slot) for slot in one.__slots__}, "nullable": None})
            body = self._field(plain)
            self._lines += [f"def {name}(o, one):", f"    get = {{{one.name!r}: one}}.get"]
            self._lines += [f"    {line}" for line in body]

            def write(parts: Parts, value: Any) -> None:
                self._names[name](parts, value)

            return write
        return self._scalar(one.type)

    def _default_of(self, one: FieldShape) -> object:
        """None only where this version can say null; a struct is the mapping of its defaults.

        No records are an empty run, not null: some clients take null for a broken answer.
        """
        if one.type == "records":
            return ()
        if one.is_nullable(self._version):
            return one.default
        if one.is_array:
            return ()
        if one.type == "struct":
            return {}
        return "" if one.default is None and one.type == "string" else one.default

    def _scalar(self, kind: str) -> Write:
        if kind in NUMBERS:
            return _number_writer(NUMBERS[kind])
        if kind == "uuid":
            return _write_uuid
        if kind == "records":
            return _write_records_compact if self._flexible else _write_records
        if self._flexible:
            return _write_bytes_compact
        return _write_string if kind == "string" else _write_bytes

    def _name(self, value: object) -> str:
        """A name in the source for something that it needs."""
        name = f"x{len(self._names)}"
        self._names[name] = value
        return name


def _refuse(value: Mapping[str, Any], known: frozenset[str]) -> None:
    raise AssertionError(f"no version of this response knows {sorted(value.keys() - known)}")


def _is_number(one: FieldShape) -> bool:
    return not one.is_array and one.type in NUMBERS


def _tag_of(one: FieldShape) -> int:
    return one.tag or 0


# --- the types of the wire ------------------------------------------------------------


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


def _number_writer(code: str) -> Write:
    pack = struct.Struct(">" + code).pack

    def write(parts: Parts, value: Any) -> None:
        parts.tail += pack(value)

    return write


def _write_uvarint(tail: bytearray, value: int) -> None:
    while value > 0x7F:
        tail.append(value & 0x7F | 0x80)
        value >>= 7
    tail.append(value)


def _write_count_compact(parts: Parts, value: Sequence[Any] | None) -> None:
    count = 0 if value is None else len(value) + 1
    if count <= 0x7F:
        parts.tail.append(count)
    else:
        _write_uvarint(parts.tail, count)


def _write_count(parts: Parts, value: Sequence[Any] | None) -> None:
    parts.tail += _INT32.pack(-1 if value is None else len(value))


def _write_uuid(parts: Parts, value: UUID | None) -> None:
    parts.tail += bytes(16) if value is None else value.bytes


def _write_bytes_compact(parts: Parts, value: str | Buffer | None) -> None:
    if not value:
        parts.tail.append(0 if value is None else 1)
        return
    data = value.encode() if isinstance(value, str) else value
    size = len(data) + 1
    if size <= 0x7F:
        parts.tail.append(size)
    else:
        _write_uvarint(parts.tail, size)
    parts.tail += data


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

"""Bytes to messages.

`decoder(key, version)` turns the shape of one request into the source of a function, once,
as `dataclasses` does for its methods: a request is read for every batch that is written,
and functions that look a shape up field by field take twice as long. Record data comes
out as a view of the bytes handed in, never as a copy. `response_decoder` is the same for
the other direction, for clients.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from itertools import groupby
from types import SimpleNamespace
from typing import Any, NamedTuple

from goqueue.codec.kafka.schema import FieldShape, MessageShape, message_shape
from goqueue.codec.kafka.wire_types import (
    BAD_BYTES,
    ELEMENTS_MAX,
    NUMBERS,
    SIZED,
    bad_count,
    bad_length,
    compact_length,
    read_tags,
    read_uuid,
    unpack_int16,
    unpack_int32,
)
from goqueue.errors import MalformedRequest

API_VERSIONS_KEY = 18

_HEADER = struct.Struct(">hhih")
_CORRELATION_ID = struct.Struct(">i")


class RequestHeader(NamedTuple):
    """What every request begins with. `end` is where its body begins."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    end: int


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
    try:
        if data[position] == 0:
            return position + 1
        return read_tags(data, position, len(data), [0], {})[1]
    except BAD_BYTES as error:
        raise MalformedRequest(f"the request's header is cut off: {error}") from error


@cache
def decoder(api_key: int, version: int) -> Callable[[memoryview, int], Any]:
    """A function (data, position) -> request, for one version of one API."""
    shape = message_shape(api_key, "request")
    read = _Source(shape, version).compiled()

    def decode(data: memoryview, position: int) -> Any:
        # Bytes behind the request are let pass, as Kafka does: librdkafka asks for the metadata
        # of all topics with three bytes too many.
        try:
            return read(data, position, len(data), [ELEMENTS_MAX])[0]
        except BAD_BYTES as error:
            raise MalformedRequest(f"{shape.name} v{version} breaks off: {error}") from error

    return decode


@cache
def response_decoder(api_key: int, version: int) -> Callable[[memoryview], tuple[int, Any]]:
    """A function from a response's frame, without its length, to (correlation id, response)."""
    shape = message_shape(api_key, "response")
    read = _Source(shape, version).compiled()
    # ApiVersions is answered without tags in its header: whoever asks does not know us yet.
    has_tags = shape.is_flexible(version) and api_key != API_VERSIONS_KEY

    def decode(data: memoryview) -> tuple[int, Any]:
        try:
            (correlation_id,) = _CORRELATION_ID.unpack_from(data)
            position = skip_tags(data, _CORRELATION_ID.size) if has_tags else _CORRELATION_ID.size
            # The broker answers what we asked for, so only the bytes that are there bound its arrays.
            return correlation_id, read(data, position, len(data), [len(data)])[0]
        except BAD_BYTES as error:
            raise MalformedRequest(f"the answer to {shape.name} v{version} breaks off: {error}") from error

    return decode


class _Source:
    """The source of the functions that read one version: one function per struct.

    Each takes data `d`, position `p`, size `z` and the elements left `c`, and returns the
    struct and the position behind it. What they call is in `names`.
    """

    def __init__(self, shape: MessageShape, version: int) -> None:
        self._version = version
        self._flexible = shape.is_flexible(version)
        self._shape = shape
        self._lines: list[str] = []
        self._names: dict[str, Any] = {
            "_Struct": SimpleNamespace,
            "_tags": read_tags,
            "_uuid": read_uuid,
            "_long_length": compact_length,
            "_int16": unpack_int16,
            "_int32": unpack_int32,
            "_bad_length": bad_length,
            "_bad_count": bad_count,
        }

    def compiled(self) -> Callable[[memoryview, int, int, list[int]], tuple[Any, int]]:
        """The function that reads the whole message."""
        name = self._struct(self._shape.fields)
        source = "\n".join(self._lines)
        exec(compile(source, f"<{self._shape.name} v{self._version}>", "exec"), self._names)  # noqa: S102 - our own shapes
        function: Callable[[memoryview, int, int, list[int]], tuple[Any, int]] = self._names[name]
        return function

    def _struct(self, fields: tuple[FieldShape, ...]) -> str:
        """Add a function for a struct; fields that this version lacks keep their defaults."""
        here = [one for one in fields if self._version in one.versions]
        body = []
        for is_number, group in groupby([one for one in here if one.tag is None], _is_number):
            run = list(group)
            body += self._numbers(run) if is_number else [line for one in run for line in self._field(one)]
        arguments = [f"{one.name}={_local(one)}" for one in here if one.tag is None]
        arguments += [
            f"{one.name}={self._name(_default_of(one))}" for one in fields if one not in here or one.tag is not None
        ]
        result = f"_Struct({', '.join(arguments)})"
        body += self._with_tags(result, here) if self._flexible else [f"return {result}, p"]
        name = f"read_{len(self._names)}"
        self._names[name] = None
        self._lines += [f"def {name}(d, p, z, c):", *(f"    {line}" for line in body)]
        return name

    def _numbers(self, run: list[FieldShape]) -> list[str]:
        """Neighbours of fixed size are read at once."""
        numbers = struct.Struct(">" + "".join(NUMBERS[one.type] for one in run))
        names = "".join(f"{_local(one)}, " for one in run)
        return [f"{names}= {self._name(numbers.unpack_from)}(d, p)", f"p += {numbers.size}"]

    def _field(self, one: FieldShape) -> list[str]:
        nullable = one.is_nullable(self._version)
        if one.is_array:
            return self._array(one, nullable=nullable)
        if one.type == "struct":
            read = [f"{_local(one)}, p = {self._struct(one.children)}(d, p, z, c)"]
            if not nullable:
                return read
            return [f"{_local(one)} = None", "p += 1", "if d[p - 1] < 128:", *(f"    {line}" for line in read)]
        return self._sized(_local(one), one.type, nullable=nullable)

    def _array(self, one: FieldShape, *, nullable: bool) -> list[str]:
        if one.type in NUMBERS:
            number = struct.Struct(">" + NUMBERS[one.type])
            item = [f"item, = {self._name(number.unpack_from)}(d, p)", f"p += {number.size}"]
        elif one.type == "struct":
            item = [f"item, p = {self._struct(one.children)}(d, p, z, c)"]
        else:
            item = self._sized("item", one.type, nullable=False)
        return [
            *self._length(is_short=False),
            # Every element takes a byte at least, so a longer array cannot be in these bytes.
            f"if n < {-1 if nullable else 0} or n > z - p or n > c[0]: raise _bad_count(n)",
            "if n > 0: c[0] -= n",
            f"{_local(one)} = [] if n >= 0 else None",
            "for _ in range(n):",
            *(f"    {line}" for line in item),
            f"    {_local(one)}.append(item)",
        ]

    def _sized(self, name: str, kind: str, *, nullable: bool) -> list[str]:
        """Written out: functions for lengths and their checks took longer than all else."""
        if kind == "uuid":
            return [f"{name}, p = _uuid(d, p, z)"]
        read = [
            "e = p + n",
            f"if n < 0 or e > z: raise _bad_length({kind!r}, n, p, z)",
            f"{name} = {SIZED[kind]}",
            "p = e",
        ]
        if nullable:
            read = [f"if n == -1: {name} = None", "else:", *(f"    {line}" for line in read)]
        return [*self._length(is_short=kind == "string"), *read]

    def _length(self, *, is_short: bool) -> list[str]:
        if self._flexible:
            return ["n = d[p] - 1", "p += 1", "if n > 126: n, p = _long_length(d, p - 1)"]
        return ["n, = _int16(d, p)", "p += 2"] if is_short else ["n, = _int32(d, p)", "p += 4"]

    def _with_tags(self, result: str, here: list[FieldShape]) -> list[str]:
        known = self._name({one.tag: (one.name, self._tagged(one)) for one in here if one.tag is not None})
        return [
            f"result = {result}",
            # Almost always there are no tags at all.
            "if d[p] == 0:",
            "    return result, p + 1",
            f"values, p = _tags(d, p, z, c, {known})",
            "result.__dict__.update(values)",
            "return result, p",
        ]

    def _tagged(self, one: FieldShape) -> Callable[..., tuple[Any, int]]:
        """Reads a tagged field. It is null by its absence, so a tag that is there is never null."""
        name = f"tagged_{len(self._names)}"
        self._names[name] = None
        plain = FieldShape(**{**_as_dict(one), "nullable": None})
        body = self._numbers([plain]) if _is_number(plain) else self._field(plain)
        self._lines += [f"def {name}(d, p, z, c):", *(f"    {line}" for line in body), f"    return {_local(one)}, p"]

        def read(data: memoryview, position: int, size: int, elements: list[int]) -> tuple[Any, int]:
            value: tuple[Any, int] = self._names[name](data, position, size, elements)
            return value

        return read

    def _name(self, value: object) -> str:
        """A name in the source for something that it needs."""
        name = f"x{len(self._names)}"
        self._names[name] = value
        return name


def _is_number(one: FieldShape) -> bool:
    return not one.is_array and one.type in NUMBERS


def _local(one: FieldShape) -> str:
    """The variable that holds a field while its struct is read: never a name that the source needs itself."""
    return f"f_{one.name}"


def _default_of(one: FieldShape) -> object:
    if one.type == "struct" and not one.is_array and one.nullable is None:
        return SimpleNamespace(**{child.name: _default_of(child) for child in one.children})
    return one.default


def _as_dict(one: FieldShape) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__slots__}

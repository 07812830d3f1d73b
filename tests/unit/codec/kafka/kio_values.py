"""Plain values for kio's messages: one strategy makes them, kio's own code checks ours."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from goqueue.codec.kafka.schema import FieldShape, MessageShape, message_shape

_INTS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "ms32": (0, 2**31 - 1),
    "ms64": (0, 2**41),
}
_ERRORS = [code.value for code in ErrorCode]


def message_value(shape: MessageShape, version: int, chance: Random) -> dict[str, Any]:
    """A value of this version, any field of which may be at an edge of its range."""
    return _struct_value(shape.fields, version, chance)


def _struct_value(fields: tuple[FieldShape, ...], version: int, chance: Random) -> dict[str, Any]:
    return {one.name: _field_value(one, version, chance) for one in fields if version in one.versions}


def _field_value(one: FieldShape, version: int, chance: Random) -> Any:
    if one.is_nullable(version) and chance.random() < 0.3:
        return None
    if one.is_array:
        return [_item_value(one, version, chance) for _ in range(chance.choice([0, 1, 2]))]
    return _item_value(one, version, chance)


def _item_value(one: FieldShape, version: int, chance: Random) -> Any:
    if one.type == "struct":
        return _struct_value(one.children, version, chance)
    if one.type in _INTS:
        low, high = _INTS[one.type]
        return chance.choice([low, high, chance.randint(low, high)])
    if one.type in {"bytes", "records"}:
        return chance.randbytes(chance.choice([0, 1, 5, 200]))
    return {
        "bool": chance.random() < 0.5,
        "float64": chance.uniform(-1e9, 1e9),
        "string": chance.choice(["", "a", "żółw 🐢", "x" * 200]),
        "uuid": chance.choice([None, UUID(int=chance.getrandbits(128) | 1)]),
        "error": chance.choice(_ERRORS),
    }[one.type]


def filled(fields: tuple[FieldShape, ...], version: int, value: dict[str, Any]) -> dict[str, Any]:
    """The value with Kafka's defaults for what it leaves out."""
    known = {one.name for one in fields if version in one.versions}
    assert value.keys() <= known, f"version {version} has no {sorted(value.keys() - known)}"
    return {one.name: _filled_field(one, version, value) for one in fields if version in one.versions}


def _filled_field(one: FieldShape, version: int, value: dict[str, Any]) -> Any:
    if one.name not in value:
        if one.type == "struct" and not one.is_array and not one.is_nullable(version):
            return filled(one.children, version, {})
        return b"" if one.type == "records" else one.default
    given = value[one.name]
    if one.type != "struct" or given is None:
        return given
    if one.is_array:
        return [filled(one.children, version, item) for item in given]
    return filled(one.children, version, given)


def request_frame(
    key: int, version: int, value: dict[str, Any], *, correlation_id: int = 1, client_id: str | None = "test"
) -> bytes:
    """A whole request without its length, as kio writes it."""
    shape = message_shape(key, "request")
    name = b"\xff\xff" if client_id is None else len(client_id).to_bytes(2, "big") + client_id.encode()
    head = key.to_bytes(2, "big") + version.to_bytes(2, "big") + correlation_id.to_bytes(4, "big") + name
    tags = b"\0" if shape.is_flexible(version) else b""
    return head + tags + request_bytes(shape, version, filled(shape.fields, version, value))


def read_response(key: int, version: int, frame: bytes, *, correlation_id: int = 1) -> dict[str, Any]:
    """A whole response without its length, as kio reads it."""
    shape = message_shape(key, "response")
    assert int.from_bytes(frame[:4], "big") == correlation_id
    return response_value(shape, version, frame[5:] if shape.is_flexible(version) and key != 18 else frame[4:])


def request_bytes(shape: MessageShape, version: int, value: dict[str, Any]) -> bytes:
    """What kio writes for this value."""
    schema = load_request_schema(shape.api_key, version)
    out = io.BytesIO()
    entity_writer(schema)(out, to_kio(schema, shape.fields, version, value))
    return out.getvalue()


def response_value(shape: MessageShape, version: int, data: bytes) -> dict[str, Any]:
    """What kio reads from these bytes, all of which it must need."""
    entity, size = entity_reader(load_response_schema(shape.api_key, version))(data, 0)
    assert size == len(data)
    return from_kio(entity, shape.fields, version)


def to_kio(schema: Any, fields: tuple[FieldShape, ...], version: int, value: dict[str, Any]) -> Any:
    from kio.serial._introspect import classify_field

    types = {one.name: classify_field(one).type_ for one in schema.__dataclass_fields__.values() if one.name in value}
    made = {}
    for one in fields:
        if version not in one.versions:
            continue
        item = value[one.name]
        if item is not None and one.type == "struct":
            kind = types[one.name]
            item = (
                tuple(to_kio(kind, one.children, version, each) for each in item)
                if one.is_array
                else to_kio(kind, one.children, version, item)
            )
        elif item is not None and one.is_array:
            item = tuple(item)
        elif one.type == "error":
            item = ErrorCode(item)
        elif one.type in {"ms32", "ms64"}:
            item = timedelta(milliseconds=item)
        made[one.name] = item
    return schema(**made)


def from_kio(entity: Any, fields: tuple[FieldShape, ...], version: int) -> dict[str, Any]:
    return {one.name: _plain(getattr(entity, one.name), one, version) for one in fields if version in one.versions}


def _plain(value: Any, one: FieldShape, version: int) -> Any:
    if value is None:
        return -1 if one.type == "ms64" else None
    if one.type == "struct":
        return (
            [from_kio(each, one.children, version) for each in value]
            if one.is_array
            else from_kio(value, one.children, version)
        )
    if one.is_array:
        return list(value)
    if isinstance(value, timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, datetime):
        return round((value - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)
    if isinstance(value, ErrorCode):
        return value.value
    return value


def as_plain(request: Any, fields: tuple[FieldShape, ...], version: int) -> dict[str, Any]:
    """One of our decoded requests, as the mapping it was made from."""
    assert isinstance(request, SimpleNamespace)
    assert set(vars(request)) == {one.name for one in fields}, "fields of all versions are there"
    return {
        one.name: _ours_plain(getattr(request, one.name), one, version) for one in fields if version in one.versions
    }


def _ours_plain(value: Any, one: FieldShape, version: int) -> Any:
    if value is None or isinstance(value, UUID):
        return value
    if one.type == "struct":
        return (
            [as_plain(each, one.children, version) for each in value]
            if one.is_array
            else as_plain(value, one.children, version)
        )
    if one.is_array:
        return list(value)
    return bytes(value) if isinstance(value, memoryview) else value

"""Requests of plain methods as the JSON of their operations would have them.

The names and the differences of the two wires are those of `goqueue.rpc.filling`, the other way round.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec
from google.protobuf.descriptor import FieldDescriptor
from msgspec import UNSET, inspect

from goqueue.errors import InvalidRequest
from goqueue.rpc.filling import DURATION, HEADER, TIMESTAMP, camel, enum_prefix, is_map

_MILLION = 1_000_000


# --- requests -------------------------------------------------------------------------


class Form:
    """The fields of an operation's query or body, by the names that protos have for them."""

    def __init__(self, kind: type[msgspec.Struct]) -> None:
        self.kind = kind
        fields: Sequence[inspect.Field] = getattr(inspect.type_info(kind), "fields", ())
        self._fields = {one.name: one for one in fields}
        self.required = tuple(one.name for one in fields if one.required)
        self.takes_base64 = "encoding" in self._fields

    def field(self, name: str) -> inspect.Field | None:
        """The field that a proto's name stands for."""
        for one in (name, name.removesuffix("_ms"), camel(name)):
            if one in self._fields:
                return self._fields[one]
        return None

    def wants_text(self, field: inspect.Field) -> bool:
        """Whether the field takes text and no number."""
        kinds = [type(one) for one in _sides(field.type)]
        return inspect.StrType in kinds and inspect.IntType not in kinds


@lru_cache(maxsize=256)
def _form(kind: type[msgspec.Struct]) -> Form:
    return Form(kind)


def plain_of(message: Any, form: Form) -> dict[str, Any]:
    """A request as the JSON of the operation would have it, by the names of JSON."""
    found: dict[str, Any] = {}
    for descriptor, value in message.ListFields():
        field = form.field(descriptor.name)
        if field is None:
            continue
        plain = _plain(descriptor, value, form, field.type)
        if isinstance(plain, int) and not isinstance(plain, bool) and form.wants_text(field):
            plain = str(plain)
        if plain is not UNSET:
            found[field.encode_name] = plain
    for name in form.required:
        _put_default(message, form, name, found)
    if form.takes_base64 and "value" in message.DESCRIPTOR.fields_by_name:
        found["encoding"] = "base64"
    return found


def _put_default(message: Any, form: Form, name: str, found: dict[str, Any]) -> None:
    """A required number that is 0 is not on the wire: it was given all the same. So is a null value."""
    field = form.field(name)
    descriptor = message.DESCRIPTOR.fields_by_name.get(name)
    if field is None or descriptor is None or field.encode_name in found:
        return
    if descriptor.type == FieldDescriptor.TYPE_BYTES:
        found[field.encode_name] = None
    elif descriptor.is_repeated:
        found[field.encode_name] = {} if isinstance(_bare(field.type), inspect.DictType) else []
    elif not descriptor.has_presence and descriptor.enum_type is None:
        found[field.encode_name] = descriptor.default_value


def _plain(descriptor: Any, value: Any, form: Form, target: inspect.Type | None = None) -> Any:
    """A value; `target` is what the operation takes, whose inner names may be others."""
    if is_map(descriptor):
        kind = descriptor.message_type.fields_by_name["value"]
        return {str(key): _plain_one(kind, one, form, None) for key, one in value.items()}
    if not descriptor.is_repeated:
        return _plain_one(descriptor, value, form, target)
    if descriptor.message_type is not None:
        names = descriptor.message_type.fields_by_name
        if descriptor.message_type.full_name == HEADER:
            return _headers_in(value, as_base64=form.takes_base64)
        if "topic" in names and "offset" in names:
            return _by_topic(value)
    item = getattr(None if target is None else _bare(target), "item_type", None)
    return [_plain_one(descriptor, one, form, item) for one in value]


def _plain_one(descriptor: Any, value: Any, form: Form, target: inspect.Type | None) -> Any:
    if descriptor.enum_type is not None:
        return _enum_word(descriptor, value)
    if descriptor.type == FieldDescriptor.TYPE_BYTES:
        return base64.b64encode(value).decode()
    if descriptor.message_type is None:
        return value
    kind = descriptor.message_type
    if kind.full_name == DURATION:
        return f"{value.seconds * 1000 - (-value.nanos // _MILLION)}ms"
    if kind.full_name == TIMESTAMP:
        return _time_text(descriptor.name, value)
    if len(kind.fields) == 1 and kind.fields[0].is_repeated:
        # A list that may be absent.
        return _plain(kind.fields[0], getattr(value, kind.fields[0].name), form)
    inside = None if target is None else _bare(target)
    if isinstance(inside, inspect.StructType):
        return plain_of(value, _form(inside.cls))
    return {one.name: _plain(one, inner, form) for one, inner in value.ListFields()} | _zeros(value)


def _zeros(message: Any) -> dict[str, Any]:
    """Plain numbers and texts of an inner message that are 0 or empty, and so are not on the wire."""
    return {
        one.name: one.default_value
        for one in message.DESCRIPTOR.fields
        if not one.is_repeated
        and one.message_type is None
        and not one.has_presence
        and getattr(message, one.name) == one.default_value
    }


def _enum_word(descriptor: Any, number: int) -> Any:
    """`GROUP_MODE_QUEUE` as `queue`; UNSPECIFIED as if it were not given."""
    if number == 0:
        return UNSET
    named = descriptor.enum_type.values_by_number.get(number)
    if named is None:
        raise InvalidRequest(f"{descriptor.name} {number} is not known", field=descriptor.name)
    return named.name.removeprefix(enum_prefix(descriptor.enum_type)).lower()


def _time_text(name: str, value: Any) -> str:
    try:
        when = datetime.fromtimestamp(value.seconds, UTC)
    except (ValueError, OverflowError, OSError) as problem:
        raise InvalidRequest(f"{name} is not a time between the years 1 and 9999", field=name) from problem
    return f"{when:%Y-%m-%dT%H:%M:%S}.{value.nanos // 1000:06d}Z"


def _headers_in(headers: Sequence[Any], *, as_base64: bool) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for one in headers:
        if one.name in found:
            raise InvalidRequest(f"header {one.name[:80]!r} occurs twice", field="headers", hint="send each name once")
        if not one.HasField("value"):
            found[one.name] = None
            continue
        try:
            found[one.name] = base64.b64encode(one.value).decode() if as_base64 else one.value.decode()
        except UnicodeDecodeError as problem:
            raise InvalidRequest(f"header {one.name[:80]!r} is not valid UTF-8", field="headers") from problem
    return found


def _by_topic(rows: Sequence[Any]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        offsets = found.setdefault(row.topic, {})
        if str(row.partition) in offsets:
            raise InvalidRequest(f"partition {row.partition} of {row.topic[:80]!r} occurs twice", field="offsets")
        offsets[str(row.partition)] = row.offset
    return found


def _sides(kind: inspect.Type) -> list[inspect.Type]:
    if isinstance(kind, inspect.Metadata):
        return _sides(kind.type)
    if isinstance(kind, inspect.UnionType):
        return [side for one in kind.types for side in _sides(one)]
    return [kind]


def _bare(kind: inspect.Type) -> inspect.Type:
    some = [one for one in _sides(kind) if not isinstance(one, inspect.NoneType)]
    return some[0]

"""Protos to the types of operations and back, by the names of their fields.

A proto field stands for the field of the same name in an operation's query, body or reply. Some values are written
differently on the two wires, and always in the same way: a duration is text in JSON, a name of a few is an enum in a
proto, bytes are base64 in JSON, numbers of milliseconds end in `_ms` in a proto. So one set of rules does for all
methods, and a method that needs more says so in `table.py`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import msgspec
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from msgspec import UNSET, inspect

from goqueue.errors import InvalidRequest

_DURATION, _TIMESTAMP, _VALUE = "google.protobuf.Duration", "google.protobuf.Timestamp", "google.protobuf.Value"
_HEADER = "goqueue.v1.Header"
_MILLION = 1_000_000
_PART = re.compile(r"([0-9.]+)(ms|s|m|h|d)")
_UNITS_MS: Mapping[str, int] = MappingProxyType({"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000})


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
        for one in (name, name.removesuffix("_ms"), _camel(name)):
            if one in self._fields:
                return self._fields[one]
        return None

    def wants_text(self, field: inspect.Field) -> bool:
        """Whether the field takes text and no number."""
        kinds = [type(one) for one in _sides(field.type)]
        return inspect.StrType in kinds and inspect.IntType not in kinds


def plain_of(message: Any, form: Form) -> dict[str, Any]:
    """A request as the JSON of the operation would have it, by the names of JSON."""
    found: dict[str, Any] = {}
    for descriptor, value in message.ListFields():
        field = form.field(descriptor.name)
        if field is None:
            continue
        plain = _plain(descriptor, value, form)
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


def _plain(descriptor: Any, value: Any, form: Form) -> Any:
    if _is_map(descriptor):
        kind = descriptor.message_type.fields_by_name["value"]
        return {str(key): _plain_one(kind, one, form) for key, one in value.items()}
    if not descriptor.is_repeated:
        return _plain_one(descriptor, value, form)
    if descriptor.message_type is not None:
        names = descriptor.message_type.fields_by_name
        if descriptor.message_type.full_name == _HEADER:
            return _headers_in(value, as_base64=form.takes_base64)
        if "topic" in names and "offset" in names:
            return _by_topic(value)
    return [_plain_one(descriptor, one, form) for one in value]


def _plain_one(descriptor: Any, value: Any, form: Form) -> Any:
    if descriptor.enum_type is not None:
        return _enum_word(descriptor, value)
    if descriptor.type == FieldDescriptor.TYPE_BYTES:
        return base64.b64encode(value).decode()
    if descriptor.message_type is None:
        return value
    kind = descriptor.message_type
    if kind.full_name == _DURATION:
        return f"{value.seconds * 1000 - (-value.nanos // _MILLION)}ms"
    if kind.full_name == _TIMESTAMP:
        return _time_text(descriptor.name, value)
    if len(kind.fields) == 1 and kind.fields[0].is_repeated:
        # A list that may be absent.
        return _plain(kind.fields[0], getattr(value, kind.fields[0].name), form)
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
    return named.name.removeprefix(_enum_prefix(descriptor.enum_type)).lower()


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


# --- replies --------------------------------------------------------------------------


def fill(message: Any, reply: Any, renamed: Mapping[str, str] = MappingProxyType({})) -> Any:
    """Put a reply into a proto, field by field; what the reply leaves out stays absent."""
    for descriptor in message.DESCRIPTOR.fields:
        value = _attribute(reply, renamed.get(descriptor.name, descriptor.name))
        if value is None or value is UNSET:
            continue
        if descriptor.message_type is not None and descriptor.message_type.full_name == _HEADER:
            _put_headers(getattr(message, descriptor.name), reply)
        elif _is_map(descriptor):
            _put_map(getattr(message, descriptor.name), descriptor, value)
        elif descriptor.is_repeated:
            _put_list(getattr(message, descriptor.name), descriptor, value)
        elif descriptor.message_type is not None:
            _put_message(getattr(message, descriptor.name), value)
        elif descriptor.type == FieldDescriptor.TYPE_BYTES:
            setattr(message, descriptor.name, _bytes(value, reply))
        elif descriptor.enum_type is not None:
            setattr(message, descriptor.name, _enum_number(descriptor.enum_type, value))
        else:
            setattr(message, descriptor.name, value)
    return message


def _attribute(reply: Any, name: str) -> Any:
    for one in (name, name.removesuffix("_ms"), _camel(name)):
        value = getattr(reply, one, UNSET)
        if value is not UNSET:
            return value
    return UNSET


def _put_message(target: Any, value: Any) -> None:
    kind = target.DESCRIPTOR.full_name
    if kind == _TIMESTAMP:
        target.FromMilliseconds(value if isinstance(value, int) else _time_ms(value))
    elif kind == _DURATION:
        target.FromMilliseconds(_text_ms(value))
    elif kind == _VALUE:
        json_format.ParseDict(msgspec.to_builtins(value), target)
    elif isinstance(value, list | tuple) and len(target.DESCRIPTOR.fields) == 1:
        (inner,) = target.DESCRIPTOR.fields
        _put_list(getattr(target, inner.name), inner, value)
    elif isinstance(value, tuple):
        for descriptor, part in zip(target.DESCRIPTOR.fields, value, strict=True):
            setattr(target, descriptor.name, part)
    else:
        fill(target, value)
        target.SetInParent()


def _put_map(target: Any, descriptor: Any, value: Mapping[str, Any]) -> None:
    key_is_number = descriptor.message_type.fields_by_name["key"].type == FieldDescriptor.TYPE_INT32
    of_messages = descriptor.message_type.fields_by_name["value"].message_type is not None
    for key, one in value.items():
        at = int(key) if key_is_number else key
        if of_messages:
            _put_message(target[at], one)
        else:
            target[at] = one


def _put_list(target: Any, descriptor: Any, value: Any) -> None:
    if isinstance(value, Mapping):
        # By topic and then by partition: an offset, or a row with more.
        for topic, rows in value.items():
            for partition, row in rows.items():
                added = target.add(topic=topic, partition=int(partition))
                if isinstance(row, int):
                    added.offset = row
                else:
                    fill(added, row)
    elif descriptor.message_type is None:
        target.extend(value)
    else:
        for one in value:
            _put_message(target.add(), one)


def _put_headers(target: Any, reply: Any) -> None:
    pairs = getattr(reply, "headers_list", None) or reply.headers.items()
    for name, value in pairs:
        header = target.add(name=name)
        if value is not None:
            header.value = _bytes(value, reply)


def _bytes(value: str, reply: Any) -> bytes:
    return base64.b64decode(value) if getattr(reply, "encoding", None) == "base64" else value.encode()


def _enum_number(kind: Any, word: str) -> int:
    return kind.values_by_name[_enum_prefix(kind) + word.upper()].number


def _enum_prefix(kind: Any) -> str:
    zero: str = kind.values_by_number[0].name
    return zero.removesuffix("UNSPECIFIED")


def _time_ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def _text_ms(text: str) -> int:
    return round(sum(float(number) * _UNITS_MS[unit] for number, unit in _PART.findall(text)))


# --- both -----------------------------------------------------------------------------


def _is_map(descriptor: Any) -> bool:
    return descriptor.message_type is not None and descriptor.message_type.GetOptions().map_entry


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.title() for part in rest)


def _sides(kind: inspect.Type) -> list[inspect.Type]:
    if isinstance(kind, inspect.Metadata):
        return _sides(kind.type)
    if isinstance(kind, inspect.UnionType):
        return [side for one in kind.types for side in _sides(one)]
    return [kind]


def _bare(kind: inspect.Type) -> inspect.Type:
    some = [one for one in _sides(kind) if not isinstance(one, inspect.NoneType)]
    return some[0]

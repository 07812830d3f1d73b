"""Values into protos, field by field: answers at the server, requests at the client.

A proto field stands for the field or key of the same name. Some values are written differently on the two wires, and
always in the same way: a duration is text in JSON, a name of a few is an enum in a proto, bytes are base64 in JSON,
numbers of milliseconds end in `_ms` in a proto.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

import msgspec
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from msgspec import UNSET

DURATION, TIMESTAMP, VALUE = "google.protobuf.Duration", "google.protobuf.Timestamp", "google.protobuf.Value"
HEADER = "goqueue.v1.Header"
_OFFSETS = "goqueue.v1.TopicPartitionOffsets"
_PART = re.compile(r"([0-9.]+)(ms|s|m|h|d)")
_UNITS_MS: Mapping[str, int] = MappingProxyType({"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000})


def fill(message: Any, reply: Any, renamed: Mapping[str, str] = MappingProxyType({})) -> Any:
    """Put a struct or a mapping into a proto, field by field; what it leaves out stays absent."""
    for descriptor in message.DESCRIPTOR.fields:
        value = _attribute(reply, renamed.get(descriptor.name, descriptor.name))
        if value is None or value is UNSET:
            continue
        if descriptor.message_type is not None and descriptor.message_type.full_name == HEADER:
            _put_headers(getattr(message, descriptor.name), reply)
        elif is_map(descriptor):
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
            setattr(message, descriptor.name, _scalar(descriptor, value))
    return message


def _scalar(descriptor: Any, value: Any) -> Any:
    """Parameters of a query are text, whatever they mean."""
    if isinstance(value, str) and descriptor.type != FieldDescriptor.TYPE_STRING:
        return value == "true" if descriptor.type == FieldDescriptor.TYPE_BOOL else int(value)
    return value


def _attribute(reply: Any, name: str) -> Any:
    for one in (name, name.removesuffix("_ms"), camel(name)):
        value = reply.get(one, UNSET) if isinstance(reply, Mapping) else getattr(reply, one, UNSET)
        if value is not UNSET:
            return value
    return UNSET


def _put_message(target: Any, value: Any) -> None:
    kind = target.DESCRIPTOR.full_name
    if kind == TIMESTAMP:
        target.FromMilliseconds(value if isinstance(value, int) else _time_ms(value))
    elif kind == DURATION:
        target.FromMilliseconds(_text_ms(value))
    elif kind == VALUE:
        json_format.ParseDict(msgspec.to_builtins(value), target)
    elif kind == _OFFSETS or (isinstance(value, list | tuple) and len(target.DESCRIPTOR.fields) == 1):
        # A list that may be absent.
        target.SetInParent()
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
    pairs = _attribute(reply, "headers_list") or _attribute(reply, "headers").items()
    for name, value in pairs:
        header = target.add(name=name)
        if value is not None:
            header.value = _bytes(value, reply)


def _bytes(value: str | bytes, reply: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    return base64.b64decode(value) if _attribute(reply, "encoding") == "base64" else value.encode()


def _enum_number(kind: Any, word: str | int) -> int:
    if isinstance(word, int):
        # Lanes count from 0 in JSON, and from 1 behind UNSPECIFIED.
        return word + 1
    return kind.values_by_name[enum_prefix(kind) + word.upper()].number


def enum_prefix(kind: Any) -> str:
    """What the names of an enum's values begin with."""
    zero: str = kind.values_by_number[0].name
    return zero.removesuffix("UNSPECIFIED")


def _time_ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def _text_ms(text: str) -> int:
    return round(sum(float(number) * _UNITS_MS[unit] for number, unit in _PART.findall(text)))


def is_map(descriptor: Any) -> bool:
    """Whether a field is a map."""
    return descriptor.message_type is not None and descriptor.message_type.GetOptions().map_entry


def camel(name: str) -> str:
    """`deliver_at` as `deliverAt`."""
    head, *rest = name.split("_")
    return head + "".join(part.title() for part in rest)

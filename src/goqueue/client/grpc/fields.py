"""The fields of an operation into its gRPC request, and the answer back into what HTTP would have answered."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import msgspec
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from msgspec import UNSET

from goqueue.client.types import WireMessage
from goqueue.errors import wire_of_code
from goqueue.rpc.filling import DURATION, HEADER, TIMESTAMP, VALUE, enum_prefix, fill, is_map

_MESSAGE, _ERROR = "goqueue.v1.Message", "goqueue.v1.ErrorDetail"
_LANES = ("normal", "critical", "high", "normal", "low", "background")
# Times and spans in milliseconds that JSON names without the unit.
_BARE = frozenset(
    {
        "timestamp_ms",
        "died_at_ms",
        "first_delivered_at_ms",
        "last_delivered_at_ms",
        "next_visible_at_ms",
        "new_deadline_ms",
        "extended_by_ms",
        "revocation_deadline_ms",
        "last_rebalance_at_ms",
        "last_served_at_ms",
        "waiting_since_ms",
        "started_at_ms",
        "ended_at_ms",
        "visible_until_ms",
    }
)
# Answers in which a time has the name that it has in a publish.
_CAMEL = frozenset({"goqueue.v1.PublishResult", "goqueue.v1.PublishInTransactionResponse"})
_RENAMED = MappingProxyType({("goqueue.v1.OffsetChange", "before"): "from", ("goqueue.v1.OffsetChange", "after"): "to"})


# --- requests -------------------------------------------------------------------------


def request_of(kind: Any, method: str, fields: Mapping[str, Any]) -> Any:
    """The request that says what these fields say."""
    given = dict(fields)
    adapt = _ADAPT.get(method)
    if adapt is not None:
        adapt(given)
    return fill(kind(), given, _NAMES)


# Names that a proto has for a field of JSON, where no rule leads from one to the other.
_NAMES = MappingProxyType({"start": "from", "ack_mode": "acks"})


def _config_to_reset(given: dict[str, Any]) -> None:
    config = given.get("config") or {}
    given["config"] = {name: value for name, value in config.items() if value is not None}
    given["reset_config"] = [name for name, value in config.items() if value is None]


def _policy_to_reset(given: dict[str, Any]) -> None:
    given["reset"] = [name for name, value in given.items() if value is None]


def _reset_to(given: dict[str, Any]) -> None:
    to = given.pop("to", None)
    if isinstance(to, str):
        given["position"] = to
    elif to is not None:
        given.update(to)


def _by_partition(given: dict[str, Any]) -> None:
    given["partitions"] = [
        {"topic": topic, "partition": partition} for topic, many in given.pop("offsets").items() for partition in many
    ]


def _participants(given: dict[str, Any]) -> None:
    given["participants"] = [{"task": one} if isinstance(one, str) else one for one in given["participants"]]


def _offset_pairs(given: dict[str, Any]) -> None:
    text = given.pop("offsets", None)
    if text:
        given["offsets"] = {at: int(offset) for at, offset in (one.split(":") for one in text.split(","))}


def _records(given: dict[str, Any]) -> None:
    given["records"] = given.pop("messages")


_ADAPT: Mapping[str, Callable[[dict[str, Any]], None]] = MappingProxyType(
    {
        "AlterTopic": _config_to_reset,
        "AlterPolicy": _policy_to_reset,
        "ResetOffsets": _reset_to,
        "DeleteOffsets": _by_partition,
        "CommitEpoch": _participants,
        "ReadTopic": _offset_pairs,
        "ReadByPriority": _offset_pairs,
        "ReadFairly": _offset_pairs,
        "PublishBatch": _records,
    }
)


# --- answers --------------------------------------------------------------------------


def plain_of(message: Any, *, nulls: bool) -> dict[str, Any]:
    """An answer as JSON would have it; with `nulls`, what is absent is None."""
    kind = message.DESCRIPTOR.full_name
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            if nulls:
                found[_name(kind, field.name)] = None
            continue
        value = getattr(message, field.name)
        if is_map(field):
            inner = field.message_type.fields_by_name["value"]
            plain: Any = {str(key): _one(inner, one, nulls=nulls) for key, one in value.items()}
        elif field.is_repeated:
            plain = _list(field, value, nulls=nulls)
        else:
            plain = _one(field, value, nulls=nulls)
        if plain is not UNSET:
            found[_name(kind, field.name)] = plain
    if kind == "goqueue.v1.SettledReceipt" and found.get("error"):
        found["status"] = _status(found["error"])
    _put_bytes(message, found)
    return found


def wire_message(message: Any) -> WireMessage:
    """A message as the rest of the client takes it. Its bytes stay bytes: nothing has to be read as text."""
    return WireMessage(
        message.topic,
        message.partition,
        message.offset,
        message.timestamp_ms,
        message.key if message.HasField("key") else None,
        message.value if message.HasField("value") else None,
        {one.name: _value(one) for one in message.headers} if message.headers else {},
        [(one.name, _value(one)) for one in message.headers] if message.headers else None,
        "raw",
        _LANES[message.priority],
        message.receipt_handle,
        message.delivery_count,
        message.visible_until_ms,
    )


def json_message(message: Any) -> dict[str, Any]:
    """A message as JSON has it: text where every part is text, else base64."""
    found: dict[str, Any] = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp_ms,
        "key": message.key if message.HasField("key") else None,
        "value": message.value if message.HasField("value") else None,
        "priority": _LANES[message.priority],
    }
    if message.headers:
        found["headers"] = {one.name: _value(one) for one in message.headers}
        if len(found["headers"]) < len(message.headers):
            found["headers_list"] = [(one.name, _value(one)) for one in message.headers]
    for name in ("receipt_handle", "delivery_count", "visible_until_ms", "first_delivered_at_ms"):
        if message.HasField(name):
            found[name.removesuffix("_ms")] = getattr(message, name)
    return _as_text(found)


def _one(field: Any, value: Any, *, nulls: bool) -> Any:
    if field.enum_type is not None:
        name = field.enum_type.values_by_number[value].name if value in field.enum_type.values_by_number else ""
        return name.removeprefix(enum_prefix(field.enum_type)).lower() if value else UNSET
    if field.message_type is None:
        return value
    kind = field.message_type.full_name
    if kind == DURATION:
        return f"{value.ToMilliseconds()}ms"
    if kind == TIMESTAMP:
        return _time_text(value.ToMilliseconds())
    if kind == VALUE:
        plain = json_format.MessageToDict(value)
        return int(plain) if isinstance(plain, float) and plain.is_integer() else plain
    if kind == _MESSAGE:
        return json_message(value)
    if (
        len(field.message_type.fields) == 1
        and field.message_type.fields[0].is_repeated
        and not is_map(field.message_type.fields[0])
    ):
        (inner,) = field.message_type.fields
        return _list(inner, getattr(value, inner.name), nulls=nulls)
    return plain_of(value, nulls=nulls)


def _list(field: Any, values: Any, *, nulls: bool) -> Any:
    if field.message_type is None:
        return list(values)
    names = field.message_type.fields_by_name
    if field.message_type.full_name == HEADER:
        return UNSET
    if field.message_type.full_name in {"goqueue.v1.TopicPartitionOffset", "goqueue.v1.FetchedOffset"}:
        found: dict[str, dict[str, Any]] = {}
        for one in values:
            rest = (
                one.offset
                if len(names) == 3
                else {**plain_of(one, nulls=nulls), "offset": one.offset if one.HasField("offset") else None}
            )
            found.setdefault(one.topic, {})[str(one.partition)] = rest
        return found
    if field.message_type.full_name == "goqueue.v1.EpochRange":
        return [(one.first, one.last) for one in values]
    return [_one(field, one, nulls=nulls) for one in values]


def _put_bytes(message: Any, found: dict[str, Any]) -> None:
    """Keys, values and headers of an answer that holds a message without being one."""
    kinds = {one.name: one for one in message.DESCRIPTOR.fields}
    if kinds.get("value") is None or kinds["value"].type != FieldDescriptor.TYPE_BYTES:
        return
    found.setdefault("key", None)
    found.setdefault("value", None)
    if "headers" in kinds:
        found["headers"] = {one.name: _value(one) for one in message.headers}
    _as_text(found)


def _as_text(found: dict[str, Any]) -> dict[str, Any]:
    headers: dict[str, Any] = found.get("headers", {})
    parts = (found["key"], found["value"], *headers.values())
    try:
        for part in parts:
            if part is not None:
                part.decode()
    except UnicodeDecodeError:
        found["encoding"] = "base64"
    write = _base64 if "encoding" in found else _text
    found["key"], found["value"] = write(found["key"]), write(found["value"])
    if headers:
        found["headers"] = {name: write(one) for name, one in headers.items()}
    if "headers_list" in found:
        found["headers_list"] = [(name, write(one)) for name, one in found["headers_list"]]
    return found


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _value(header: Any) -> Any:
    return header.value if header.HasField("value") else None


def _name(kind: str, name: str) -> str:
    if kind in _CAMEL and name == "deliver_at":
        return "deliverAt"
    return _RENAMED.get((kind, name)) or (name.removesuffix("_ms") if name in _BARE else name)


def _status(error: Mapping[str, Any]) -> int:
    wire = wire_of_code(error["code"])
    return 500 if wire is None else wire.http


def _time_text(ms: int) -> str:
    when = datetime.fromtimestamp(ms // 1000, UTC)
    return f"{when:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"


def convert(plain: Any, kind: Any) -> Any:
    """What the caller asked for, made of an answer."""
    return msgspec.convert(plain, kind)

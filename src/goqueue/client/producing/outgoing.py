"""A record on its way out: checked when it is handed over, and as it stands in the body of a publish."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypedDict

import msgspec

from goqueue.client.admin.delayed import Delay, DeliverAt, when
from goqueue.client.errors import ClientError, InvalidArgument, RecordRefused, refused
from goqueue.client.producing.accumulator import Batch
from goqueue.client.trace_context import with_context
from goqueue.client.types import Delivered, SendFailure
from goqueue.errors import InvalidTopicName
from goqueue.ids import parse_topic_name
from goqueue.records import Priority

PriorityName = Literal["critical", "high", "normal", "low", "background"]

NO_HEADERS: dict[str, bytes | None] = {}
_PRIORITIES = frozenset(one.name.lower() for one in Priority)
_NUMBERS = frozenset(Priority)
_encode_json = msgspec.json.Encoder().encode


class SendFields(TypedDict, total=False):
    """What `send` takes besides topic and value."""

    json: object
    key: bytes | str | None
    headers: Mapping[str, bytes | str | None] | None
    partition: int | None
    timestamp_ms: int | None
    priority: int | PriorityName | None
    deduplication_id: str | None
    delay: Delay | None
    deliver_at: DeliverAt | None


class Outgoing(msgspec.Struct, omit_defaults=True):
    """One message as the publish route takes it: as text where every part is, else all in base64."""

    value: str | None
    key: str | None = None
    headers: dict[str, str | None] | None = None
    encoding: str | None = None
    partition: int | None = None
    timestamp: int | None = None
    priority: int | str | None = None
    deduplication_id: str | None = None
    delay: str | None = None
    deliverAt: str | None = None  # noqa: N815 - the name on the wire


class OutgoingRecord(msgspec.Struct):
    """A record that has passed every check that needs no broker."""

    topic: str
    message: Outgoing
    key: bytes | None
    partition: int | None
    bytes: int

    @property
    def is_delayed(self) -> bool:
        """Whether it is held back."""
        return self.message.delay is not None or self.message.deliverAt is not None


class Waiting(msgspec.Struct):
    """A message and the future of its sender."""

    message: Outgoing
    future: asyncio.Future[Delivered]


class Outcome(msgspec.Struct):
    """What the broker says of one message."""

    partition: int = -1
    offset: int = -1
    timestamp: int = -1
    duplicate: bool = False
    delayed: bool = False
    deliverAt: str | None = None  # noqa: N815 - the name on the wire
    slot: str = ""
    error: dict[str, Any] | None = None
    status: int = 200


class PublishReply(msgspec.Struct):
    """The answer to a publish: an outcome per message, in their order."""

    results: list[Outcome]
    acks: str
    durability: str | None = None
    replicas: int | None = None


def prepare(
    topic: str,
    value: bytes | str | None,
    *,
    json: object = None,
    key: bytes | str | None = None,
    headers: Mapping[str, bytes | str | None] | None = None,
    partition: int | None = None,
    timestamp_ms: int | None = None,
    priority: int | str | None = None,
    deduplication_id: str | None = None,
    delay: Delay | None = None,
    deliver_at: DeliverAt | None = None,
) -> OutgoingRecord:
    """Check a record and encode it; what is wrong with it is raised here, before anything waits for an answer."""
    if json is not None:
        if value is not None:
            raise TypeError("value and json are both given: a record has one value")
        value_bytes: bytes | None = _encode_json(json)
    else:
        value_bytes = to_bytes(value, "value")
    key_bytes = None if key is None else to_bytes(key, "key")
    pairs = with_context(NO_HEADERS if headers is None else header_bytes(headers))
    message = encode_message(value_bytes, key_bytes, pairs)
    if partition is not None:
        _check_number("partition", partition)
    if timestamp_ms is not None:
        _check_number("timestamp_ms", timestamp_ms, least=-(2**63))
        message.timestamp = timestamp_ms
    if priority is not None:
        _check_priority(priority)
        message.priority = priority
    if deduplication_id is not None:
        if not isinstance(deduplication_id, str):
            raise TypeError(f"deduplication_id is {type(deduplication_id).__name__}: give a str")
        _utf8(deduplication_id, "deduplication_id")
        message.deduplication_id = deduplication_id
    if delay is not None or deliver_at is not None:
        times = when(delay, deliver_at)
        message.delay, message.deliverAt = times.get("delay"), times.get("deliverAt")
    return OutgoingRecord(topic, message, key_bytes, partition, size_of(value_bytes, key_bytes, pairs))


def check_topic(topic: object) -> None:
    """Refuse what no topic is called."""
    if not isinstance(topic, str):
        raise TypeError(f"topic is {type(topic).__name__}: give the topic's name as a str")
    try:
        parse_topic_name(topic)
    except InvalidTopicName as problem:
        raise InvalidArgument(f"topic={topic!r} is not a topic name", problem.hint) from None


def encode_message(value: bytes | None, key: bytes | None, headers: Mapping[str, bytes | None]) -> Outgoing:
    """A record's own bytes, ready for JSON."""
    try:
        message = Outgoing(None if value is None else value.decode())
        if key is not None:
            message.key = key.decode()
        if headers:
            message.headers = {name: None if one is None else one.decode() for name, one in headers.items()}
    except UnicodeDecodeError:
        message = Outgoing(_base64(value), _base64(key), encoding="base64")
        if headers:
            message.headers = {name: _base64(one) for name, one in headers.items()}
    return message


def to_bytes(data: object, what: str) -> bytes | None:
    """What a caller gave, as bytes."""
    if data is None or isinstance(data, bytes):
        return data
    if isinstance(data, str):
        return _utf8(data, what)
    if isinstance(data, bytearray | memoryview):
        return bytes(data)
    instead = ", or send(..., json=...)" if what == "value" else ""
    raise TypeError(f"{what} is {type(data).__name__}: give bytes, str or None{instead}")


def _utf8(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as problem:
        # Text with lone surrogates. Later it would fail the batch, and with it the records of others.
        raise InvalidArgument(f"{what} cannot be encoded as UTF-8: {problem.reason}", "give bytes") from None


def header_bytes(headers: Mapping[str, bytes | str | None]) -> dict[str, bytes | None]:
    """Headers as a caller gave them, as bytes."""
    if not isinstance(headers, Mapping):
        raise TypeError(f"headers is {type(headers).__name__}: give a mapping of names to bytes, str or None")
    for name in headers:
        if not isinstance(name, str):
            raise TypeError(f"the header name {name!r} is {type(name).__name__}: give a str")
        _utf8(name, "a header name")
    return {name: to_bytes(one, f"header {name!r}") for name, one in headers.items()}


def size_of(value: bytes | None, key: bytes | None, headers: Mapping[str, bytes | None]) -> int:
    """What a record adds to its batch."""
    size = (len(value) if value else 0) + (len(key) if key else 0)
    if headers:
        size += sum(len(name) + len(one or b"") for name, one in headers.items())
    return size


# Told of every record that is not stored, with its future.
Refused = Callable[[SendFailure, asyncio.Future[Delivered]], None]


def tell(batch: Batch[Waiting], reply: PublishReply, on_refused: Refused) -> None:
    """Resolve every record's future out of the answer to its batch."""
    acks, (topic, partition) = reply.acks, batch.target
    for waiting, found in zip(batch.records, reply.results, strict=True):
        if waiting.future.done():
            continue
        if (error := found.error) is not None:
            problem = refused(found.status, error, RecordRefused)
            waiting.future.set_exception(problem)
            on_refused(SendFailure(topic, max(partition, -1), problem), waiting.future)
            continue
        waiting.future.set_result(
            Delivered(
                topic,
                found.partition,
                found.offset,
                found.timestamp,
                acks,
                found.duplicate,
                found.delayed,
                found.deliverAt,
                found.slot,
                None if found.delayed else reply.durability,
                None if found.delayed else reply.replicas,
            )
        )


def fail(batch: Batch[Waiting], problem: ClientError, on_refused: Refused) -> None:
    """Fail all of a batch that still wait, for one reason."""
    failure = SendFailure(batch.target.topic, max(batch.target.partition, -1), problem)
    for waiting in batch.records:
        if not waiting.future.done():
            waiting.future.set_exception(problem)
            on_refused(failure, waiting.future)


def _check_number(name: str, number: object, *, least: int = 0) -> None:
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"{name} is {type(number).__name__}: give an int")
    if number < least:
        raise InvalidArgument(f"{name}={number} is too small", f"give {least} or more")


def _check_priority(priority: object) -> None:
    if isinstance(priority, str):
        if priority not in _PRIORITIES:
            names = ", ".join(one.name.lower() for one in Priority)
            raise InvalidArgument(f"priority={priority!r} is not a priority", f"give one of {names}, or 0 to 4")
    elif not isinstance(priority, int) or isinstance(priority, bool):
        raise TypeError(f"priority is {type(priority).__name__}: give a name such as 'high', or 0 to 4")
    elif priority not in _NUMBERS:
        raise InvalidArgument(f"priority={priority} is not a priority", "give 0 (critical) to 4 (background)")


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()

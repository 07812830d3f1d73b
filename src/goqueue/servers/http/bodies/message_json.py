"""Messages as JSON: any bytes go in and come out unchanged.

Text stays readable. Where a key, a value or a header is not UTF-8, all of that message
travels as base64 and says so in `encoding`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from goqueue.broker.arrivals.deduplication.ids import DEDUPLICATION_HEADER
from goqueue.broker.reading.unreadable import Unreadable
from goqueue.delivery.values import Delivery
from goqueue.errors import InvalidRequest
from goqueue.log.index.batch_lanes import PRIORITY_HEADER, record_lane
from goqueue.records import Header, NewRecord, Priority, Record, TopicPartition
from goqueue.servers.http.bodies.times import parse_time_ms
from goqueue.servers.http.types.common import MessageIn, MessageOut, Publish, UnreadableRange

_decode_text = msgspec.json.Decoder(str).decode
_NAMES = tuple(lane.name.lower() for lane in Priority)
# The name is what travels, whichever way the lane was said.
_PRIORITIES: Mapping[int | str, bytes] = {name: name.encode() for name in _NAMES} | {
    number: name.encode() for number, name in enumerate(_NAMES)
}
_NORMAL = frozenset({"normal", Priority.NORMAL.value})


def record_of(message: MessageIn | Publish) -> NewRecord:
    """The record that a published message stands for; errors name the field within the message."""
    raw = bytes(message.value)  # type: ignore[arg-type]
    extra = _own_headers(message)
    timestamp = message.timestamp
    timestamp_ms = parse_time_ms(timestamp, "timestamp") if isinstance(timestamp, str) else timestamp
    if message.encoding == "base64":
        return NewRecord(
            _from_base64(message.key, "key"),
            _from_base64(_text(raw), "value"),
            _headers_from_base64(message.headers) + extra,
            timestamp_ms,
        )
    headers = message.headers
    if headers:
        extra = (*[(name, None if one is None else one.encode()) for name, one in headers.items()], *extra)
    return NewRecord(
        None if message.key is None else message.key.encode(),
        _value(raw),
        extra,
        timestamp_ms,
    )


def message_of(topic: str, partition: int, record: Record | Delivery, *, base64_always: bool = False) -> MessageOut:
    """A stored record as a reader gets it."""
    if not base64_always:
        try:
            return _as_text(topic, partition, record)
        except UnicodeDecodeError:
            pass
    return _as_base64(topic, partition, record)


def queued_message(delivery: Delivery, *, base64_always: bool = False) -> MessageOut:
    """A message that was taken from a queue, with its receipt."""
    message = message_of(delivery.topic, delivery.partition, delivery, base64_always=base64_always)
    message.receipt_handle = delivery.receipt
    message.delivery_count = delivery.delivery_count
    message.visible_until = delivery.visible_at_ms
    message.first_delivered_at = delivery.first_delivered_ms
    return message


def _own_headers(message: MessageIn | Publish) -> tuple[Header, ...]:
    """What a message says to the broker itself, as headers that any reader of the log can see."""
    priority, deduplication_id = message.priority, message.deduplication_id
    extra: tuple[Header, ...] = ()
    if priority is not None and priority not in _NORMAL:
        extra = ((PRIORITY_HEADER, _PRIORITIES[priority]),)
    if deduplication_id is not None:
        extra = (*extra, (DEDUPLICATION_HEADER, deduplication_id.encode()))
    return extra


def _value(raw: bytes) -> bytes | None:
    """Text without its quotes, null as a tombstone, any other JSON as it was written."""
    try:
        if raw[:1] == b'"':
            return _decode_text(raw).encode()
        if not raw.isascii():
            # The body's decoder passes over a value without looking at its letters.
            raw.decode()
    except UnicodeDecodeError as problem:
        raise _not_text() from problem
    return None if raw == b"null" else raw


def _text(raw: bytes) -> str | None:
    if raw == b"null":
        return None
    if raw[:1] != b'"':
        raise InvalidRequest("a base64 value must be a JSON string", field="value")
    try:
        return _decode_text(raw)
    except UnicodeDecodeError as problem:
        raise _not_text() from problem


def _not_text() -> InvalidRequest:
    return InvalidRequest(
        "value is not valid UTF-8", field="value", hint='send bytes as base64, with "encoding": "base64"'
    )


def _from_base64(text: str | None, field: str) -> bytes | None:
    if text is None:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as problem:
        raise InvalidRequest(f"{field} is not valid base64", field=field) from problem


def _headers_from_base64(headers: Mapping[str, str | None] | None) -> tuple[tuple[str, bytes | None], ...]:
    if not headers:
        return ()
    return tuple((name, _from_base64(one, f"headers.{name}")) for name, one in headers.items())


def _as_text(topic: str, partition: int, record: Record | Delivery) -> MessageOut:
    key, value = record.key, record.value
    message = MessageOut(
        topic=topic,
        partition=partition,
        offset=record.offset,
        timestamp=record.timestamp_ms,
        key=None if key is None else key.decode(),
        value=None if value is None else value.decode(),
        priority=_priority(record.headers),
    )
    if record.headers:
        _put_headers(message, [(name, None if one is None else one.decode()) for name, one in record.headers])
    return message


def _as_base64(topic: str, partition: int, record: Record | Delivery) -> MessageOut:
    message = MessageOut(
        topic=topic,
        partition=partition,
        offset=record.offset,
        timestamp=record.timestamp_ms,
        key=_to_base64(record.key),
        value=_to_base64(record.value),
        encoding="base64",
        priority=_priority(record.headers),
    )
    if record.headers:
        _put_headers(message, [(name, _to_base64(one)) for name, one in record.headers])
    return message


def _priority(headers: Sequence[Header]) -> str:
    return _NAMES[record_lane(headers)] if headers else "normal"


def _put_headers(message: MessageOut, pairs: list[tuple[str, str | None]]) -> None:
    message.headers = dict(pairs)
    if len(message.headers) < len(pairs):
        # A name that stands twice would lose a value in an object, so the list is added.
        message.headers_list = pairs


def _to_base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def unreadable_ranges(at: TopicPartition, found: Iterable[Unreadable]) -> list[UnreadableRange]:
    """What of a partition was passed over because nobody can read it."""
    return [
        UnreadableRange(
            topic=at.topic, partition=at.partition, first_offset=one.first, last_offset=one.last, reason=one.reason
        )
        for one in found
    ]

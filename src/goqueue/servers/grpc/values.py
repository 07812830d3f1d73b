"""Messages, times and names between protos and the broker's values: what the hot methods and the streams use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from goqueue.broker.arrivals.deduplication.ids import DEDUPLICATION_HEADER
from goqueue.broker.reading.unreadable import Unreadable
from goqueue.delivery.values import Delivery
from goqueue.errors import InvalidRequest
from goqueue.log.index.batch_lanes import PRIORITY_HEADER, record_lane
from goqueue.protos import common_pb2
from goqueue.records import Acks, Header, NewRecord, Priority, Record, TopicPartition
from goqueue.servers.publishing import Incoming, acks_unless_named, due_at
from goqueue.servers.services import Services

Message, ProtoHeader = common_pb2.Message, common_pb2.Header
_ACKS: Mapping[int, Acks] = MappingProxyType(
    {
        common_pb2.ACK_MODE_NONE: Acks.NONE,
        common_pb2.ACK_MODE_LEADER: Acks.LEADER,
        common_pb2.ACK_MODE_ALL: Acks.ALL,
    }
)
ACK_MODES: Mapping[Acks, Any] = MappingProxyType(
    {
        Acks.NONE: common_pb2.ACK_MODE_NONE,
        Acks.LEADER: common_pb2.ACK_MODE_LEADER,
        Acks.ALL: common_pb2.ACK_MODE_ALL,
    }
)
# The proto's lanes count from 1, in the order of ours.
_LANE_NAMES = tuple(lane.name.lower().encode() for lane in Priority)
_NORMAL = common_pb2.PRIORITY_NORMAL
_MS_MAX = 2**53
_MILLION = 1_000_000


def acks_of(services: Services, mode: int) -> Acks:
    """The ack mode; an unknown number is refused, for the client counts on what it means."""
    acks = _ACKS.get(mode) if mode != common_pb2.ACK_MODE_UNSPECIFIED else acks_unless_named(services)
    if acks is None:
        raise InvalidRequest(f"ack mode {mode} is not known", field="ack_mode", hint="use NONE, LEADER or ALL")
    return acks


def duration_ms(message: Any, field: str, *, maximum_ms: int = _MS_MAX) -> int | None:
    """A duration in milliseconds, rounded up; None where it is not given."""
    if not message.HasField(field):
        return None
    given = getattr(message, field)
    milliseconds = given.seconds * 1000 - (-given.nanos // _MILLION)
    if milliseconds < 0:
        raise InvalidRequest(f"{field} is negative", field=field)
    if milliseconds > maximum_ms:
        raise InvalidRequest(f"{field} is longer than {maximum_ms} ms", field=field)
    return milliseconds


def incoming_of(record: Any, now_ms: int) -> Incoming:
    """The message that a record asks to publish."""
    headers: tuple[Header, ...] = ()
    if record.headers:
        headers = tuple([(one.name, one.value if one.HasField("value") else None) for one in record.headers])
    lane = record.priority
    if lane and lane != _NORMAL:
        headers = (*headers, (PRIORITY_HEADER, _lane_name(lane)))
    if record.HasField("deduplication_id"):
        headers = (*headers, (DEDUPLICATION_HEADER, record.deduplication_id.encode()))
    due_ms = None
    if record.HasField("delay") or record.HasField("deliver_at"):
        deliver_at = record.deliver_at if record.HasField("deliver_at") else None
        at_ms = None if deliver_at is None else deliver_at.seconds * 1000 - (-deliver_at.nanos // _MILLION)
        due_ms = due_at(duration_ms(record, "delay"), at_ms, now_ms)
    partition = None
    if record.HasField("partition"):
        partition = record.partition
        if partition < 0:
            raise InvalidRequest(f"partition {partition} is negative", field="partition")
    timestamp_ms = None
    if record.HasField("timestamp_ms"):
        timestamp_ms = record.timestamp_ms
        if not 0 <= timestamp_ms <= _MS_MAX:
            raise InvalidRequest(f"timestamp_ms {timestamp_ms} is not a time", field="timestamp_ms")
    key = record.key if record.HasField("key") else None
    value = record.value if record.HasField("value") else None
    return Incoming(NewRecord(key, value, headers, timestamp_ms), partition, due_ms)


def message_of(topic: str, partition: int, record: Record) -> Any:
    """A stored record as a reader gets it."""
    _, timestamp_ms, key, value, headers = record
    message = Message(
        topic=topic,
        partition=partition,
        offset=record.offset,
        timestamp_ms=timestamp_ms,
        key=key,
        value=value,
        priority=_NORMAL,
    )
    if headers:
        _put_headers(message, headers)
    return message


def queued_message(delivery: Delivery) -> Any:
    """A message that was taken from a queue, with its receipt."""
    topic, partition, offset, timestamp_ms, key, value, headers, _, receipt, count, until_ms, first_ms = delivery
    message = Message(
        topic=topic,
        partition=partition,
        offset=offset,
        timestamp_ms=timestamp_ms,
        key=key,
        value=value,
        priority=_NORMAL,
        receipt_handle=receipt,
        delivery_count=count,
        visible_until_ms=until_ms,
        first_delivered_at_ms=first_ms,
    )
    if headers:
        _put_headers(message, headers)
    return message


def unreadable_ranges(at: TopicPartition, found: Iterable[Unreadable]) -> list[Any]:
    """What of a partition was skipped because it cannot be read."""
    return [
        common_pb2.UnreadableRange(
            topic=at.topic, partition=at.partition, first_offset=one.first, last_offset=one.last, reason=one.reason
        )
        for one in found
    ]


def _put_headers(message: Any, headers: tuple[Header, ...]) -> None:
    message.priority = record_lane(headers) + 1
    message.headers.extend([ProtoHeader(name=name, value=value) for name, value in headers])


def _lane_name(lane: int) -> bytes:
    if not 1 <= lane <= len(_LANE_NAMES):
        raise InvalidRequest(f"priority {lane} is not known", field="priority", hint="use CRITICAL to BACKGROUND")
    return _LANE_NAMES[lane - 1]

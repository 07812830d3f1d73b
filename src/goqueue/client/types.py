"""What the client hands to its user, and how the wire's JSON becomes it."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from goqueue.records import TopicPartition

__all__ = [
    "Delivered",
    "Message",
    "QueueMessage",
    "SendFailure",
    "SettleProblem",
    "Settled",
    "TopicPartition",
    "decode_message",
    "decode_queue_message",
]


class Delivered(msgspec.Struct, frozen=True):
    """Where a record lies, and how safe it was when the broker said so.

    A delayed record lies nowhere yet: partition, offset and timestamp are -1, and `client.delayed` takes its `slot`.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    acks: str
    duplicate: bool = False
    delayed: bool = False
    deliver_at: str | None = None
    slot: str = ""
    # With acks=all: what every in-sync replica had done (`synced` to its disk, or `written`), and how many there were.
    durability: str | None = None
    replicas: int | None = None


class SendFailure(msgspec.Struct, frozen=True):
    """A record that a producer was handed and that is not stored; partition -1 where none was chosen yet."""

    topic: str
    partition: int
    error: Exception


class Message(msgspec.Struct, frozen=True):
    """One record as a reader sees it. Key, value and header values are bytes."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    priority: str = "normal"

    @property
    def text(self) -> str:
        """The value as UTF-8 text; empty for a tombstone."""
        return "" if self.value is None else self.value.decode()

    def json(self) -> object:
        """The value parsed as JSON."""
        return None if self.value is None else msgspec.json.decode(self.value)


class QueueMessage(Message, frozen=True, kw_only=True):
    """One record taken from a queue: ours until `visible_until_ms`, unless it is settled before."""

    receipt: str
    delivery_count: int
    visible_until_ms: int
    group: str = ""

    @property
    def is_redelivered(self) -> bool:
        """Whether it was handed out before."""
        return self.delivery_count > 1


class SettleProblem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a receipt was not settled: the broker's code, such as `receipt_expired`, and its message."""

    code: str = "internal"
    message: str = "no reason was given"
    field: str | None = None
    hint: str | None = None


class Settled(msgspec.Struct, frozen=True, rename={"receipt": "receipt_handle", "dead_letter_topic": "dlq_topic"}):
    """What became of one receipt. `action` is acked, requeued, dlq, rejected, extended or released."""

    success: bool
    receipt: str = ""
    action: str = ""
    topic: str = ""
    partition: int = -1
    offset: int = -1
    delivery_count: int = 0
    next_visible_at: int | None = None
    new_deadline: int | None = None
    dead_letter_topic: str | None = None
    error: SettleProblem | None = None
    status: int = 200


class SettleReply(msgspec.Struct):
    """The answer to a batch of settlements."""

    results: list[Settled]
    failed: int = 0


class WireMessage(msgspec.Struct, omit_defaults=True):
    """A message as the HTTP API writes it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: str | None = None
    value: str | None = None
    headers: dict[str, str | None] = {}
    headers_list: list[tuple[str, str | None]] | None = None
    encoding: str | None = None
    priority: str = "normal"
    receipt_handle: str = ""
    delivery_count: int = 0
    visible_until: int = 0


class ReceiveReply(msgspec.Struct):
    """Messages with receipts."""

    messages: list[WireMessage]


class PollReply(msgspec.Struct):
    """The answer to a poll of a group."""

    messages: list[WireMessage]
    next_offsets: dict[str, dict[str, int]] = {}
    generation: int = -1


class ReadReply(msgspec.Struct):
    """The answer to a stateless read of one partition."""

    messages: list[WireMessage]
    next_offset: int
    high_watermark: int = -1


class LaneReadReply(msgspec.Struct):
    """The answer to a stateless read of one partition by priority."""

    messages: list[WireMessage]
    next_offsets: dict[str, int]


def decode_message(wire: WireMessage) -> Message:
    """The message that a `WireMessage` stands for, with its bytes as they were sent."""
    read = _READ.get(wire.encoding or "", _from_text)
    pairs = wire.headers_list if wire.headers_list is not None else list(wire.headers.items())
    return Message(
        wire.topic,
        wire.partition,
        wire.offset,
        wire.timestamp,
        read(wire.key),
        read(wire.value),
        tuple([(name, read(one)) for name, one in pairs]) if pairs else (),
        wire.priority,
    )


def decode_queue_message(wire: WireMessage, group: str) -> QueueMessage:
    """The message, with its receipt."""
    read = _READ.get(wire.encoding or "", _from_text)
    headers: tuple[tuple[str, bytes | None], ...] = ()
    if wire.headers:
        pairs = wire.headers_list if wire.headers_list is not None else wire.headers.items()
        headers = tuple([(name, read(one)) for name, one in pairs])
    return QueueMessage(
        wire.topic,
        wire.partition,
        wire.offset,
        wire.timestamp,
        read(wire.key),
        read(wire.value),
        headers,
        wire.priority,
        receipt=wire.receipt_handle,
        delivery_count=wire.delivery_count,
        visible_until_ms=wire.visible_until,
        group=group,
    )


def _from_base64(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _from_text(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _as_it_is(value: Any) -> bytes | None:
    return value  # type: ignore[no-any-return]


# Over gRPC a part is bytes already.
_READ = {"base64": _from_base64, "raw": _as_it_is}

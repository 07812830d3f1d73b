"""What the client hands to its user, and how the wire's JSON becomes it."""

from __future__ import annotations

import base64
from collections.abc import Mapping

import msgspec

from goqueue.records import TopicPartition

__all__ = ["Delivered", "Message", "TopicPartition", "decode_message", "encode_message"]


class Delivered(msgspec.Struct, frozen=True):
    """Where a record lies, and how safe it was when the broker said so."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    acks: str
    duplicate: bool = False


class Message(msgspec.Struct, frozen=True):
    """One record as a reader sees it. Key, value and header values are bytes."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def text(self) -> str:
        """The value as UTF-8 text; empty for a tombstone."""
        return "" if self.value is None else self.value.decode()

    def json(self) -> object:
        """The value parsed as JSON."""
        return None if self.value is None else msgspec.json.decode(self.value)


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


def encode_message(
    value: bytes | None, key: bytes | None, headers: Mapping[str, bytes | None], timestamp_ms: int | None
) -> dict[str, object]:
    """A record as the publish route takes it: as text where every part is, else all in base64."""
    message: dict[str, object] = {}
    if timestamp_ms is not None:
        message["timestamp"] = timestamp_ms
    try:
        message["value"] = None if value is None else value.decode()
        if key is not None:
            message["key"] = key.decode()
        if headers:
            message["headers"] = {name: None if one is None else one.decode() for name, one in headers.items()}
    except UnicodeDecodeError:
        message["encoding"] = "base64"
        message["value"] = _base64(value)
        if key is not None:
            message["key"] = _base64(key)
        if headers:
            message["headers"] = {name: _base64(one) for name, one in headers.items()}
    return message


def decode_message(wire: WireMessage) -> Message:
    """The message that a `WireMessage` stands for, with its bytes as they were sent."""
    read = _from_base64 if wire.encoding == "base64" else _from_text
    pairs = wire.headers_list if wire.headers_list is not None else list(wire.headers.items())
    return Message(
        wire.topic,
        wire.partition,
        wire.offset,
        wire.timestamp,
        read(wire.key),
        read(wire.value),
        tuple([(name, read(one)) for name, one in pairs]) if pairs else (),
    )


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _from_base64(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _from_text(text: str | None) -> bytes | None:
    return None if text is None else text.encode()

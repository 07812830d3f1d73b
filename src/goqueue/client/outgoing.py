"""A record on its way out: how it stands in the body of a publish, and the fate that its sender waits for."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from goqueue.client.accumulator import Batch
from goqueue.client.errors import ClientError, RequestRefused
from goqueue.client.types import Delivered

NO_HEADERS: dict[str, bytes | None] = {}


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


class Waiting(msgspec.Struct):
    """A message and whoever waits to hear of it."""

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
    error: dict[str, Any] | None = None
    status: int = 200


class PublishReply(msgspec.Struct):
    """The answer to a publish: an outcome per message, in their order."""

    results: list[Outcome]
    acks: str


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
        return data.encode()
    if isinstance(data, bytearray | memoryview):
        return bytes(data)
    raise TypeError(f"{what} is {type(data).__name__}: give bytes, str or None, such as json.dumps(...)")


def header_bytes(headers: Mapping[str, bytes | str | None]) -> dict[str, bytes | None]:
    """Headers as a caller gave them, as bytes."""
    if not isinstance(headers, Mapping):
        raise TypeError(f"headers is {type(headers).__name__}: give a mapping of names to bytes, str or None")
    return {name: to_bytes(one, f"header {name!r}") for name, one in headers.items()}


def size_of(value: bytes | None, key: bytes | None, headers: Mapping[str, bytes | None]) -> int:
    """What a record adds to its batch."""
    size = (len(value) if value else 0) + (len(key) if key else 0)
    if headers:
        size += sum(len(name) + len(one or b"") for name, one in headers.items())
    return size


def tell(batch: Batch[Waiting], reply: PublishReply) -> None:
    """Every record's fate, out of the answer to its batch."""
    acks, topic = reply.acks, batch.target.topic
    for waiting, found in zip(batch.records, reply.results, strict=True):
        if waiting.future.done():
            continue
        if (error := found.error) is not None:
            _refuse(
                waiting,
                RequestRefused(found.status, error["code"], error["message"], error.get("field"), error.get("hint")),
            )
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
            )
        )


def fail(batch: Batch[Waiting], problem: ClientError) -> None:
    """One fate for all that still wait."""
    for waiting in batch.records:
        if not waiting.future.done():
            _refuse(waiting, problem)


def _refuse(waiting: Waiting, problem: ClientError) -> None:
    waiting.future.set_exception(problem)
    # Whoever does not look at the future has chosen to; that is not a warning of ours.
    waiting.future.exception()


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()

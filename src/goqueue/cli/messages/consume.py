"""The command `goqueue consume`: look at a topic, follow it, or read it as a member of a group."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

import typer

from goqueue.cli.schemas.encoding import Decoder
from goqueue.cli.session import REFUSED, USAGE, ContextName, Server, TopicName, fail, with_client
from goqueue.cli.times import time_ms
from goqueue.client import Client, Message
from goqueue.client.options import OffsetReset
from goqueue.client.transport import quoted

_READ = 1000


class Shape(StrEnum):
    """How a message is printed."""

    value = "value"
    json = "json"
    full = "full"


class Order(StrEnum):
    """In which order the messages of a partition come."""

    offset = "offset"
    priority = "priority"
    fair = "fair"


def consume(
    topic: TopicName,
    partition: Annotated[int | None, typer.Option("--partition", "-p", help="One partition. [default: all]")] = None,
    offset: Annotated[int | None, typer.Option("--offset", help="Start at this offset of --partition.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", help="Stop after this many messages.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more at the end.")] = False,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Start with the oldest message (the default).")
    ] = False,
    from_latest: Annotated[
        bool,
        typer.Option("--from-latest", help="Start with new messages (a group: on its first use); implies --follow."),
    ] = False,
    from_time: Annotated[
        str | None, typer.Option("--from-time", help="Start at a time: ISO 8601 or milliseconds.")
    ] = None,
    to_time: Annotated[str | None, typer.Option("--to-time", help="End at a time: ISO 8601 or milliseconds.")] = None,
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="Read as a member of this group and commit.")
    ] = None,
    order: Annotated[
        Order, typer.Option("--order", help="Of --partition: by offset, by priority, or fair (rounds by lane weights).")
    ] = Order.offset,
    decode: Annotated[
        bool, typer.Option("--decode/--raw", help="Show values of registered schemas as JSON, or as they are.")
    ] = True,
    shape: Annotated[Shape, typer.Option("--format", help="value, json (one object a line) or full.")] = Shape.value,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Read messages of a topic."""
    starts = [offset is not None, from_beginning, from_latest, from_time is not None]
    if sum(starts) > 1:
        raise fail("--offset, --from-beginning, --from-latest and --from-time exclude each other", USAGE)
    if offset is not None and partition is None:
        raise fail("--offset counts within one partition: give --partition too", USAGE)
    if group is not None and (partition is not None or offset is not None or from_time or to_time):
        raise fail("a group reads from its committed offsets: change them with 'goqueue group reset-offsets'", USAGE)
    if order is not Order.offset and (partition is None or group is not None or follow or from_latest or to_time):
        raise fail(
            f"--order {order} reads what one partition holds now: give --partition, and no --group, "
            "--follow, --from-latest or --to-time",
            USAGE,
        )
    start_ms = time_ms(from_time, "--from-time")
    end_ms = time_ms(to_time, "--to-time")

    async def work(client: Client) -> None:
        if group is not None:
            messages = _as_member(client, topic, group, latest=from_latest, follow=follow or from_latest, limit=limit)
        elif follow or from_latest:
            messages = _tail(client, topic, partition, offset, start_ms, end_ms, latest=from_latest, limit=limit)
        elif partition is not None and order is not Order.offset:
            messages = _by_lane(client, topic, partition, order, offset, start_ms, limit)
        else:
            messages = _once(client, topic, partition, offset, start_ms, end_ms, limit)
        decoder = Decoder(client) if decode else None
        async for message in messages:
            _print(message if decoder is None else await decoder(message), shape)

    with_client(work, server, context)


async def _once(
    client: Client,
    topic: str,
    partition: int | None,
    offset: int | None,
    start_ms: int | None,
    end_ms: int | None,
    limit: int | None,
) -> AsyncIterator[Message]:
    """Everything that is there now, partition by partition, by time within each page."""
    rows = (await client.get(f"/topics/{quoted(topic)}/partitions"))["partitions"]
    if partition is not None:
        _check_place(topic, rows, partition, offset)
    left = limit if limit is not None else sys.maxsize
    for row in rows:
        if partition is not None and row["partition"] != partition:
            continue
        start = offset if offset is not None else max(row["earliest"], 0)
        if start_ms is not None:
            start = await client.offset_at(topic, row["partition"], start_ms)
        async for message in _partition(client, topic, row["partition"], start, row["latest"]):
            if left <= 0 or (end_ms is not None and message.timestamp_ms > end_ms):
                break
            left -= 1
            yield message


async def _by_lane(
    client: Client,
    topic: str,
    partition: int,
    order: Order,
    offset: int | None,
    start_ms: int | None,
    limit: int | None,
) -> AsyncIterator[Message]:
    """What the partition holds, lane by lane or in rounds, until a read moves no lane on."""
    if start_ms is not None:
        offset = await client.offset_at(topic, partition, start_ms)
    way: Literal["priority", "fair"] = "fair" if order is Order.fair else "priority"
    left = limit if limit is not None else sys.maxsize
    offsets: dict[str, int] | None = None
    start: int | Literal["earliest"] = "earliest" if offset is None else offset
    while left > 0:
        messages, following = await client.read_lanes(
            topic, partition, order=way, offset=start, offsets=offsets, limit=min(left, _READ)
        )
        for message in messages:
            yield message
        left -= len(messages)
        if following == offsets:
            return
        offsets = following


def _check_place(topic: str, rows: list[dict[str, Any]], partition: int, offset: int | None) -> None:
    """A place that is not there is an error, as it is to the broker: silence would look like an empty topic."""
    row = next((one for one in rows if one["partition"] == partition), None)
    if row is None:
        raise fail(f"topic {topic!r} has no partition {partition}", REFUSED)
    if offset is not None and not row["earliest"] <= offset <= row["latest"]:
        raise fail(f"offset {offset} is outside the log, which holds {row['earliest']} to {row['latest']}", REFUSED)


async def _partition(client: Client, topic: str, partition: int, start: int, end: int) -> AsyncIterator[Message]:
    while start < end:
        messages, following = await client.read(topic, partition, offset=start, limit=_READ)
        for message in messages:
            if message.offset < end:
                yield message
        if following <= start:
            return
        start = following


def _tail(
    client: Client,
    topic: str,
    partition: int | None,
    offset: int | None,
    start_ms: int | None,
    end_ms: int | None,
    *,
    latest: bool,
    limit: int | None,
) -> AsyncIterator[Message]:
    params: dict[str, str] = {}
    if partition is not None:
        params["partition"] = str(partition)
    if offset is not None:
        params["offset"] = str(offset)
    elif start_ms is not None:
        params["timestamp"] = str(start_ms)
    else:
        params["from"] = "latest" if latest else "earliest"
    if end_ms is not None:
        params["to_timestamp"] = str(end_ms)
    if limit is not None:
        params["limit"] = str(limit)
    return client.tail(topic, **params)


async def _as_member(
    client: Client, topic: str, group: str, *, latest: bool, follow: bool, limit: int | None
) -> AsyncIterator[Message]:
    """As a member: what the group has not read yet. Without --follow, until a poll brings nothing."""
    reset: OffsetReset = "latest" if latest else "earliest"
    left = limit if limit is not None else sys.maxsize
    # To follow is to wait for a broker that is restarted; whoever does not follow wants an answer.
    patience = None if follow else 0
    async with client.consumer(
        group, [topic], client_id="goqueue-cli", auto_offset_reset=reset, reconnect_max=patience
    ) as consumer:
        while left > 0:
            messages = await consumer.poll(limit=min(left, _READ), timeout=2)
            if not messages and not follow and consumer.assignment:
                return
            for message in messages:
                left -= 1
                yield message


def _print(message: Message, shape: Shape) -> None:
    if shape is Shape.value:
        sys.stdout.buffer.write((message.value or b"") + b"\n")
    elif shape is Shape.json:
        sys.stdout.write(json.dumps(row_of(message), ensure_ascii=False) + "\n")
    else:
        when = datetime.fromtimestamp(message.timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
        sys.stdout.write(
            f"{when} {message.topic}/{message.partition}@{message.offset} "
            f"{message.priority} key={shown(message.key)} {shown(message.value)}\n"
        )
    sys.stdout.flush()


def row_of(message: Message) -> dict[str, Any]:
    """A message as JSON shows it: as text, or all of it in base64 where one part is not UTF-8, as over HTTP."""
    encoded = _row(message, bytes.decode)
    return encoded if encoded is not None else {**(_row(message, _base64) or {}), "encoding": "base64"}


def shown(data: bytes | None) -> str | None:
    """Bytes as people read them; what is not UTF-8 is escaped."""
    return None if data is None else data.decode(errors="backslashreplace")


def _row(message: Message, text: Callable[[bytes], str]) -> dict[str, Any] | None:
    try:
        return {
            "topic": message.topic,
            "partition": message.partition,
            "offset": message.offset,
            "timestamp": message.timestamp_ms,
            "key": None if message.key is None else text(message.key),
            "value": None if message.value is None else text(message.value),
            "priority": message.priority,
            "headers": {name: None if one is None else text(one) for name, one in message.headers},
        }
    except UnicodeDecodeError:
        return None


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()

"""The command `goqueue produce`: from an argument, from standard input, or from a file."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from goqueue.cli.messages.lines import DASH, BadLine, Line, lines_of
from goqueue.cli.output import Format, show, tell
from goqueue.cli.schemas.encoding import Encode, encoder
from goqueue.cli.session import REFUSED, USAGE, ContextName, Output, Server, TopicName, agreed, fail, with_client
from goqueue.cli.times import duration, moment
from goqueue.client import Client, ClientError, Delivered, InvalidArgument, TopicNotFound
from goqueue.client.options import AcksName
from goqueue.errors import InvalidValue

# Futures looked at before more is read, so that a large file does not lie in memory.
_UNCHECKED_MAX = 10_000
_LANES = ("critical", "high", "normal", "low", "background")


def produce(
    topic: TopicName,
    value: Annotated[
        str | None, typer.Argument(help="The value; without it, lines of standard input.", show_default=False)
    ] = None,
    message: Annotated[str | None, typer.Option("--message", "-m", help="The value, as an option.")] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key.")] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", help="A header as name=value; may be repeated.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", help="The partition, if you want to choose it.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            "-f",
            help="JSON lines with value, key, headers, partition, timestamp, priority, deduplication_id, delay, "
            "deliverAt, encoding (base64); other lines are values. - reads them from standard input.",
            exists=True,
            dir_okay=False,
            allow_dash=True,
        ),
    ] = None,
    priority: Annotated[
        str | None,
        typer.Option("--priority", help="critical, high, normal, low or background; or 0 to 4.", show_default=False),
    ] = None,
    dedup_id: Annotated[
        str | None,
        typer.Option("--dedup-id", help="A repeat with this id is not stored again.", show_default=False),
    ] = None,
    delay: Annotated[
        str | None,
        typer.Option("--delay", "-d", help="Deliver after this, such as 30s, 1h30m or 365d.", callback=duration),
    ] = None,
    deliver_at: Annotated[
        str | None,
        typer.Option("--deliver-at", help="Deliver at this RFC 3339 time.", show_default=False, callback=moment),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema",
            help="Encode values, given as JSON, by this schema: subject, subject:version or an id.",
            show_default=False,
        ),
    ] = None,
    acks: Annotated[
        AcksName | None,
        typer.Option("--acks", help="none, leader or all.", show_default="all in a cluster, else leader"),
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Create the topic if it does not exist.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing on success.")] = False,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Publish messages to a topic."""
    if value is not None and message is not None:
        raise fail("the value is given twice: as an argument and as --message", USAGE)
    message = value if message is None else message
    # Arguments that are not UTF-8 are values, keys and headers like any other: their bytes.
    content = None if message is None else os.fsencode(message)
    if message is not None and file is not None:
        raise fail("a value and --file exclude each other", USAGE)
    if dedup_id is not None and message is None:
        raise fail("--dedup-id belongs to one message: give its value, or deduplication_id in each line", USAGE)
    if delay is not None and deliver_at is not None:
        raise fail("--delay and --deliver-at are both given: give one of them", USAGE)
    extra: dict[str, Any] = {
        "key": None if key is None else os.fsencode(key),
        "headers": _headers(header),
        "partition": partition,
        "priority": _priority(priority),
        "deduplication_id": dedup_id,
        "delay": delay,
        "deliver_at": deliver_at,
    }

    async def work(client: Client) -> int:
        await _check_topic(client, topic, create=create, may_ask=message is not None or file is not None)
        encode = None if schema is None else await encoder(client, schema)
        if message is not None:
            line = Line(0, content, **extra)
            if encode is not None:
                line.value = await encode(line.value)
            return await _send_one(client, topic, line, acks, output, quiet=quiet)
        return await _send_lines(client, topic, file, extra, acks, output, encode, quiet=quiet)

    failures = with_client(work, server, context)
    if failures:
        raise typer.Exit(REFUSED)


async def _check_topic(client: Client, topic: str, *, create: bool, may_ask: bool) -> None:
    """A misspelt name must not become a topic: ask, where somebody can answer, or want to be told."""
    try:
        await client.topic(topic)
    except TopicNotFound:
        if not create and not (may_ask and sys.stdin.isatty() and sys.stderr.isatty()):
            raise fail(
                f"topic {topic} does not exist: create it with --create, or with goqueue topic create", REFUSED
            ) from None
        if not create and not agreed(f"Topic {topic} does not exist. Create it?"):
            raise fail(f"topic {topic} was not created, and nothing was sent", REFUSED) from None
        await client.create_topic(topic, exist_ok=True)


async def _send_one(
    client: Client, topic: str, line: Line, acks: AcksName | None, output: Format, *, quiet: bool
) -> int:
    async with client.producer(acks=acks, linger=0, delivery_timeout=0) as producer:
        sent = await producer.send_and_wait(topic, line.value, **_fields(line))
    if sent.delayed:
        text = f"{sent.topic} slot {sent.slot} is due at {sent.deliver_at}"
    else:
        repeat = " (stored before)" if sent.duplicate else ""
        text = f"{sent.topic} partition {sent.partition} offset {sent.offset}{repeat}"
    if not quiet:
        tell(text, msgspec.to_builtins(sent), output)
    return 0


async def _send_lines(
    client: Client,
    topic: str,
    file: Path | None,
    extra: dict[str, Any],
    acks: AcksName | None,
    output: Format,
    encode: Encode | None,
    *,
    quiet: bool,
) -> int:
    """Send every line; tell of each that failed, and of how many did not."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    size = None if file in (None, DASH) else (await asyncio.to_thread(file.stat)).st_size
    sent = failed = 0
    waiting: list[tuple[int, asyncio.Future[Delivered]]] = []

    async def settle() -> None:
        nonlocal sent
        for number, future in waiting:
            try:
                await future
                sent += 1
            except ClientError as error:
                blame(number, error)
        waiting.clear()

    def blame(number: int, error: Exception) -> None:
        nonlocal failed
        failed += 1
        typer.secho(f"line {number}: {error}", err=True, fg=typer.colors.RED)

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    # Only for a file: over lines that somebody types it would be in the way.
    hidden = quiet or file is None or not sys.stderr.isatty()
    with Progress(*columns, disable=hidden, transient=True, console=_stderr()) as bar:
        task = bar.add_task(f"to {topic}", total=size)
        # Whoever waits at a terminal hears at once that the broker is away.
        async with client.producer(acks=acks, delivery_timeout=0) as producer:
            try:
                async for line, size_read in lines_of(file, extra):
                    bar.advance(task, size_read)
                    if isinstance(line, BadLine):
                        blame(line.number, line.problem)
                        continue
                    try:
                        if encode is not None:
                            line.value = await encode(line.value)
                        waiting.append((line.number, await producer.send(topic, line.value, **_fields(line))))
                    except (InvalidArgument, InvalidValue, TypeError) as problem:
                        blame(line.number, problem)
                    if len(waiting) >= _UNCHECKED_MAX:
                        await producer.drain()
                        await settle()
            finally:
                # Also after Ctrl-C and when the broker is gone: whoever sent something hears what was stored.
                await producer.drain()
                await settle()
                _report(topic, sent, failed, output, quiet=quiet)
    return failed


def _report(topic: str, sent: int, failed: int, output: Format, *, quiet: bool) -> None:
    if output is not Format.table and not quiet:
        show({"topic": topic, "sent": sent, "failed": failed}, output)
    elif not quiet:
        typer.echo(f"{sent} sent, {failed} failed", err=True)


def _fields(line: Line) -> dict[str, Any]:
    return {
        "key": line.key,
        "headers": line.headers,
        "partition": line.partition,
        "timestamp_ms": line.timestamp_ms,
        "priority": line.priority,
        "deduplication_id": line.deduplication_id,
        "delay": line.delay,
        "deliver_at": line.deliver_at,
    }


def _priority(text: str | None) -> int | str | None:
    if text is None or text.lower() in _LANES:
        return None if text is None else text.lower()
    if text in {"0", "1", "2", "3", "4"}:
        return int(text)
    raise fail(f"--priority {text!r} is not one of {', '.join(_LANES)}, or 0 to 4", USAGE)


def _headers(pairs: list[str] | None) -> dict[str, bytes]:
    headers = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals:
            raise fail(f"--header {pair!r} is not of the form name=value", USAGE)
        headers[name] = os.fsencode(value)
    return headers


def _stderr() -> Any:
    from rich.console import Console

    return Console(stderr=True)

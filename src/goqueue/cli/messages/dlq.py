"""The commands `goqueue dlq list|peek|redrive|purge`."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from goqueue.cli.output import Format, show
from goqueue.cli.session import REFUSED, USAGE, ContextName, Output, Server, TopicName, confirmed, fail, with_client
from goqueue.cli.times import time_ms
from goqueue.client import Client
from goqueue.client.transport import quoted

app = typer.Typer(help="List, redrive and purge dead letters.", no_args_is_help=True)

_COLUMNS = ["partition", "offset", "died", "reason", "error", "group", "deliveries", "from", "key", "value"]
_SHOWN_CHARS = 60

Reason = Annotated[
    str | None,
    typer.Option(
        "--reason",
        help="Only those with this code: rejected, retries_exhausted, visibility_timeout or unreadable.",
        show_default=False,
    ),
]
Group = Annotated[str | None, typer.Option("--group", "-g", help="Only those of this group.", show_default=False)]
Key = Annotated[str | None, typer.Option("--key", "-k", help="Only those with this key.", show_default=False)]
HeaderOption = Annotated[
    str | None, typer.Option("--header", "-H", help="Only those with this header: name or name=value.")
]
Since = Annotated[str | None, typer.Option("--since", help="Only those dead-lettered at or after: ISO 8601 or ms.")]
Until = Annotated[str | None, typer.Option("--until", help="Only those dead-lettered before: ISO 8601 or ms.")]


@app.command("list")
def list_letters(
    topic: TopicName,
    reason: Reason = None,
    group: Group = None,
    key: Key = None,
    header: HeaderOption = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="Maximum number.")] = 100,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """List the dead letters of a topic."""
    wanted = _filters(reason, group, key, header, since, until)
    letters = with_client(lambda client: _letters(client, topic, wanted, limit), server, context)
    if output is not Format.table:
        show(letters, output)
        return
    show([_row(one) for one in letters], output, _COLUMNS)


@app.command()
def peek(
    topic: TopicName,
    partition: Annotated[int, typer.Option("--partition", "-p", help="Its partition.")] = 0,
    offset: Annotated[int | None, typer.Option("--offset", help="Its offset. [default: the oldest]")] = None,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Show one dead letter with its history."""

    async def work(client: Client) -> dict[str, Any] | None:
        start = None if offset is None else f"{partition}:{offset}"
        found = await client.dead_letters(topic, partition=partition, cursor=start, limit=1)
        return found["letters"][0] if found["letters"] else None

    letter = with_client(work, server, context)
    if letter is None or (offset is not None and letter["message"]["offset"] != offset):
        raise fail(f"topic {topic} has no dead letter at that place", REFUSED)
    if output is not Format.table:
        show(letter, output)
        return
    message = letter.pop("message")
    show(letter, output)
    typer.echo("\nmessage")
    show(message, output)


@app.command()
def redrive(
    topic: TopicName,
    reason: Reason = None,
    group: Group = None,
    key: Key = None,
    header: HeaderOption = None,
    since: Since = None,
    until: Until = None,
    to: Annotated[str | None, typer.Option("--to", help="Another topic to send them to.", show_default=False)] = None,
    all_groups: Annotated[
        bool,
        typer.Option("--all-groups", help="To every group of the topic, not only to their own."),
    ] = False,
    set_header: Annotated[
        list[str] | None, typer.Option("--set-header", help="Set a header as name=value; may be repeated.")
    ] = None,
    drop_header: Annotated[
        list[str] | None, typer.Option("--drop-header", help="Remove a header; may be repeated.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", help="Maximum number.")] = None,
    rate: Annotated[float | None, typer.Option("--rate", help="Maximum number per second.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be sent.")] = False,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Send dead letters back to the group that dead-lettered them; a letter is sent back once."""
    request: dict[str, Any] = _filters(reason, group, key, header, since, until)
    if headers := {**_headers(set_header), **dict.fromkeys(drop_header or ())}:
        request["headers"] = headers
    chosen = {"to": to, "all_groups": all_groups or None, "limit": limit, "per_second": rate}
    request |= {name: value for name, value in chosen.items() if value is not None}
    done = with_client(lambda client: _redrive(client, topic, {**request, "dry_run": dry_run}), server, context)
    if output is not Format.table:
        show(done, output)
    elif dry_run:
        typer.echo(f"{done['matched']} of {done['scanned']} would be sent; nothing was changed: this was a dry run")
    else:
        typer.echo(f"{done['redriven']} sent back, {done['failed']} failed, {done['scanned']} scanned")
    if done["state"] != "done" or done["failed"]:
        raise fail(done.get("error") or f"the redrive was {done['state']}", REFUSED)


@app.command()
def purge(
    topic: TopicName,
    force: Annotated[bool, typer.Option("--force", "-f", help="Do not ask.")] = False,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Delete all dead letters of a topic."""
    confirmed(f"Delete all dead letters of {topic}?", force=force)
    done = with_client(lambda client: client.purge_dead_letters(topic), server, context)
    if output is Format.table:
        typer.echo(f"deleted {done['purged']} dead letters of {topic}")
    else:
        show(done, output)


async def _letters(client: Client, topic: str, wanted: dict[str, Any], limit: int) -> list[dict[str, Any]]:
    """Page by page, as many as were asked for."""
    letters: list[dict[str, Any]] = []
    cursor = None
    while len(letters) < limit:
        page = await client.dead_letters(topic, **wanted, limit=min(limit - len(letters), 1000), cursor=cursor)
        letters += page["letters"]
        cursor = page.get("cursor")
        if cursor is None:
            break
    return letters


async def _redrive(client: Client, topic: str, request: dict[str, Any]) -> dict[str, Any]:
    """Begin, and show how far it is until it is over. Ctrl-C stops it."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    begun: dict[str, Any] = await client.redrive(topic, **request)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, disable=not sys.stderr.isatty(), transient=True, console=Console(stderr=True)) as bar:
        task = bar.add_task(f"dead letters of {topic}", total=begun["total"])
        try:
            while begun["state"] == "running":
                await asyncio.sleep(0.1)
                begun = await client.get(f"/topics/{quoted(topic)}/dlq/redrive")
                bar.update(task, completed=begun["scanned"], total=max(begun["total"], begun["scanned"]))
        except asyncio.CancelledError:
            await client.cancel_redrive(topic)
            raise
    return begun


def _filters(
    reason: str | None, group: str | None, key: str | None, header: str | None, since: str | None, until: str | None
) -> dict[str, Any]:
    given = {
        "reason": reason,
        "group": group,
        "key": key,
        "header": header,
        "since": time_ms(since, "--since"),
        "until": time_ms(until, "--until"),
    }
    return {name: value for name, value in given.items() if value is not None}


def _headers(pairs: list[str] | None) -> dict[str, str | None]:
    headers: dict[str, str | None] = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise fail(f"--set-header {pair!r} is not of the form name=value", USAGE)
        headers[name] = value
    return headers


def _row(letter: dict[str, Any]) -> dict[str, Any]:
    message = letter["message"]
    died = letter.get("died_at")
    return {
        "partition": message["partition"],
        "offset": message["offset"],
        "died": None if died is None else datetime.fromtimestamp(died / 1000, UTC).isoformat(timespec="seconds"),
        "reason": letter.get("reason"),
        "error": letter.get("error"),
        "group": letter.get("group"),
        "deliveries": letter.get("delivery_count"),
        "from": f"{letter.get('topic')}/{letter.get('partition')}@{letter.get('offset')}",
        "key": message["key"],
        "value": (message["value"] or "")[:_SHOWN_CHARS],
    }

"""The commands `goqueue delayed list|show|cancel|reschedule|now|stats`."""

from __future__ import annotations

from typing import Annotated

import typer

from goqueue.cli.output import Format, show, tell
from goqueue.cli.session import USAGE, ContextName, Output, Server, fail, with_client
from goqueue.cli.times import duration, moment

app = typer.Typer(help="List, reschedule and cancel delayed messages.", no_args_is_help=True)

_COLUMNS = ["slot", "deliver_at", "time_remaining", "state"]
Slot = Annotated[str, typer.Argument(help="The slot as produce and list show it, such as 2/17.")]


@app.command("list")
def list_delayed(
    topic: str,
    limit: Annotated[int, typer.Option("--limit", help="Rows to show.")] = 100,
    skip: Annotated[int, typer.Option("--skip", help="Rows to leave out.")] = 0,
    due_before: Annotated[
        str | None, typer.Option("--due-before", help="Only what is due before this RFC 3339 time.")
    ] = None,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """List a topic's delayed messages by time."""
    rows = with_client(
        lambda client: client.delayed.list(topic, limit=limit, skip=skip, due_before=due_before), server, context
    )
    show(rows, output, _COLUMNS)


@app.command("show")
def show_one(
    topic: str, slot: Slot, output: Output = Format.table, server: Server = None, context: ContextName = None
) -> None:
    """Show a delayed message with its value."""
    _check_slot(slot)
    show(with_client(lambda client: client.delayed.get(topic, slot), server, context), output)


@app.command()
def cancel(
    topic: str, slot: Slot, output: Output = Format.table, server: Server = None, context: ContextName = None
) -> None:
    """Cancel a delayed message."""
    _check_slot(slot)
    done = with_client(lambda client: client.delayed.cancel(topic, slot), server, context)
    tell(f"cancelled {topic} slot {slot}", done, output)


@app.command()
def reschedule(
    topic: str,
    slot: Slot,
    delay: Annotated[
        str | None, typer.Option("--delay", "-d", help="From now, such as 30s or 1h30m.", callback=duration)
    ] = None,
    deliver_at: Annotated[str | None, typer.Option("--deliver-at", help="An RFC 3339 time.", callback=moment)] = None,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Deliver a message at another time."""
    _check_slot(slot)
    if (delay is None) == (deliver_at is None):
        raise fail("give either --delay or --deliver-at", USAGE)
    moved = with_client(
        lambda client: client.delayed.reschedule(topic, slot, delay=delay, deliver_at=deliver_at),
        server,
        context,
    )
    tell(f"{topic} slot {slot} is due at {moved['deliver_at']}", moved, output)


@app.command()
def now(
    topic: str, slot: Slot, output: Output = Format.table, server: Server = None, context: ContextName = None
) -> None:
    """Deliver a message without waiting any longer."""
    _check_slot(slot)
    done = with_client(lambda client: client.delayed.now(topic, slot), server, context)
    tell(f"{topic} slot {slot} is delivered now", done, output)


@app.command()
def stats(output: Output = Format.table, server: Server = None, context: ContextName = None) -> None:
    """Count delayed messages."""
    show(with_client(lambda client: client.delayed.stats(), server, context), output)


def _check_slot(text: str) -> None:
    partition, slash, offset = text.partition("/")
    if not (slash and partition.isdigit() and offset.isdigit()):
        raise fail(f"{text!r} is not a slot: write it as produce and list show it, such as 2/17", USAGE)

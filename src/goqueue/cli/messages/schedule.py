"""The commands `goqueue schedule create|list|show|delete`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from goqueue.cli.output import Format, show, tell
from goqueue.cli.session import USAGE, ContextName, Output, Server, confirmed, fail, with_client

app = typer.Typer(help="Recurring messages, by cron expression.", no_args_is_help=True)

_COLUMNS = ["name", "cron", "timezone", "topic", "missed", "runs", "next_runs"]


@app.command()
def create(
    name: str,
    cron: Annotated[str, typer.Option("--cron", help="Minute hour day month weekday, such as '0 9 * * MON-FRI'.")],
    topic: Annotated[str, typer.Option("--topic", "-t", help="Where the message goes.")],
    message: Annotated[str, typer.Option("--message", "-m", help="The value.")],
    timezone: Annotated[str, typer.Option("--timezone", help="A name such as Europe/Paris.")] = "UTC",
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key.")] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", help="A header as name=value; may be repeated.")
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", "-p", help="The partition.")] = None,
    missed: Annotated[
        Literal["once", "all", "skip"],
        typer.Option("--missed", help="Runs while the broker was down: once (one for all), all, or skip."),
    ] = "once",
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Create a recurring message."""
    headers = {}
    for pair in header or ():
        label, equals, value = pair.partition("=")
        if not equals:
            raise fail(f"--header {pair!r} is not of the form name=value", USAGE)
        headers[label] = value
    row = with_client(
        lambda client: client.schedules.create(
            name,
            cron,
            topic,
            message,
            timezone=timezone,
            key=key,
            headers=headers or None,
            partition=partition,
            missed=missed,
        ),
        server,
        context,
    )
    tell(f"created schedule {name}; next runs: {', '.join(row['next_runs'])}", row, output)


@app.command("list")
def list_schedules(output: Output = Format.table, server: Server = None, context: ContextName = None) -> None:
    """List recurring messages and their next runs."""
    show(with_client(lambda client: client.schedules.list(), server, context), output, _COLUMNS)


@app.command("show")
def show_one(name: str, output: Output = Format.table, server: Server = None, context: ContextName = None) -> None:
    """Show a recurring message."""
    show(with_client(lambda client: client.schedules.get(name), server, context), output)


@app.command()
def delete(
    name: str,
    force: Annotated[bool, typer.Option("--force", "-f", help="Do not ask.")] = False,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Delete a recurring message."""
    confirmed(f"Delete schedule {name}?", force=force)
    done = with_client(lambda client: client.schedules.delete(name), server, context)
    tell(f"deleted schedule {name}", done, output)

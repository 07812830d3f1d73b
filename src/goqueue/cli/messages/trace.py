"""The commands `goqueue trace list|get|search|stats`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from goqueue.cli.output import Format, show
from goqueue.cli.session import ContextName, Output, Server, with_client
from goqueue.cli.times import time_ms

app = typer.Typer(help="Look at traces: recent ones, one by its id, a search, numbers.", no_args_is_help=True)

_COLUMNS = ["trace_id", "topic", "partition", "offset", "start_time", "duration_ms", "status", "span_count"]
Limit = Annotated[int, typer.Option("--limit", "-n", help="Maximum number.")]


@app.command("list")
def list_traces(
    limit: Limit = 100, output: Output = Format.table, server: Server = None, context: ContextName = None
) -> None:
    """List the traces with the most recent events."""
    show(with_client(lambda client: client.traces(limit=limit), server, context), output, _COLUMNS)


@app.command()
def get(
    trace_id: Annotated[str, typer.Argument(help="32 hex digits.")],
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Show one trace with its spans; `goqueue explain` shows the same as a timeline."""
    found = with_client(lambda client: client.trace(trace_id), server, context)
    if output is not Format.table:
        show(found, output)
        return
    spans = found.pop("spans")
    show(found, output)
    print()
    show(spans, output, ["time", "event", "span_id", "parent_span_id", "status"])


@app.command()
def search(
    topic: Annotated[str | None, typer.Option("--topic", "-t", help="Only this topic.")] = None,
    partition: Annotated[int | None, typer.Option("--partition", "-p", help="Only this partition.")] = None,
    group: Annotated[str | None, typer.Option("--consumer-group", "-g", help="Delivered to this group.")] = None,
    client: Annotated[str | None, typer.Option("--client", help="Sent or read by this client.")] = None,
    start: Annotated[str | None, typer.Option("--start", help="From this time on: ISO 8601 or ms.")] = None,
    end: Annotated[str | None, typer.Option("--end", help="Before this time.")] = None,
    status: Annotated[str | None, typer.Option("--status", help="completed, pending or error.")] = None,
    longer_than: Annotated[str | None, typer.Option("--longer-than", help="Longer than this, such as 5s.")] = None,
    limit: Limit = 100,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Search messages: the recent ones, or with --topic and --start those of that time."""
    wanted: dict[str, Any] = {
        "topic": topic,
        "partition": partition,
        "consumer_group": group,
        "client": client,
        "start": time_ms(start, "--start"),
        "end": time_ms(end, "--end"),
        "status": status,
        "longer_than": longer_than,
        "limit": limit,
    }
    given = {name: value for name, value in wanted.items() if value is not None}
    found = with_client(lambda one: one.search_traces(**given), server, context)
    if output is not Format.table:
        show(found, output)
        return
    show(found["traces"], output, _COLUMNS)
    if "cursor" in found:
        typer.echo(f"{found['scanned']} messages were looked at, and there are more: narrow the time", err=True)


@app.command()
def stats(output: Output = Format.table, server: Server = None, context: ContextName = None) -> None:
    """Show what the tracer has recorded and dropped."""
    show(with_client(lambda client: client.trace_stats(), server, context), output)

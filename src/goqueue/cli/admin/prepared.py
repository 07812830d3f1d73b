"""The commands `goqueue prepared list|describe|abort`."""

from __future__ import annotations

from typing import Annotated

import typer

from goqueue.cli.output import Format, show, tell
from goqueue.cli.session import ContextName, Output, Server, confirmed, with_client

app = typer.Typer(help="List prepared transactions, and abort an epoch.", no_args_is_help=True)

_COLUMNS = ["writer", "last_committed_epoch", "open"]
_PARTICIPANT_COLUMNS = ["epoch", "task", "state", "producer_id", "started_ms", "timeout_ms", "partitions"]


@app.command("list")
def list_writers(output: Output = Format.table, server: Server = None, context: ContextName = None) -> None:
    """List writers, the last epoch each has committed, and how many participants are open."""
    rows = with_client(lambda client: client.writers(), server, context)
    show([{**row, "open": len(row["participants"])} for row in rows], output, _COLUMNS)


@app.command()
def describe(writer: str, output: Output = Format.table, server: Server = None, context: ContextName = None) -> None:
    """Show the participants of a writer."""
    row = with_client(lambda client: client.writer(writer), server, context)
    if output is Format.table:
        typer.echo(f"{writer}: last committed epoch {row['last_committed_epoch']}")
        show(row["participants"], output, _PARTICIPANT_COLUMNS)
    else:
        show(row, output)


@app.command()
def abort(
    writer: str,
    epoch: int,
    force: Annotated[bool, typer.Option("--force", "-f", help="Do not ask.")] = False,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Abort all that is staged for an epoch; it may be written again."""
    confirmed(f"Abort epoch {epoch} of {writer}?", force=force)
    outcome = with_client(lambda client: client.abort_epoch(writer, epoch), server, context)
    tell(f"aborted {outcome['aborted']} participants of epoch {epoch} of {writer}", outcome, output)

"""The commands `goqueue transactions list|describe|abort`."""

from __future__ import annotations

from typing import Annotated

import typer

from goqueue.cli.output import Format, show, tell
from goqueue.cli.session import ContextName, Output, Server, confirmed, with_client

app = typer.Typer(help="List transactions, and abort those that hang.", no_args_is_help=True)

_COLUMNS = ["transactional_id", "state", "producer_id", "epoch", "started_ms", "timeout_ms", "partitions"]


@app.command("list")
def list_transactions(output: Output = Format.table, server: Server = None, context: ContextName = None) -> None:
    """List transactions that are open or being ended."""
    rows = with_client(lambda client: client.transactions(), server, context)
    show(rows, output, _COLUMNS)


@app.command()
def describe(
    transactional_id: str, output: Output = Format.table, server: Server = None, context: ContextName = None
) -> None:
    """Show the state of a transactional id."""
    show(with_client(lambda client: client.transaction(transactional_id), server, context), output)


@app.command()
def abort(
    transactional_id: str,
    force: Annotated[bool, typer.Option("--force", "-f", help="Do not ask.")] = False,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Abort the open transaction of an id; its producer is fenced."""
    confirmed(f"Abort the transaction of {transactional_id}?", force=force)
    with_client(lambda client: client.abort_transaction(transactional_id), server, context)
    facts = {"aborted": True, "transactional_id": transactional_id}
    tell(f"aborted the transaction of {transactional_id}", facts, output)

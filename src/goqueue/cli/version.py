"""The command `goqueue version`: what is installed here, and what runs at the broker."""

from __future__ import annotations

import platform
from typing import Annotated, Any

import typer

from goqueue.build_info import build_info
from goqueue.cli.output import Format, show
from goqueue.cli.session import ContextName, Output, Server

_ANSWER_S_MAX = 2


def client_line() -> str:
    """What is installed here, in a line."""
    build = build_info()
    facts = [f"Python {platform.python_version()}", build.origin]
    return f"goqueue {build.version} ({', '.join(fact for fact in facts if fact)})"


def version(
    client_only: Annotated[bool, typer.Option("--client", help="Do not contact the broker.")] = False,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Show the versions of this program and of the broker."""
    found: dict[str, Any] = {"client": build_info().version, "python": platform.python_version()}
    if not client_only:
        found["server"] = _server_version(server, context)
    if output is not Format.table:
        show(found, output)
        return
    typer.echo(client_line())
    if not client_only:
        told = found["server"]
        typer.echo(
            f"server {told['version']} at {told['address']}" if "version" in told else f"server: {told['error']}"
        )


def _server_version(server: str | None, context: str | None) -> dict[str, str]:
    """What the broker says; a broker that is away is no failure of this command."""
    import asyncio

    from goqueue.cli import contexts
    from goqueue.client import ClientError, RetryPolicy, connect

    async def ask() -> dict[str, str]:
        chosen = contexts.resolve(server, context)
        once = RetryPolicy(attempts_max=1)
        async with connect(chosen.server, timeout=_ANSWER_S_MAX, **chosen.credentials.fields(), retry=once) as client:
            return {"version": str((await client.get("/version"))["version"]), "address": chosen.server}

    try:
        return asyncio.run(ask())
    except ClientError as problem:
        return {"error": str(problem)}

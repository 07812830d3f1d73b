"""The commands `goqueue config view|get-contexts|use-context|set-context|delete-context`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from goqueue.cli import contexts
from goqueue.cli.contexts import DEFAULT_SERVER, DEFAULT_TIMEOUT_S, Context
from goqueue.cli.output import Format, show
from goqueue.cli.session import REFUSED, USAGE, Output, fail
from goqueue.cli.times import duration
from goqueue.errors import ConfigError

app = typer.Typer(help="Stored contexts: brokers by name.", no_args_is_help=True)


@app.command()
def view(output: Output = Format.yaml) -> None:
    """Show the stored contexts; keys are not shown."""
    known = _load()
    show({"current-context": known.current, "contexts": {name: _row(one) for name, one in known.known.items()}}, output)


@app.command("get-contexts")
def get_contexts(output: Output = Format.table) -> None:
    """List the contexts."""
    known = _load()
    rows = [{"current": "*" if n == known.current else "", "name": n, **_row(one)} for n, one in known.known.items()]
    show(rows, output, ["current", "name", "server", "timeout"])


@app.command("use-context")
def use_context(name: str) -> None:
    """Make a context the current one."""
    known = _load()
    if name not in known.known:
        raise fail(f"there is no context {name!r}; known: {', '.join(sorted(known.known))}", REFUSED)
    known.current = name
    contexts.save(known)
    typer.echo(f"current context is {name}")


@app.command("set-context")
def set_context(
    name: str,
    server: Annotated[str, typer.Option("--server", help="Address of the broker's HTTP API.")] = DEFAULT_SERVER,
    api_key: Annotated[str | None, typer.Option("--api-key", help="Key to send.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="User; the password is asked for.")] = None,
    ca: Annotated[str | None, typer.Option("--ca", help="File with the authority of the broker's certificate.")] = None,
    certificate: Annotated[str | None, typer.Option("--certificate", help="File with certificate and key.")] = None,
    timeout: Annotated[
        str, typer.Option("--timeout", help="How long to wait for an answer.", callback=duration)
    ] = f"{DEFAULT_TIMEOUT_S}s",
) -> None:
    """Add or change a context."""
    known = _load()
    password = None
    if user is not None:
        if api_key is not None:
            raise fail("--api-key and --user are both given: give one of them", USAGE)
        password = os.environ.get("GOQUEUE_PASSWORD") or typer.prompt("Password", hide_input=True)
    for option, file in (("--ca", ca), ("--certificate", certificate)):
        if file is not None and not Path(file).is_file():
            raise fail(f"{option} {file!r}: there is no such file", USAGE)
    files = [None if path is None else str(Path(path).absolute()) for path in (ca, certificate)]
    known.known[name] = Context(server, api_key, int(timeout.removesuffix("ms")) / 1000, user, password, *files)
    contexts.save(known)
    typer.echo(f"context {name} is {server}")


@app.command("delete-context")
def delete_context(name: str) -> None:
    """Delete a context."""
    known = _load()
    if known.known.pop(name, None) is None:
        raise fail(f"there is no context {name!r}", REFUSED)
    contexts.save(known)
    typer.echo(f"deleted context {name}")


def _load() -> contexts.Contexts:
    try:
        return contexts.load()
    except ConfigError as error:
        raise fail(error, USAGE) from None


def _row(context: Context) -> dict[str, object]:
    row = {"server": context.server, "timeout": context.timeout_s, "api-key": "set" if context.api_key else None}
    shown = {"user": context.user, "ca": context.ca, "certificate": context.certificate}
    return row | {name: value for name, value in shown.items() if value}

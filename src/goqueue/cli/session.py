"""What every command that talks to a broker shares: its options, its client, its exit codes.

0 done · 1 the broker said no · 2 the command line is wrong · 3 no broker there · 130 ctrl-C
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from goqueue.cli import contexts
from goqueue.cli.output import Format
from goqueue.errors import ConfigError, GoQueueError

if TYPE_CHECKING:
    from goqueue.client import Client

T = TypeVar("T")

Server = Annotated[
    str | None,
    typer.Option(
        "--server",
        "-s",
        help="Address of the broker's HTTP API. [env: GOQUEUE_SERVER] [default: http://127.0.0.1:8080]",
        show_default=False,
    ),
]
ContextName = Annotated[str | None, typer.Option("--context", "-c", help="Stored context to use.", show_default=False)]
Output = Annotated[Format, typer.Option("--output", "-o", help="table, json or yaml.")]

REFUSED, USAGE, UNREACHABLE, INTERRUPTED = 1, 2, 3, 130


# Shells ask for names while somebody waits for the tab key.
_COMPLETION_S_MAX = 1


def complete_topics(incomplete: str) -> list[str]:
    """Topic names that begin so, for a shell; none where no broker answers."""
    from goqueue.client import RetryPolicy, connect

    async def names() -> list[str]:
        chosen = contexts.resolve()
        async with connect(
            chosen.server,
            timeout=_COMPLETION_S_MAX,
            **chosen.credentials.fields(),
            retry=RetryPolicy(attempts_max=1),
        ) as client:
            return [one.name for one in await client.topics() if one.name.startswith(incomplete)]

    try:
        return asyncio.run(names())
    except (GoQueueError, OSError):
        return []


TopicName = Annotated[str, typer.Argument(help="The topic's name.", autocompletion=complete_topics)]


def with_client(work: Callable[[Client], Awaitable[T]], server: str | None, context: str | None) -> T:
    """Run `work` with a client for the broker that the options mean; errors become one line and an exit code."""
    # Not above: many commands talk to nobody, and the client's imports take longer than they do.
    from goqueue.client import connect

    async def run() -> T:
        chosen = contexts.resolve(server, context)
        async with connect(chosen.server, timeout=chosen.timeout_s, **chosen.credentials.fields()) as client:
            return await work(client)

    try:
        return asyncio.run(run())
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        # The reader of our output has seen enough, as `head` does.
        sys.stderr.close()
        raise typer.Exit(0) from None
    except UnicodeEncodeError as problem:
        # An argument of bytes that are not UTF-8, where the broker takes text only: a name, an id, a reason.
        raise fail(f"{os.fsencode(problem.object)!r} is not valid UTF-8", USAGE) from None
    except GoQueueError as error:
        raise refuse(error) from None


def refuse(error: GoQueueError) -> typer.Exit:
    """Say what went wrong; raise what this returns, which has the exit code of that kind of error."""
    from goqueue.client import BrokerUnreachable, InvalidArgument

    if isinstance(error, BrokerUnreachable):
        return fail(error, UNREACHABLE)
    return fail(error, USAGE if isinstance(error, ConfigError | InvalidArgument) else REFUSED)


def fail(error: GoQueueError | str, code: int) -> typer.Exit:
    """Say what went wrong and how to mend it; raise what this returns."""
    typer.secho(f"error: {error}", err=True, fg=typer.colors.RED)
    hint = getattr(error, "hint", None)
    if hint and hint not in str(error):
        typer.echo(f"hint: {hint}", err=True)
    return typer.Exit(code)


def agreed(question: str) -> bool:
    """Ask at the terminal while the event loop runs; Ctrl-C ends the program.

    asyncio's own handler would only cancel the task, which never resumes while the terminal is being read.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        while True:
            typer.echo(f"{question} [y/N]: ", err=True, nl=False)
            _wait_for_input()
            line = sys.stdin.readline()
            answer = line.strip().lower()
            if not line:
                raise typer.Exit(INTERRUPTED)
            if answer in {"y", "yes"}:
                return True
            if answer in {"", "n", "no"}:
                return False
            typer.echo("Error: invalid input", err=True)
    except KeyboardInterrupt:
        typer.echo(err=True)
        raise typer.Exit(INTERRUPTED) from None
    finally:
        signal.signal(signal.SIGINT, before)


def _wait_for_input() -> None:
    """Block until the terminal has a line, or raise KeyboardInterrupt.

    A read alone would miss a Ctrl-C that comes after Python last looked for signals and before the read blocks.
    The wakeup descriptor keeps such a signal, so that the select below ends at once.
    """
    woken, wake = socket.socketpair()
    with woken, wake:
        wake.setblocking(False)
        former = signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        try:
            ready: list[object] = []
            while sys.stdin not in ready:
                ready = select.select([sys.stdin, woken], [], [])[0]
                if woken in ready:
                    woken.recv(4096)
        finally:
            signal.set_wakeup_fd(former)


def confirmed(question: str, *, force: bool) -> None:
    """Ask before something is destroyed, unless told not to. Without a terminal there is nobody to ask."""
    if force:
        return
    if not sys.stdin.isatty():
        raise fail(f"{question} Use --force to do it without confirmation.", USAGE)
    if not typer.confirm(question):
        raise typer.Exit(REFUSED)

"""The command `goqueue worker`.

0 stopped by a signal · 1 the broker said no · 2 the command line or the app is wrong · 3 no broker there · 130 Ctrl-C
before the worker was running
"""

from __future__ import annotations

import sys
import traceback
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from goqueue.cli import contexts
from goqueue.cli.session import INTERRUPTED, USAGE, ContextName, Server, refuse
from goqueue.cli.times import duration
from goqueue.errors import GoQueueError


def worker(
    app: Annotated[str, typer.Argument(help="The app, as module:attribute.", metavar="MODULE:APP")],
    concurrency: Annotated[int, typer.Option("--concurrency", "-n", help="How many tasks run at the same time.")] = 10,
    pool: Annotated[
        Literal["threads", "processes"] | None,
        typer.Option("--pool", help="Where tasks run. Without it: def in threads, async def on one event loop."),
    ] = None,
    queue: Annotated[
        list[str] | None, typer.Option("--queue", "-q", help="Only tasks of this queue; may be repeated.")
    ] = None,
    grace: Annotated[str, typer.Option("--grace", help="How long a stop waits for tasks.", callback=duration)] = "30s",
    prune_schedules: Annotated[
        bool, typer.Option("--prune-schedules", help="Delete schedules of the app that have no @app.every any more.")
    ] = False,
    reload: Annotated[
        bool, typer.Option("--reload", help="For development: start again when a .py file changes.")
    ] = False,
    log_format: Annotated[
        Literal["text", "json"] | None,
        typer.Option("--log-format", help="How logs look. [default: text on a terminal, json elsewhere]"),
    ] = None,
    log_level: Annotated[Literal["debug", "info", "warning", "error"], typer.Option("--log-level")] = "info",
    quiet: Annotated[bool, typer.Option("--quiet", help="No live table on a terminal.")] = False,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Run the tasks of an application until SIGTERM or Ctrl-C; running tasks are finished first."""
    from goqueue.worker.logs import configure_logging

    logs = partial(configure_logging, log_format or ("text" if sys.stderr.isatty() else "json"), log_level)
    if reload:
        from goqueue.cli.running.reload import run_reloading

        raise typer.Exit(run_reloading(Path.cwd()))
    # As `python -m` does: the app lies in the current directory.
    sys.path.insert(0, str(Path.cwd()))
    try:
        _run(app, server, context, logs, quiet=quiet, how=(concurrency, pool, queue, grace, prune_schedules))
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except GoQueueError as error:
        raise refuse(error) from None


def _run(
    path: str,
    server: str | None,
    context: str | None,
    logs: partial[None],
    *,
    quiet: bool,
    how: tuple[int, Literal["threads", "processes"] | None, list[str] | None, str, bool],
) -> None:
    from goqueue.cli.running.worker_table import WorkerTable
    from goqueue.worker.handling import load_app

    concurrency, pool, queues, grace, prune = how
    try:
        app = load_app(path)
    except GoQueueError:
        raise
    except Exception:  # noqa: BLE001 - shown
        # The module was found, and raised while it was imported: its traceback says where.
        traceback.print_exc()
        raise typer.Exit(USAGE) from None
    if server is not None or context is not None or app.server is None:
        chosen = contexts.resolve(server, context)
        app.connect_to(chosen.server)
        app.credentials = app.credentials.over(chosen.credentials)
    with WorkerTable(quiet=quiet) as table:
        # After the table, which shows what is logged above itself.
        logs(table.stream)
        app.run(
            concurrency=concurrency,
            pool=pool,
            grace=grace,
            queues=queues,
            prune_schedules=prune,
            path=path if ":" in path else f"{path}:app",
            prepare=logs,
            watch=table.show if table.is_shown else None,
        )

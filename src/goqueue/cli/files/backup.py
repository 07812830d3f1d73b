"""The commands `goqueue backup ...`: backups on one machine, without Spark and Java.

They read and write the same format as `goqueue jobs backup|verify|restore`, which do it on Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.output import Format, show
from goqueue.cli.session import REFUSED, ContextName, Output, Server, refuse, with_client
from goqueue.cli.times import time_ms
from goqueue.errors import GoQueueError

if TYPE_CHECKING:
    from goqueue.backup.local import LocalTasks
    from goqueue.backup.work import Outcome

app = typer.Typer(help="Create, verify, list and restore backups, without Spark.", no_args_is_help=True)

To = Annotated[str, typer.Option("--to", help="Folder or URL (s3://bucket/backups) in which backups are kept.")]
From = Annotated[str, typer.Option("--from", help="Folder or URL in which backups are kept.")]
EncryptTo = Annotated[
    list[str] | None,
    typer.Option("--encrypt-to", help="Public key of age (age1...) that the backup is encrypted for; repeatable."),
]
Identity = Annotated[
    Path | None,
    typer.Option("--identity", envvar="GOQUEUE_BACKUP_IDENTITY", help="File with the private key of age."),
]
Name = Annotated[str | None, typer.Option("--backup", help="Name of the backup. [default: the newest]")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")]


@app.command()
def create(
    data_dir: Annotated[Path, typer.Option("--data-dir", help="The broker's data directory, on this machine.")],
    to: To,
    full: Annotated[bool, typer.Option("--full", help="Read everything, also what the last backup contains.")] = False,
    stopped: Annotated[bool, typer.Option("--stopped", help="The broker is stopped: do not contact it.")] = False,
    encrypt_to: EncryptTo = None,
    dry_run: DryRun = False,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Copy every log of a broker, running or stopped, as of one instant; later backups are incremental."""

    def ask() -> dict[tuple[str, str], int] | None:
        if stopped:
            return None
        reply = with_client(lambda client: client.get("/admin/instant"), server, context)
        return {(one["directory"], one["segment"]): one["size_bytes"] for one in reply["logs"]}

    def work(run: LocalTasks) -> Outcome:
        from goqueue.backup.store import Vault
        from goqueue.backup.work import backup

        vault = Vault(to, tuple(encrypt_to or ()))
        return backup(None if dry_run else run, data_dir, vault, ask_instant=ask, incremental=not full)

    _run("backup", work, output)


@app.command()
def verify(backups: From, name: Name = None, identity: Identity = None, output: Output = Format.table) -> None:
    """Read a whole backup and verify every checksum and hash."""

    def work(run: LocalTasks) -> Outcome:
        from goqueue.backup.store import Vault
        from goqueue.backup.work import verify

        return verify(run, Vault(backups, (), _text(identity)), name)

    _run("verify", work, output)


@app.command()
def restore(
    backups: From,
    data_dir: Annotated[Path, typer.Option("--data-dir", help="An empty directory for the broker to start on.")],
    name: Name = None,
    until: Annotated[str | None, typer.Option("--until", help="Leave out what was written later (RFC 3339).")] = None,
    identity: Identity = None,
    dry_run: DryRun = False,
    output: Output = Format.table,
) -> None:
    """Restore a backup into an empty directory, verifying every checksum."""
    until_ms = time_ms(until, "--until")

    def work(run: LocalTasks) -> Outcome:
        from goqueue.backup.store import Vault
        from goqueue.backup.work import restore

        vault = Vault(backups, (), _text(identity))
        return restore(None if dry_run else run, vault, name, data_dir, until_ms=until_ms)

    _run("restore", work, output)


@app.command("list")
def list_(backups: From, output: Output = Format.table) -> None:
    """Show the backups, oldest first."""
    from goqueue.backup.work import listed

    try:
        rows = listed(backups)
    except GoQueueError as error:
        raise refuse(error) from None
    show(rows, output)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _run(name: str, work: Callable[[LocalTasks], Outcome], output: Format) -> None:
    """Run a job with a progress bar, and show and judge its outcome."""
    from goqueue.backup.local import LocalTasks

    try:
        with _bar(name) as progress:
            outcome = work(LocalTasks(progress))
    except GoQueueError as error:
        raise refuse(error) from None
    except OSError as error:
        raise refuse(GoQueueError(f"{error.filename or name}: {error.strerror or error}")) from None
    if output is Format.table:
        show(outcome.facts, output)
        show(outcome.topics, output, title="Topics")
    else:
        show(
            {**outcome.facts, "ok": not outcome.problems, "problems": outcome.problems, "topics": outcome.topics},
            output,
        )
    for problem in outcome.problems:
        typer.secho(f"  - {problem}", err=True, fg=typer.colors.RED)
    if outcome.problems:
        raise typer.Exit(REFUSED)


@contextmanager
def _bar(name: str) -> Iterator[Callable[[int, int], None]]:
    """Progress in bytes, on a terminal only."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    console = Console(stderr=True)
    columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)

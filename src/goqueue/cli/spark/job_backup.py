"""`goqueue jobs backup|verify|restore`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.cli.output import Format
from goqueue.cli.session import ContextName, Output, Server, with_client
from goqueue.cli.spark.job_run import DryRun, Master, ReportTo, run_job
from goqueue.cli.times import time_ms

if TYPE_CHECKING:
    from goqueue.pipeline.jobs.report import Report
    from goqueue.pipeline.jobs.tasks import ShowProgress


def backup(
    data_dir: Annotated[Path, typer.Option("--data-dir", help="The broker's data directory.")],
    to: Annotated[Path, typer.Option("--to", help="Folder in which backups are kept.")],
    full: Annotated[bool, typer.Option("--full", help="Read everything, also what the last backup contains.")] = False,
    stopped: Annotated[bool, typer.Option("--stopped", help="The broker is stopped: do not contact it.")] = False,
    dry_run: DryRun = False,
    report: ReportTo = None,
    master: Master = "local[*]",
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Copy every log of a broker, running or stopped, as of one instant."""
    from goqueue.pipeline.backup import job

    def ask() -> dict[tuple[str, str], int] | None:
        if stopped:
            return None
        reply = with_client(lambda client: client.get("/admin/instant"), server, context)
        return {(one["directory"], one["segment"]): one["size_bytes"] for one in reply["logs"]}

    def work(spark: Any, progress: ShowProgress) -> Report:
        return job.backup(spark, data_dir, to, ask_instant=ask, show=progress, incremental=not full, dry_run=dry_run)

    # A plan refuses what the job would refuse, before Spark is started.
    run_job("backup", work, report, output, master=master, check=lambda: work(None, _silent), without_spark=dry_run)


def verify(
    backups: Annotated[Path, typer.Option("--from", help="Folder in which backups are kept.")],
    name: Annotated[str | None, typer.Option("--backup", help="Name of the backup. [default: the newest]")] = None,
    report: ReportTo = None,
    master: Master = "local[*]",
    output: Output = Format.table,
) -> None:
    """Read a whole backup and verify every checksum and hash."""
    from goqueue.backup.store import BackupStore
    from goqueue.pipeline.backup import job

    def work(spark: Any, progress: ShowProgress) -> Report:
        return job.verify(spark, backups, name, show=progress)

    run_job("verify", work, report, output, master=master, check=lambda: BackupStore(backups).read(name))


def restore(
    backups: Annotated[Path, typer.Option("--from", help="Folder in which backups are kept.")],
    data_dir: Annotated[Path, typer.Option("--data-dir", help="An empty directory for the broker to start on.")],
    name: Annotated[str | None, typer.Option("--backup", help="Name of the backup. [default: the newest]")] = None,
    until: Annotated[str | None, typer.Option("--until", help="Leave out what was written later (RFC 3339).")] = None,
    dry_run: DryRun = False,
    report: ReportTo = None,
    master: Master = "local[*]",
    output: Output = Format.table,
) -> None:
    """Restore a backup into an empty directory, verifying every checksum."""
    from goqueue.pipeline.backup import job

    until_ms = time_ms(until, "--until")

    def work(spark: Any, progress: ShowProgress) -> Report:
        return job.restore(spark, backups, name, data_dir, show=progress, until_ms=until_ms)

    run_job("restore", work, report, output, master=master, check=lambda: work(None, _silent), without_spark=dry_run)


def _silent(_done: int, _total: int) -> None:
    """A plan has no progress."""

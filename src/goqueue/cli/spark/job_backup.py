"""`goqueue jobs backup|verify|restore`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.cli.files.backup import EncryptTo, From, Identity, Name, To
from goqueue.cli.output import Format
from goqueue.cli.session import ContextName, Output, Server, with_client
from goqueue.cli.spark.job_run import DryRun, Master, ReportTo, run_job
from goqueue.cli.times import time_ms

if TYPE_CHECKING:
    from goqueue.pipeline.jobs.report import Report
    from goqueue.pipeline.jobs.tasks import ShowProgress


def backup(
    data_dir: Annotated[Path, typer.Option("--data-dir", help="The broker's data directory.")],
    to: To,
    full: Annotated[bool, typer.Option("--full", help="Read everything, also what the last backup contains.")] = False,
    stopped: Annotated[bool, typer.Option("--stopped", help="The broker is stopped: do not contact it.")] = False,
    encrypt_to: EncryptTo = None,
    dry_run: DryRun = False,
    report: ReportTo = None,
    master: Master = "local[*]",
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Copy every log of a broker, running or stopped, as of one instant."""
    from goqueue.backup.store import Vault
    from goqueue.pipeline.backup import job

    def ask() -> dict[tuple[str, str], int] | None:
        if stopped:
            return None
        reply = with_client(lambda client: client.get("/admin/instant"), server, context)
        return {(one["directory"], one["segment"]): one["size_bytes"] for one in reply["logs"]}

    def work(spark: Any, progress: ShowProgress) -> Report:
        vault = Vault(to, tuple(encrypt_to or ()))
        return job.backup(spark, data_dir, vault, ask_instant=ask, show=progress, incremental=not full, dry_run=dry_run)

    # A plan refuses what the job would refuse, before Spark is started.
    run_job("backup", work, report, output, master=master, check=lambda: work(None, _silent), without_spark=dry_run)


def verify(
    backups: From,
    name: Name = None,
    identity: Identity = None,
    report: ReportTo = None,
    master: Master = "local[*]",
    output: Output = Format.table,
) -> None:
    """Read a whole backup and verify every checksum and hash."""
    from goqueue.backup.store import Vault, open_store
    from goqueue.pipeline.backup import job

    vault = Vault(backups, (), None if identity is None else str(identity))

    def work(spark: Any, progress: ShowProgress) -> Report:
        return job.verify(spark, vault, name, show=progress)

    run_job("verify", work, report, output, master=master, check=lambda: open_store(vault).read(name))


def restore(
    backups: From,
    data_dir: Annotated[Path, typer.Option("--data-dir", help="An empty directory for the broker to start on.")],
    name: Name = None,
    until: Annotated[str | None, typer.Option("--until", help="Leave out what was written later (RFC 3339).")] = None,
    identity: Identity = None,
    dry_run: DryRun = False,
    report: ReportTo = None,
    master: Master = "local[*]",
    output: Output = Format.table,
) -> None:
    """Restore a backup into an empty directory, verifying every checksum."""
    from goqueue.backup.store import Vault
    from goqueue.pipeline.backup import job

    vault = Vault(backups, (), None if identity is None else str(identity))
    until_ms = time_ms(until, "--until")

    def work(spark: Any, progress: ShowProgress) -> Report:
        return job.restore(spark, vault, name, data_dir, show=progress, until_ms=until_ms)

    run_job("restore", work, report, output, master=master, check=lambda: work(None, _silent), without_spark=dry_run)


def _silent(_done: int, _total: int) -> None:
    """A plan has no progress."""

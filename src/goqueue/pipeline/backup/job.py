"""Backup, verify and restore as Spark jobs: the work of `goqueue.backup` with its tasks on Spark, and a report."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from goqueue.backup import work
from goqueue.backup.addresses import as_written
from goqueue.backup.files import Damaged
from goqueue.backup.store import Vault
from goqueue.backup.work import BackupFailed, Outcome
from goqueue.pipeline.jobs.report import Report
from goqueue.pipeline.jobs.tasks import ShowProgress, run_tasks
from goqueue.pipeline.paths import local_path, store_path
from goqueue.pipeline.steps import reached

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from goqueue.backup.plan import Ends

__all__ = ["BackupFailed", "backup", "restore", "verify"]

T = TypeVar("T")
R = TypeVar("R")


def backup(
    spark: SparkSession | None,
    data_dir: Path,
    target: str | Path | Vault,
    *,
    ask_instant: Callable[[], Ends | None],
    show: ShowProgress,
    incremental: bool = True,
    dry_run: bool = False,
) -> Report:
    """Copy every log as it is at one instant. Without Spark it is only planned."""
    data_dir, vault = local_path(data_dir, "data_dir"), _checked(target, "to")
    run = None if dry_run or spark is None else SparkTasks(spark, show)
    done = work.backup(
        run, data_dir, vault, ask_instant=ask_instant, incremental=incremental, at_step=lambda step: reached(step, 0)
    )
    return _report("backup", done, is_dry_run=run is None)


def verify(spark: SparkSession, target: str | Path | Vault, name: str | None, *, show: ShowProgress) -> Report:
    """Compute every checksum and hash of a backup again."""
    return _report("verify", work.verify(SparkTasks(spark, show), _checked(target, "from"), name))


def restore(
    spark: SparkSession | None,
    target: str | Path | Vault,
    name: str | None,
    data_dir: Path,
    *,
    show: ShowProgress,
    until_ms: int | None = None,
) -> Report:
    """Lay a backup into an empty directory; without Spark it is only planned."""
    data_dir, vault = local_path(data_dir, "data_dir"), _checked(target, "from")
    run = None if spark is None else SparkTasks(spark, show)
    done = work.restore(run, vault, name, data_dir, until_ms=until_ms, at_step=lambda step: reached(step, 0))
    return _report("restore", done, is_dry_run=run is None)


def _checked(target: str | Path | Vault, field: str) -> Vault:
    """Where backups lie; raises if nothing here can open it."""
    vault = target if isinstance(target, Vault) else Vault(as_written(target))
    return replace(vault, target=store_path(vault.target, field))


class SparkTasks:
    """Runs tasks on Spark's workers."""

    def __init__(self, spark: SparkSession, show: ShowProgress) -> None:
        self._spark, self._show = spark, show

    def __call__(
        self,
        name: str,
        work: Callable[[T], R],
        pieces: Sequence[T],
        *,
        size: Callable[[T], int],
        announce: Callable[[T], object] = lambda _piece: None,
    ) -> list[R]:
        """Do `work` on every piece; damage that a worker found is raised here without the worker's stack."""
        try:
            return run_tasks(self._spark, name, work, pieces, self._show, size=size, announce=announce)
        except Exception as error:
            told = re.search(rf"\.{Damaged.__name__}: (.+)", str(error))
            if told is None:
                raise
            raise Damaged(told[1]) from None


def _report(job: str, outcome: Outcome, *, is_dry_run: bool = False) -> Report:
    report = Report(job, is_dry_run=is_dry_run, facts=outcome.facts, problems=outcome.problems)
    if outcome.topics:
        report.tables["Topics"] = outcome.topics
        report.draw_bars("Bytes per topic", "topic", "bytes", outcome.topics)
    return report

"""Backup, verify and restore, as Spark jobs: what the command line calls."""

from __future__ import annotations

import datetime as dt
import re
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goqueue.errors import GoQueueError, InvalidRequest
from goqueue.pipeline.backup import plan
from goqueue.pipeline.backup.files import Damaged, copy_file, hash_of, read_ahead, restore_file, verify_file
from goqueue.pipeline.backup.manifest import BackupStore, LogFile, Manifest
from goqueue.pipeline.jobs.report import Report
from goqueue.pipeline.jobs.tasks import ShowProgress, run_tasks
from goqueue.pipeline.steps import reached
from goqueue.pipeline.whole import appearing, only_one, refuse_filled, sweep_fresh, write_durably

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from goqueue.pipeline.backup.plan import Ends


class BackupFailed(GoQueueError):
    """The backup, or a file of it, is not sound; nothing was left half done."""


def backup(
    spark: SparkSession | None,
    data_dir: Path,
    target: Path,
    *,
    ask_instant: Callable[[], Ends | None],
    show: ShowProgress,
    incremental: bool = True,
    dry_run: bool = False,
) -> Report:
    """Copy every log as it is at one instant. Without Spark it is only planned."""
    if not (data_dir / "metadata").is_dir():
        raise InvalidRequest(f"{data_dir} is no data directory of a broker", field="data_dir")
    begun = time.monotonic()
    store = BackupStore(target)
    parent = store.read() if incremental and store.names() else None
    checkpoints = plan.checkpoints(data_dir)
    ends = ask_instant()
    taken = dt.datetime.now(dt.UTC)
    kept, fresh = plan.unchanged(plan.segments(data_dir, ends or {}), parent)
    report = Report("backup", is_dry_run=dry_run or spark is None)
    report.facts |= {
        "backup": taken.strftime("%Y%m%dT%H%M%S%fZ"),
        "broker": "stopped" if ends is None else "running",
        "parent": parent.name if parent else None,
        "files_to_read": len(fresh),
        "files_unchanged": len(kept),
        "bytes_to_read": sum(piece.limit for piece in fresh),
    }
    if dry_run or spark is None:
        return report
    with only_one(target, "backup"):
        sweep_fresh(target)
        copied = _checked(
            lambda: run_tasks(
                spark, "backup", partial(copy_file, target=str(target)), fresh, show, size=lambda one: one.limit
            )
        )
        stored = [_store_small(store, path, content) for path, content in checkpoints.items()]
        manifest = Manifest(
            name=report.facts["backup"],
            taken_ms=int(taken.timestamp() * 1000),
            files=sorted([*kept, *copied, *stored], key=lambda file: file.path),
            broker=report.facts["broker"],
            parent=parent.name if parent else None,
        )
        reached("backup-copied", 0)
        store.write(manifest)
    return _finished(report, manifest, time.monotonic() - begun)


def verify(spark: SparkSession, target: Path, name: str | None, *, show: ShowProgress) -> Report:
    """Compute every checksum and hash of a backup again."""
    begun = time.monotonic()
    manifest = BackupStore(target).read(name)
    outcomes = run_tasks(
        spark,
        "verify",
        partial(verify_file, target=str(target)),
        manifest.files,
        show,
        size=_bytes_of,
        announce=partial(read_ahead, target=str(target)),
    )
    report = Report("verify", facts={"backup": manifest.name})
    report.problems = [problem for problem in outcomes if problem is not None]
    return _finished(report, manifest, time.monotonic() - begun)


def restore(
    spark: SparkSession | None,
    target: Path,
    name: str | None,
    data_dir: Path,
    *,
    show: ShowProgress,
    until_ms: int | None = None,
) -> Report:
    """Lay a backup into an empty directory; without Spark it is only planned.

    A restore that is killed leaves a directory beside the one asked for, never one that a broker would start on.
    """
    begun = time.monotonic()
    refuse_filled(data_dir, "data_dir", "a restore never writes over data")
    manifest = BackupStore(target).read(name)
    report = Report("restore", is_dry_run=spark is None, facts={"backup": manifest.name, "until_ms": until_ms})
    if spark is None:
        return _finished(report, manifest, 0)
    with appearing(data_dir, "restoring") as fresh:
        work = partial(restore_file, target=str(target), root=str(fresh), until_ms=until_ms)
        laid = [
            file
            for file in _checked(
                lambda: run_tasks(
                    spark,
                    "restore",
                    work,
                    manifest.files,
                    show,
                    size=_bytes_of,
                    announce=partial(read_ahead, target=str(target)),
                )
            )
            if file
        ]
        restored = Manifest(manifest.name, manifest.taken_ms, laid, manifest.broker)
        if until_ms is None and restored.ends() != manifest.ends():
            raise BackupFailed("the restored logs end elsewhere than the backup's")
        reached("restore-laid", 0)
    return _finished(report, restored, time.monotonic() - begun)


def _bytes_of(file: LogFile) -> int:
    return file.size


def _checked(work: Callable[[], list[Any]]) -> list[Any]:
    """What a task found damaged, without the stack of the task."""
    try:
        return work()
    except Exception as error:
        told = re.search(rf"\.{Damaged.__name__}: (.+)", str(error))
        if told is None:
            raise
        raise BackupFailed(told[1]) from None


def _store_small(store: BackupStore, path: str, content: bytes) -> LogFile:
    hash_ = hash_of(memoryview(content))
    target = store.object_path(hash_)
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        write_durably(target, content)
    return LogFile(path, len(content), hash_, "checkpoint")


def _finished(report: Report, manifest: Manifest, seconds: float) -> Report:
    rows = _topics(manifest.files)
    size = sum(file.size for file in manifest.files)
    report.facts |= {"files": len(manifest.files), "bytes": size, "seconds": round(seconds, 2)}
    if seconds:
        report.facts["mb_per_second"] = round(size / 1e6 / seconds, 1)
    report.tables["Topics"] = rows
    report.draw_bars("Bytes per topic", "topic", "bytes", rows)
    return report


def _topics(files: Sequence[LogFile]) -> list[dict[str, Any]]:
    frames, size, partitions = Counter[str](), Counter[str](), Counter[str]()
    for partition in {file.partition for file in files}:
        partitions[partition.split("/")[1] if "/" in partition else partition] += 1
    for file in files:
        topic = file.partition.split("/")[1] if "/" in file.partition else file.partition
        frames[topic] += file.frames
        size[topic] += file.size
    return [
        {"topic": topic, "partitions": partitions[topic], "frames": frames[topic], "bytes": size[topic]}
        for topic in sorted(partitions)
    ]

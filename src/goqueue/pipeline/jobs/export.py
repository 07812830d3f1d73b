"""Export: topics as Parquet files, by topic, partition and day, with their offsets kept.

A task reads its range of offsets and writes its files itself; no row enters the JVM. Files are
written to a staging folder and moved once all tasks are done, so an export that was killed
leaves nothing that a reader would take for data, and can be run again.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from goqueue.pipeline.batch_reader import BatchReader
from goqueue.pipeline.jobs.lakes import commit_delta, commit_iceberg
from goqueue.pipeline.jobs.report import Report
from goqueue.pipeline.jobs.tasks import ShowProgress, run_tasks
from goqueue.pipeline.options import SourceOptions, parse_source_options
from goqueue.pipeline.plan import Task
from goqueue.pipeline.reading import read_task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers", "priority")


class LakeFormat(StrEnum):
    """What an export may become."""

    PARQUET = "parquet"
    DELTA = "delta"
    ICEBERG = "iceberg"


_ROW_GROUP_ROWS = 128 * 1024


def export(
    spark: SparkSession | None,
    options: Mapping[str, str],
    to: Path,
    *,
    lake: LakeFormat = LakeFormat.PARQUET,
    table: str = "goqueue.export",
    catalog: Mapping[str, str] | None = None,
    show: ShowProgress,
) -> Report:
    """Write what the source options select; without Spark it is only planned."""
    begun = time.monotonic()
    wanted = parse_source_options({name.lower(): value for name, value in options.items()})
    tasks = BatchReader(wanted, COLUMNS).partitions()
    report = Report("export", is_dry_run=spark is None)
    report.facts |= {"format": lake, "to": str(to), "tasks": len(tasks)}
    report.tables["Ranges"] = [
        {"topic": task.place.topic, "partition": task.place.partition, "from": task.bounds.start, "to": task.bounds.end}
        for task in tasks
    ]
    if spark is None:
        return report
    staging = to / f".staging-{os.getpid()}"
    staging.mkdir(parents=True)
    try:
        work = partial(_export_task, options=wanted, columns=_columns(lake), staging=str(staging))
        files = [file for written in run_tasks(spark, "export", work, tasks, show) for file in written]
        _publish(files, staging, to, lake, table, catalog or {})
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return _finished(report, files, time.monotonic() - begun)


def _columns(lake: LakeFormat) -> tuple[str, ...]:
    """What goes into the files: a Delta table takes the columns that are in the path from there."""
    return tuple(name for name in COLUMNS if lake is not LakeFormat.DELTA or name not in ("topic", "partition"))


def _export_task(task: Task, *, options: SourceOptions, columns: tuple[str, ...], staging: str) -> list[dict[str, Any]]:
    """Write the rows of one task, a file per day."""
    writers: dict[str, pq.ParquetWriter] = {}
    counts: dict[str, dict[str, Any]] = {}
    for batch in read_task(options, task, columns):
        for day, rows in _by_day(batch):
            path = (
                f"topic={task.place.topic}/partition={task.place.partition}/day={day}/{task.bounds.start:020d}.parquet"
            )
            if day not in writers:
                file = Path(staging) / path
                file.parent.mkdir(parents=True, exist_ok=True)
                writers[day] = pq.ParquetWriter(file, rows.schema, compression="zstd")
                counts[day] = {"path": path, "rows": 0, "first_offset": rows["offset"][0].as_py()}
            writers[day].write_batch(rows, row_group_size=_ROW_GROUP_ROWS)
            counts[day]["rows"] += rows.num_rows
            counts[day]["last_offset"] = rows["offset"][-1].as_py()
    for writer in writers.values():
        writer.close()
    for one in counts.values():
        one["bytes"] = (Path(staging) / one["path"]).stat().st_size
    return list(counts.values())


def _by_day(batch: pa.RecordBatch) -> list[tuple[str, pa.RecordBatch]]:
    if not batch.num_rows:
        return []
    days = pc.strftime(batch["timestamp"], format="%Y-%m-%d")
    names = pc.unique(days).to_pylist()
    if len(names) == 1:
        return [(names[0], batch)]
    return [(name, batch.filter(pc.equal(days, name))) for name in names]


def _publish(
    files: list[dict[str, Any]], staging: Path, to: Path, lake: LakeFormat, table: str, catalog: Mapping[str, str]
) -> None:
    """Move what was staged to where readers look, then say what it is."""
    for file in files:
        path = to / file["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        (staging / file["path"]).replace(path)
    if lake is LakeFormat.DELTA:
        commit_delta(to, files)
    elif lake is LakeFormat.ICEBERG:
        commit_iceberg(to, files, table, catalog)
    (to / "_manifest.json").write_text(json.dumps(files, indent=2), encoding="utf-8")


def _finished(report: Report, files: list[dict[str, Any]], seconds: float) -> Report:
    rows, size = sum(file["rows"] for file in files), sum(file["bytes"] for file in files)
    report.facts |= {"files": len(files), "rows": rows, "bytes": size, "seconds": round(seconds, 2)}
    report.facts["rows_per_second"] = round(rows / seconds) if seconds else 0
    report.tables["Files"] = files
    return report

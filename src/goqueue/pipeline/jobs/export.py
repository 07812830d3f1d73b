"""Export: topics as Parquet files, by topic, partition and day, with their offsets kept.

A task reads its range of offsets and writes its files itself; no row enters the JVM. The folder
is filled under another name and appears once all is in it, so an export that was killed leaves
nothing that a reader would take for data, and can be run again. In a store, where nothing can be renamed, the manifest
comes last, and what tasks have finished is not written again: see `export_folder.py`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from goqueue.pipeline.jobs.export_folder import ExportFolder, check_folder, complete, filling, sweep
from goqueue.pipeline.jobs.lakes import add_to_iceberg, is_pending, make_delta, mark_pending, sweep_pending
from goqueue.pipeline.jobs.report import Report
from goqueue.pipeline.jobs.tasks import ShowProgress, run_tasks
from goqueue.pipeline.paths import store_path
from goqueue.pipeline.source.batch_reader import BatchReader
from goqueue.pipeline.source.options import SourceOptions, parse_source_options
from goqueue.pipeline.source.plan import Piece
from goqueue.pipeline.source.reading import read_piece
from goqueue.pipeline.steps import reached

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
    to: str | Path,
    *,
    lake: LakeFormat = LakeFormat.PARQUET,
    table: str = "goqueue.export",
    catalog: Mapping[str, str] | None = None,
    show: ShowProgress,
) -> Report:
    """Write what the source options select; without Spark it is only planned."""
    begun = time.monotonic()
    place = store_path(to, "to")
    # What a killed export left is replaced; a plan leaves it where it is.
    is_left = lake is LakeFormat.ICEBERG and is_pending(place)
    if is_left and spark is not None:
        sweep_pending(place, table, catalog or {})
    folder = ExportFolder(place) if is_left and spark is None else check_folder(place)
    wanted = parse_source_options({name.lower(): value for name, value in options.items()})
    pieces = [piece for task in BatchReader(wanted, COLUMNS).partitions() for piece in task.pieces]
    report = Report("export", is_dry_run=spark is None)
    report.facts |= {"format": lake, "to": place, "tasks": len(pieces)}
    report.tables["Ranges"] = [
        {"topic": one.place.topic, "partition": one.place.partition, "from": one.bounds.start, "to": one.bounds.end}
        for one in pieces
    ]
    if spark is None:
        return report
    with filling(folder) as fresh:
        work = partial(_export_piece, options=wanted, columns=_columns(lake), folder=fresh)
        files = [file for written in run_tasks(spark, "export", work, pieces, show) for file in written]
        report.facts["files_swept"] = sweep(fresh, files)
        reached("export-files", 0)
        if lake is LakeFormat.DELTA:
            make_delta(fresh.at, files)
        elif lake is LakeFormat.ICEBERG:
            mark_pending(fresh.at)
        if lake is not LakeFormat.ICEBERG or not fresh.is_store:
            complete(fresh, files)
        reached("export-written", 0)
    if lake is LakeFormat.ICEBERG:
        reached("export-moved", 0)
        add_to_iceberg(folder.at, files, table, catalog or {})
        if folder.is_store:
            complete(folder, files)
    return _finished(report, files, time.monotonic() - begun)


def _columns(lake: LakeFormat) -> tuple[str, ...]:
    """What goes into the files: readers take what is in the path from there, except those of an Iceberg table."""
    return tuple(name for name in COLUMNS if lake is LakeFormat.ICEBERG or name not in ("topic", "partition"))


def _export_piece(
    piece: Piece, *, options: SourceOptions, columns: tuple[str, ...], folder: ExportFolder
) -> list[dict[str, Any]]:
    """Write the rows of one range of offsets, a file per day; unless an earlier run has done that."""
    task = repr((piece, columns, options.isolation))
    known = folder.finished(task)
    if known is not None:
        return known
    writers: dict[str, pq.ParquetWriter] = {}
    begun: dict[str, str] = {}
    counts: dict[str, dict[str, Any]] = {}
    for batch in read_piece(options, piece, columns):
        for day, rows in _by_day(batch):
            place, first = piece.place, piece.bounds.start
            path = f"topic={place.topic}/partition={place.partition}/day={day}/{first:020d}.parquet"
            if day not in writers:
                begun[day] = folder.begun(path)
                writers[day] = folder.open_writer(begun[day], rows.schema)
                counts[day] = {"path": path, "day": day, "rows": 0, "first_offset": rows["offset"][0].as_py()}
            writers[day].write_batch(rows, row_group_size=_ROW_GROUP_ROWS)
            counts[day]["rows"] += rows.num_rows
            counts[day]["last_offset"] = rows["offset"][-1].as_py()
    for writer in writers.values():
        writer.close()
    for day, one in counts.items():
        folder.put(begun[day], one["path"])
        one["bytes"] = folder.size_of(one["path"])
    written = list(counts.values())
    folder.finish(task, written)
    reached("export-task", 0)
    return written


def _by_day(batch: pa.RecordBatch) -> list[tuple[str, pa.RecordBatch]]:
    if not batch.num_rows:
        return []
    # Numbers, since a text for every row takes as long as reading it.
    days = pc.cast(pc.floor_temporal(batch["timestamp"], unit="day"), pa.timestamp("us")).cast(pa.date32())
    found = pc.unique(days)
    if len(found) == 1:
        return [(found[0].as_py().isoformat(), batch)]
    return [(day.as_py().isoformat(), batch.filter(pc.equal(days, day))) for day in found]


def _finished(report: Report, files: list[dict[str, Any]], seconds: float) -> Report:
    rows, size = sum(file["rows"] for file in files), sum(file["bytes"] for file in files)
    report.facts |= {"files": len(files), "rows": rows, "bytes": size, "seconds": round(seconds, 2)}
    report.facts["rows_per_second"] = round(rows / seconds) if seconds else 0
    report.tables["Files"] = files
    days = Counter[str]()
    for file in files:
        days[file["day"]] += file["rows"]
    report.draw_bars("Rows per day", "day", "rows", [{"day": day, "rows": days[day]} for day in sorted(days)])
    return report

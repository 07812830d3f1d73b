"""Import: files to a topic, rows with the same key in the order in which they stand in the files, by name."""

from __future__ import annotations

import time
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from goqueue.errors import InvalidRequest
from goqueue.pipeline.jobs.near_files import near_files, stored_files
from goqueue.pipeline.jobs.report import Report
from goqueue.pipeline.jobs.sending import Sender
from goqueue.pipeline.paths import SPARK_SCHEMES, is_store, local_path, scheme_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class FileFormat(StrEnum):
    """What files may hold."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


# Where a row stands: its file, the part of it that a task reads, and the place in there.
_FILE, _PART, _ROW = "__file", "__part", "__row"


def import_files(
    spark: SparkSession,
    files: str,
    file_format: FileFormat,
    options: Mapping[str, str],
    topic: str,
    *,
    key: str | None = None,
    value: str | None = None,
    schema: str | None = None,
    dry_run: bool = False,
) -> Report:
    """Send every row of the files to the topic, all or none. `key` and `value` are SQL expressions."""
    begun = time.monotonic()
    check_files(files)
    with near_files(spark, files) as near:
        return _import(spark, near, file_format, options, topic, (files, key, value, schema), begun, dry_run=dry_run)


def _import(
    spark: SparkSession,
    near: str,
    file_format: FileFormat,
    options: Mapping[str, str],
    topic: str,
    asked: tuple[str, str | None, str | None, str | None],
    begun: float,
    *,
    dry_run: bool,
) -> Report:
    from pyspark.sql import functions as sql

    files, key, value, schema = asked
    reader = spark.read.format(file_format).option("mode", "FAILFAST")
    if file_format is FileFormat.CSV:
        # By default Spark takes columns by their place, whatever name the header of a file gives them.
        reader = reader.option("header", "true").option("enforceSchema", "false")
    rows = (reader if schema is None else reader.schema(schema)).load(near)
    messages = _messages(rows, key, value)
    report = Report("import", is_dry_run=dry_run)
    report.facts |= {"files": files, "topic": topic, "columns": rows.columns}
    per_file = rows.groupBy(sql.col("_metadata.file_name").alias("file")).agg(sql.count(sql.lit(1)).alias("rows"))
    counted = [row.asDict() for row in per_file.orderBy("file").collect()]
    report.facts["rows"] = sum(row["rows"] for row in counted)
    report.tables["Files"] = counted
    report.draw_bars("Rows per file", "file", "rows", counted)
    if dry_run:
        first = messages.limit(5).selectExpr("CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value").collect()
        report.tables["First messages"] = [row.asDict() for row in first]
        return report
    Sender("import", options, topic, files, file_format, key, value, schema).send(messages.drop(_FILE, _PART, _ROW))
    report.facts["seconds"] = round(time.monotonic() - begun, 2)
    return report


def check_files(files: str) -> None:
    """Raise unless there is something at the path, which may be a pattern or an address."""
    if scheme_of(files) in SPARK_SCHEMES - {"file"}:
        return
    if is_store(files):
        if not stored_files(files):
            raise InvalidRequest(f"there is nothing at {files}", field="files")
        return
    path = str(local_path(files, "files"))
    if not Path(path).exists() and not set("*?[{").intersection(path):
        raise InvalidRequest(f"there is nothing at {files}", field="files")


def _messages(rows: DataFrame, key: str | None, value: str | None) -> DataFrame:
    from pyspark.sql import functions as sql

    body = sql.to_json(sql.struct("*")) if value is None else sql.expr(value)
    name = sql.lit(None) if key is None else sql.expr(key)
    messages = rows.select(
        name.cast("string").cast("binary").alias("key"),
        body.cast("binary").alias("value"),
        sql.col("_metadata.file_path").alias(_FILE),
        sql.col("_metadata.file_block_start").alias(_PART),
        sql.monotonically_increasing_id().alias(_ROW),
    )
    if key is None:
        return messages
    # Rows of one key go through one task, in their old order: tasks know nothing of each other.
    return messages.repartition("key").sortWithinPartitions(_FILE, _PART, _ROW)

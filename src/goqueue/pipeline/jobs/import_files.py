"""Import: files to a topic, rows with the same key in the order in which they stand in the files."""

from __future__ import annotations

import time
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from goqueue.errors import InvalidRequest
from goqueue.pipeline.jobs.report import Report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class FileFormat(StrEnum):
    """What files may hold."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


_ROW = "__row"


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
    if not Path(files).exists() and "*" not in files:
        raise InvalidRequest(f"there is nothing at {files}", field="files")
    reader = spark.read.format(file_format).option("mode", "FAILFAST")
    reader = reader.option("header", "true") if file_format is FileFormat.CSV else reader
    rows = (reader if schema is None else reader.schema(schema)).load(files)
    messages = _messages(rows, key, value)
    report = Report("import", is_dry_run=dry_run)
    report.facts |= {"files": files, "topic": topic, "columns": rows.columns, "rows": rows.count()}
    if dry_run:
        first = messages.limit(5).selectExpr("CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value").collect()
        report.tables["First messages"] = [row.asDict() for row in first]
        return report
    writer = messages.drop(_ROW).write.format("goqueue").options(**options).option("topic", topic)
    writer.mode("append").save()
    report.facts["seconds"] = round(time.monotonic() - begun, 2)
    return report


def _messages(rows: DataFrame, key: str | None, value: str | None) -> DataFrame:
    from pyspark.sql import functions as sql

    body = sql.to_json(sql.struct("*")) if value is None else sql.expr(value)
    name = sql.lit(None) if key is None else sql.expr(key)
    messages = rows.select(
        name.cast("string").cast("binary").alias("key"),
        body.cast("binary").alias("value"),
        sql.monotonically_increasing_id().alias(_ROW),
    )
    if key is None:
        return messages
    # Rows of one key go through one task, in their old order: tasks know nothing of each other.
    return messages.repartition("key").sortWithinPartitions(_ROW)

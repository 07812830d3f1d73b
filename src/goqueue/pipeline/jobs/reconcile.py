"""Reconcile: is every message of a topic in a lake table, once, and nothing else? By partition and offset.

The table needs columns with the partition and the offset of each message, as the example pipeline `lake` writes them.
Both sides are read once; the comparison is a join of Spark's, so it is as large as the scan.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as sql

from goqueue.errors import InvalidRequest
from goqueue.pipeline.jobs.queries import read_topic
from goqueue.pipeline.jobs.report import Report
from goqueue.pipeline.lake.merge import read_files
from goqueue.pipeline.source.catalogue import open_catalogue
from goqueue.pipeline.source.options import parse_source_options
from goqueue.records import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from goqueue.pipeline.lake.table import LakeTable

_SAMPLES = 20


class Columns(NamedTuple):
    """How the table calls what identifies a message, and what is compared; without `value` only places are."""

    partition: str = "partition"
    offset: str = "offset"
    value: str | None = "value"


_USUAL = Columns()


def reconcile(
    spark: SparkSession, options: Mapping[str, str], topic: str, table: LakeTable, columns: Columns = _USUAL
) -> Report:
    """Missing, extra, doubled and different rows, each with a count and samples."""
    wanted = checked(table, columns)
    files = list(table.files({}))
    messages = _messages(read_topic(spark, options, topic, columns="partition,offset,value"))
    rows = _rows(read_files(spark, table, files, wanted), columns) if files else messages.limit(0)
    report = Report("reconcile", facts={"topic": topic, "files": len(files)})
    starts = spark.createDataFrame(_log_starts(options, topic), "partition int, log_start long")
    _compare(report, messages, rows, starts, compares_values=columns.value is not None)
    return report


def checked(table: LakeTable, columns: Columns = _USUAL) -> list[str]:
    """The columns that are read; raises if there is no table, or none with these columns."""
    schema = table.schema
    if schema is None:
        raise InvalidRequest("the table does not exist", field="table")
    wanted = [name for name in columns if name is not None]
    missing = [name for name in wanted if name not in schema.names]
    if missing:
        raise InvalidRequest(
            f"the table has no column {missing[0]!r}; it has {', '.join(schema.names)}",
            field="columns",
            hint="name them with --partition-column, --offset-column and --value-column ('' compares no values)",
        )
    return wanted


def _log_starts(options: Mapping[str, str], topic: str) -> list[tuple[int, int]]:
    """Where the log of each partition begins."""
    catalogue = open_catalogue(parse_source_options({**options, "subscribe": topic}))
    try:
        places = [TopicPartition(topic, one) for one in catalogue.partitions().get(topic, [])]
        return [(place.partition, start) for place, start in catalogue.earliest(places).items()]
    finally:
        catalogue.close()


def _messages(frame: DataFrame) -> DataFrame:
    return frame.select("partition", "offset", sql.xxhash64(sql.col("value").cast("binary")).alias("hash"))


def _rows(frame: DataFrame, columns: Columns) -> DataFrame:
    value = sql.lit(None) if columns.value is None else sql.col(f"`{columns.value}`").cast("string").cast("binary")
    if columns.value is not None and frame.schema[columns.value].dataType.typeName() == "binary":
        value = sql.col(f"`{columns.value}`")
    return frame.select(
        sql.col(f"`{columns.partition}`").cast("int").alias("partition"),
        sql.col(f"`{columns.offset}`").cast("long").alias("offset"),
        sql.xxhash64(value).alias("hash"),
    )


def _compare(
    report: Report, messages: DataFrame, rows: DataFrame, log_starts: DataFrame, *, compares_values: bool
) -> None:
    firsts = messages.groupBy("partition").agg(sql.min("offset").alias("first"))
    # A partition may have no message left. One that is not there has no start, and never had a message.
    starts = log_starts.join(firsts, "partition", "left").select(
        "partition", sql.coalesce("first", "log_start").alias("start")
    )
    counted = rows.groupBy("partition", "offset").agg(
        sql.count(sql.lit(1)).alias("times"), sql.min("hash").alias("has")
    )
    both = messages.withColumn("in_topic", sql.lit(True)).join(counted, ["partition", "offset"], "full_outer")
    both = both.join(sql.broadcast(starts), "partition", "left")
    is_row = sql.col("times").isNotNull()
    in_topic = sql.col("in_topic").isNotNull()
    kind = (
        sql.when(~is_row, "missing")
        # Retention has removed what lies below the first message of a partition.
        .when(~in_topic & (sql.col("offset") < sql.col("start")), "older")
        .when(~in_topic, "extra")
        .when(sql.col("times") > 1, "doubled")
    )
    if compares_values:
        kind = kind.when(sql.col("hash") != sql.col("has"), "different")
    judged = both.withColumn("kind", kind.otherwise("same")).persist()
    try:
        counts = {row.kind: row["count"] for row in judged.groupBy("kind").count().collect()}
        for name in ("same", "missing", "extra", "doubled", "different", "older"):
            report.facts[name] = counts.get(name, 0)
        for name in ("missing", "extra", "doubled", "different"):
            if not counts.get(name):
                continue
            found = judged.filter(sql.col("kind") == name).orderBy("partition", "offset").limit(_SAMPLES).collect()
            report.tables[name.capitalize()] = [{"partition": one.partition, "offset": one.offset} for one in found]
            report.problems.append(
                f"{counts[name]} {name}, the first at partition {found[0][0]}, offset {found[0].offset}"
            )
    finally:
        judged.unpersist()

"""Reconcile: is every message of a topic in a lake table, once, and nothing else? By partition and offset.

The table needs columns with the partition and the offset of each message, as the example pipeline `lake` writes them.
Each side is read once and summed up by stretches of offsets: how many rows, and all their hashes in one. Only stretches
whose sums differ are read again and joined row by row, so that a table without problems costs no more than the scan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

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
# So many offsets of a partition are summed up in one: a billion rows are a few thousand sums.
_STRETCH = "shiftright(offset, 18)"
_PROBLEMS = ("missing", "extra", "doubled", "different")


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
    _compare(report, messages, rows, lambda: _log_starts(options, topic), compares_values=columns.value is not None)
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
    report: Report,
    messages: DataFrame,
    rows: DataFrame,
    log_starts: Callable[[], list[tuple[int, int]]],
    *,
    compares_values: bool,
) -> None:
    sent = _sums(messages.withColumn("is_older", sql.lit(False)), compares_values=compares_values)
    lasts: dict[int, int] = {}
    # A partition may have no message left. One that is not there has no start, and never had a message.
    starts = dict(log_starts())
    for partition, group in groupby(sent, key=lambda one: one.partition):
        stretches = list(group)
        starts[partition] = min(one.first for one in stretches)
        lasts[partition] = max(one.last for one in stretches)
    stored = _sums(_aged(rows, starts), compares_values=compares_values)
    in_topic = {_stretch(one): one for one in sent}
    in_table = {_stretch(one): one for one in stored if not one.is_older}
    parted = {at for at in in_topic.keys() | in_table.keys() if _told(in_topic.get(at)) != _told(in_table.get(at))}
    counts = Counter(
        same=sum(one.rows for at, one in in_topic.items() if at not in parted),
        older=sum(one.rows for one in stored if one.is_older),
    )
    if parted:
        # Retention goes on meanwhile, and messages that came meanwhile are nobody's fault.
        starts |= {one: max(starts.get(one, 0), start) for one, start in log_starts()}
        known = _by_partition(messages, "last", lasts).filter("offset <= last").select(messages.columns)
        young = _aged(rows, starts).filter(~sql.col("is_older"))
        _join(report, counts, _within(known, parted), _within(young, parted), compares_values=compares_values)
    for name in ("same", *_PROBLEMS, "older"):
        report.facts[name] = counts[name]


def _sums(frame: DataFrame, *, compares_values: bool) -> list[Any]:
    """By stretch: how many rows, and all of them in one number that one row more, less or else would change."""
    compared = ["partition", "offset", *(["hash"] if compares_values else [])]
    found = frame.groupBy("partition", sql.expr(_STRETCH).alias("stretch"), "is_older").agg(
        sql.count(sql.lit(1)).alias("rows"),
        sql.bit_xor(sql.xxhash64(*compared)).alias("hashes"),
        sql.min("offset").alias("first"),
        sql.max("offset").alias("last"),
    )
    return found.orderBy("partition", "stretch").collect()


def _stretch(sums: Any) -> tuple[int | None, int | None]:
    return sums.partition, sums.stretch


def _told(sums: Any) -> tuple[int, int]:
    return (0, 0) if sums is None else (sums.rows, sums.hashes)


def _aged(rows: DataFrame, starts: Mapping[int, int]) -> DataFrame:
    """Whether a row lies below the first message of its partition, where retention has removed what it is of."""
    is_older = sql.coalesce(sql.col("offset") < sql.col("first"), sql.lit(False))
    return _by_partition(rows, "first", starts).select(*rows.columns, is_older.alias("is_older"))


def _by_partition(frame: DataFrame, name: str, values: Mapping[int, int]) -> DataFrame:
    known = frame.sparkSession.createDataFrame(list(values.items()), f"partition int, {name} long")
    return frame.join(sql.broadcast(known), "partition", "left")


def _within(frame: DataFrame, stretches: Collection[tuple[int | None, int | None]]) -> DataFrame:
    """Rows of these stretches; a row without a partition or an offset is in one without, too."""
    wanted = frame.sparkSession.createDataFrame(list(stretches), "in_partition int, in_stretch long")
    is_in = sql.col("partition").eqNullSafe(sql.col("in_partition")) & sql.expr(_STRETCH).eqNullSafe(
        sql.col("in_stretch")
    )
    return frame.join(sql.broadcast(wanted), is_in, "left_semi")


def _join(report: Report, counts: Counter[str], messages: DataFrame, rows: DataFrame, *, compares_values: bool) -> None:
    counted = rows.groupBy("partition", "offset").agg(
        sql.count(sql.lit(1)).alias("times"), sql.min("hash").alias("has")
    )
    both = messages.withColumn("in_topic", sql.lit(True)).join(counted, ["partition", "offset"], "full_outer")
    kind = (
        sql.when(sql.col("times").isNull(), "missing")
        .when(sql.col("in_topic").isNull(), "extra")
        .when(sql.col("times") > 1, "doubled")
    )
    if compares_values:
        kind = kind.when(sql.col("hash") != sql.col("has"), "different")
    judged = both.withColumn("kind", kind.otherwise("same")).persist()
    try:
        counts.update({row.kind: row["count"] for row in judged.groupBy("kind").count().collect()})
        for name in _PROBLEMS:
            if not counts[name]:
                continue
            found = judged.filter(sql.col("kind") == name).orderBy("partition", "offset").limit(_SAMPLES).collect()
            report.tables[name.capitalize()] = [{"partition": one.partition, "offset": one.offset} for one in found]
            report.problems.append(
                f"{counts[name]} {name}, the first at partition {found[0][0]}, offset {found[0].offset}"
            )
    finally:
        judged.unpersist()

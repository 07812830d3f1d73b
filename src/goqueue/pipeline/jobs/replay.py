"""Replay: a range of a topic's past into another topic, partition by partition, in its old order.

At full speed it is one job, which sends all or nothing. At the original speed, or a multiple of
it, the range is cut into slices of time, and each is sent when it is due.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from goqueue.pipeline.jobs.queries import read_topic
from goqueue.pipeline.jobs.report import Report
from goqueue.pipeline.jobs.sending import Sender
from goqueue.pipeline.jobs.tasks import ShowProgress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# How often a slice is sent: long enough that starting a job is a part of it.
_SLICE_S = 2.0


def replay(
    spark: SparkSession,
    options: Mapping[str, str],
    source: str,
    target: str,
    *,
    from_ms: int,
    to_ms: int,
    speed: float | None,
    show: ShowProgress,
    dry_run: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> Report:
    """Send the messages from `from_ms` up to `to_ms` again; `speed` 1 is the original, None is all at once."""
    begun = time.monotonic()
    report = Report("replay", is_dry_run=dry_run)
    past = _past(spark, options, source, from_ms, to_ms)
    partitions = _partitions(past)
    report.facts |= {"from": source, "to": target, "messages": sum(row["messages"] for row in partitions)}
    report.facts["speed"] = speed or "full"
    report.tables["Partitions"] = partitions
    report.draw_bars("Messages per partition", "partition", "messages", partitions)
    if dry_run or not partitions:
        return report
    sender = Sender("replay", options, target, source, from_ms, to_ms)
    if speed is None:
        sender.send(_ordered(past))
        show(1, 1)
    else:
        first_ms = int(min(row["first"] for row in partitions).timestamp() * 1000)
        last_ms = int(max(row["last"] for row in partitions).timestamp() * 1000)
        slice_ms = max(round(_SLICE_S * 1000 * speed), 1)
        slices = range(first_ms, last_ms + 1, slice_ms)
        # Read once: a slice of what is kept is found by its times.
        past = past.persist()
        started = time.monotonic()
        for number, at_ms in enumerate(slices):
            sleep(max(started + number * _SLICE_S - time.monotonic(), 0))
            sender.send(_ordered(_between(past, at_ms, at_ms + slice_ms)))
            show(number + 1, len(slices))
        past.unpersist()
    report.facts["seconds"] = round(time.monotonic() - begun, 2)
    return report


def _past(spark: SparkSession, options: Mapping[str, str], topic: str, from_ms: int, to_ms: int) -> DataFrame:
    # Nothing before the first message of that time can be wanted; later ones may be out of order.
    start = {"startingTimestamp": str(from_ms), "startingOffsetsByTimestampStrategy": "latest"}
    return _between(read_topic(spark, options, topic, includeHeaders="true", **start), from_ms, to_ms)


def _partitions(rows: DataFrame) -> list[dict[str, Any]]:
    from pyspark.sql import functions as sql

    times = sql.min("timestamp").alias("first"), sql.max("timestamp").alias("last")
    found = rows.groupBy("partition").agg(sql.count(sql.lit(1)).alias("messages"), *times).orderBy("partition")
    return [row.asDict() for row in found.collect()]


def _between(rows: DataFrame, from_ms: int, to_ms: int) -> DataFrame:
    from pyspark.sql import functions as sql

    at = sql.col("timestamp")
    return rows.filter((at >= sql.timestamp_millis(sql.lit(from_ms))) & (at < sql.timestamp_millis(sql.lit(to_ms))))


def _ordered(rows: DataFrame) -> DataFrame:
    ordered = rows.repartition("partition").sortWithinPartitions("partition", "offset")
    return ordered.select("key", "value", "headers", "partition", "timestamp")

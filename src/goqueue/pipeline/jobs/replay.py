"""Replay: a range of a topic's past into another topic, partition by partition, in its old order.

At full speed it is one job. At the original speed, or a multiple of it, the range is cut into
slices of time, and each is sent when it is due.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from goqueue.pipeline.jobs.report import Report
from goqueue.pipeline.jobs.tasks import ShowProgress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Long enough that starting a job is a small part of it.
_SLICE_MS = 2_000


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
    first_last = past.selectExpr("count(1) AS n", "min(timestamp) AS first", "max(timestamp) AS last").first()
    report.facts |= {"from": source, "to": target, "messages": first_last["n"], "speed": speed or "full"}
    report.facts |= {"first": first_last["first"], "last": first_last["last"]}
    if dry_run or not first_last["n"]:
        return report
    if speed is None:
        _send(past, options, target)
        show(1, 1)
    else:
        last_ms = int(first_last["last"].timestamp() * 1000) + 1
        first_ms = int(first_last["first"].timestamp() * 1000)
        slices = range(first_ms, last_ms, _SLICE_MS)
        for number, at_ms in enumerate(slices):
            due = begun + (at_ms - first_ms) / 1000 / speed
            sleep(max(due - time.monotonic(), 0))
            piece = _past(spark, options, source, at_ms, min(at_ms + _SLICE_MS, to_ms))
            _send(piece, options, target)
            show(number + 1, len(slices))
    report.facts["seconds"] = round(time.monotonic() - begun, 2)
    return report


def _past(spark: SparkSession, options: Mapping[str, str], topic: str, from_ms: int, to_ms: int) -> DataFrame:
    from pyspark.sql import functions as sql

    rows = (
        spark.read.format("goqueue")
        .options(**options)
        .option("subscribe", topic)
        .option("includeHeaders", "true")
        .load()
    )
    at = sql.col("timestamp")
    return rows.filter((at >= sql.timestamp_millis(sql.lit(from_ms))) & (at < sql.timestamp_millis(sql.lit(to_ms))))


def _send(rows: DataFrame, options: Mapping[str, str], target: str) -> None:
    ordered = rows.repartition("partition").sortWithinPartitions("partition", "offset")
    messages = ordered.select("key", "value", "headers", "partition", "timestamp")
    messages.write.format("goqueue").options(**options).option("topic", target).mode("append").save()

"""Audit: what a topic looks like from the outside, and whether anything is missing from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from goqueue.pipeline.jobs.queries import messages_per, read_topic, rows_of
from goqueue.pipeline.jobs.report import Report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def audit(spark: SparkSession, options: Mapping[str, str], topic: str) -> Report:
    """Gaps between offsets, batches sent twice, skewed keys, sizes and rates of one topic."""
    report = Report("audit", facts={"topic": topic})
    read_topic(spark, options, topic, view="frames").createOrReplaceTempView("audit_frames")
    read_topic(spark, options, topic, view="records").createOrReplaceTempView("audit_records")
    _sizes(spark, report)
    _gaps(spark, report)
    _duplicates(spark, report)
    _keys(spark, report)
    _rates(spark, report)
    return report


def _sizes(spark: SparkSession, report: Report) -> None:
    rows = rows_of(
        spark,
        """SELECT partition, count(1) AS messages, min(offset) AS first_offset, max(offset) AS last_offset,
                  coalesce(sum(length(value)), 0) AS value_bytes,
                  coalesce(percentile_approx(length(value), 0.5), 0) AS median_bytes,
                  coalesce(max(length(value)), 0) AS largest_bytes
           FROM audit_records GROUP BY partition ORDER BY partition""",
    )
    report.facts["messages"] = sum(row["messages"] for row in rows)
    report.facts["value_bytes"] = sum(row["value_bytes"] for row in rows)
    report.tables["Partitions"] = rows
    report.draw_bars("Messages per partition", "partition", "messages", rows)


def _gaps(spark: SparkSession, report: Report) -> None:
    """Offsets that no batch covers. Compaction leaves such holes; on other topics they are a loss."""
    rows = rows_of(
        spark,
        """SELECT partition, previous + 1 AS first_missing, offset - 1 AS last_missing FROM (
             SELECT partition, offset, lag(lastOffset) OVER (PARTITION BY partition ORDER BY offset) AS previous
             FROM audit_frames) WHERE previous IS NOT NULL AND offset > previous + 1 ORDER BY partition, offset""",
    )
    report.facts["offset_gaps"] = len(rows)
    report.tables["Gaps"] = rows[:100]
    report.problems += [
        f"partition {row['partition']}: offsets {row['first_missing']} to {row['last_missing']} are in no batch"
        for row in rows[:20]
    ]


def _duplicates(spark: SparkSession, report: Report) -> None:
    """Batches of one producer with the same sequence: an idempotent producer's retry that was stored twice."""
    rows = rows_of(
        spark,
        """SELECT partition, producerId, producerEpoch, baseSequence, count(1) AS times, min(offset) AS first_offset
           FROM audit_frames WHERE producerId >= 0 AND baseSequence >= 0 AND NOT isControl
           GROUP BY partition, producerId, producerEpoch, baseSequence HAVING count(1) > 1
           ORDER BY partition, first_offset""",
    )
    report.facts["duplicate_batches"] = len(rows)
    report.tables["Batches stored twice"] = rows[:100]
    report.problems += [
        f"partition {row['partition']}: sequence {row['baseSequence']} of producer {row['producerId']} is there "
        f"{row['times']} times"
        for row in rows[:20]
    ]


def _keys(spark: SparkSession, report: Report) -> None:
    rows = rows_of(
        spark,
        """SELECT CAST(key AS STRING) AS key, count(1) AS messages FROM audit_records WHERE key IS NOT NULL
            GROUP BY key ORDER BY messages DESC, key LIMIT 10""",
    )
    (total,) = rows_of(spark, "SELECT count(DISTINCT key) AS keys, count(key) AS keyed FROM audit_records")
    report.facts |= {"distinct_keys": total["keys"], "messages_with_key": total["keyed"]}
    if rows and total["keyed"]:
        report.facts["share_of_the_most_frequent_key"] = round(rows[0]["messages"] / total["keyed"], 4)
    report.tables["Most frequent keys"] = rows
    report.draw_bars("Most frequent keys", "key", "messages", rows)


def _rates(spark: SparkSession, report: Report) -> None:
    chart = messages_per(spark, "audit_records", "minute")
    report.charts.append(chart)
    if chart.values:
        report.facts["busiest_minute_messages"] = max(chart.values)

"""Dead letters, looked at together: why they died, examples of each reason, and since when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from goqueue.pipeline.jobs.queries import messages_per, read_topic, rows_of
from goqueue.pipeline.jobs.report import Report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Headers that say why: of dead letters of queues, and of pipelines.
_REASONS = ("goqueue-dlq-reason", "goqueue-dlq-error", "goqueue-error")


def dlq_report(spark: SparkSession, options: Mapping[str, str], topic: str) -> Report:
    """Errors grouped, with an example of each and their number over time."""
    from pyspark.sql import functions as sql

    values = [sql.expr(f"element_at(filter(headers, h -> h.key = '{name}'), -1).value") for name in _REASONS]
    reason = sql.coalesce(sql.coalesce(*values).cast("string"), sql.lit("no reason given"))
    letters = read_topic(spark, options, topic, includeHeaders="true").withColumn("reason", reason)
    letters.createOrReplaceTempView("dead_letters")
    report = Report("dlq-report", facts={"topic": topic})
    grouped = rows_of(
        spark,
        """SELECT reason, count(1) AS messages, min(timestamp) AS first, max(timestamp) AS last,
                   left(CAST(max_by(value, offset) AS STRING), 200) AS example,
                   max_by(concat(partition, ':', offset), offset) AS example_at
            FROM dead_letters GROUP BY reason ORDER BY messages DESC, reason""",
    )
    report.facts |= {"messages": sum(row["messages"] for row in grouped), "reasons": len(grouped)}
    report.tables["Reasons"] = grouped
    report.draw_bars("By reason", "reason", "messages", grouped)
    report.charts.append(messages_per(spark, "dead_letters", "hour"))
    return report

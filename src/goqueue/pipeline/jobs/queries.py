"""What the jobs that look at a topic by SQL share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from goqueue.pipeline.jobs.charts import Chart

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_topic(spark: SparkSession, options: Mapping[str, str], topic: str, **more: str) -> DataFrame:
    """The topic as a table."""
    return spark.read.format("goqueue").options(**options).option("subscribe", topic).options(**more).load()


def rows_of(spark: SparkSession, query: str) -> list[dict[str, Any]]:
    """The answer to a query, as plain rows."""
    return [row.asDict() for row in spark.sql(query).collect()]


def messages_per(spark: SparkSession, view: str, unit: str) -> Chart:
    """A line of how many messages came in each `unit` of time, which is minute or hour."""
    rows = rows_of(
        spark,
        f"""SELECT date_format(window.start, 'MM-dd HH:mm') AS at, count(1) AS messages
            FROM {view} GROUP BY window(timestamp, '1 {unit}') ORDER BY min(timestamp)""",  # noqa: S608 - our own names
    )
    return Chart(f"Messages per {unit}", [row["at"] for row in rows], [row["messages"] for row in rows], kind="line")

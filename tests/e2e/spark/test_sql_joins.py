"""Joins in SQL steps: Spark refuses what `validate` refuses, and takes what it takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from tests.unit.pipeline.declared.test_flows import REFUSED, TAKEN, query


@pytest.fixture(scope="module")
def views(spark: Any) -> Iterator[Any]:
    """Streams and a table with the names of the unit tests' sources and steps, without a broker."""
    spark.createDataFrame([(1, 1)], "key LONG, x LONG").createOrReplaceTempView("t")
    rows = spark.readStream.format("rate").load().selectExpr("value AS key", "value AS x", "timestamp")
    at = rows.withColumnRenamed("timestamp", "at").drop("x")
    late_a, late_b = rows.withWatermark("timestamp", "10 minutes"), at.withWatermark("at", "10 minutes")
    named = {"a": rows, "b": rows, "late_a": late_a, "late_b": late_b}
    for name, frame in named.items():
        frame.createOrReplaceTempView(name)
    yield spark
    for name in ("t", *named):
        spark.catalog.dropTempView(name)


def start(spark: Any, text: str, home: Path) -> None:
    writer = spark.sql(query(text)["sql"]["query"]).writeStream.format("noop")
    writer.option("checkpointLocation", str(home)).start().stop()


@pytest.mark.parametrize("text", [text for text, _ in REFUSED])
def test_what_is_refused_would_not_start(views: Any, text: str, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match=r"(?i)stream"):
        start(views, text, tmp_path)


@pytest.mark.parametrize("text", TAKEN)
def test_what_is_taken_starts(views: Any, text: str, tmp_path: Path) -> None:
    start(views, text, tmp_path)

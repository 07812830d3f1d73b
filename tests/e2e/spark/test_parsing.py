"""Parsing on real Spark: columns with unusual names, and dead letters that keep what they were."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs goqueue[spark]")

from goqueue.pipeline.declared.form.steps import Parse
from goqueue.pipeline.declared.frames.parsing import parse


def test_a_column_with_a_dot_in_its_name_may_stand_beside_the_value(spark: Any) -> None:
    frame = spark.sql("SELECT 7 AS `shop.id`, '{\"id\": 1}' AS value")

    good, _ = parse(Parse(schema="id BIGINT", keep=["shop.id"]), frame, "p.parse")

    assert [tuple(row) for row in good.collect()] == [(1, 7)]


@pytest.mark.parametrize(
    ("query", "column"),
    [
        ("SELECT struct('{torn' AS body) AS event", "event.body"),
        ("SELECT '{torn' AS value", "VALUE"),
        ("SELECT '{torn' AS `event.body`", "`event.body`"),
    ],
)
def test_a_dead_letter_has_the_bytes_that_were_parsed_however_their_column_is_named(
    spark: Any, query: str, column: str
) -> None:
    _, bad = parse(Parse(schema="id BIGINT", column=column), spark.sql(query), "p.parse")

    assert [(bytes(row.value), row.error) for row in bad.collect()] == [(b"{torn", "not JSON of the schema id BIGINT")]

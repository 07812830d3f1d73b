"""Reconciling a topic with a lake table: what is missing, extra, doubled, different, and what retention removed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.e2e.process import BrokerProcess

from goqueue.errors import InvalidRequest
from goqueue.pipeline.jobs.reconcile import Columns, reconcile
from goqueue.pipeline.lake.append import append
from goqueue.pipeline.lake.delta import delta_table
from goqueue.pipeline.lake.table import Batch


@pytest.mark.parametrize("bits", [18, 2])
def test_every_difference_is_counted_and_shown(
    spark: Any,
    broker: BrokerProcess,
    topic: Callable[..., str],
    read: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    bits: int,
) -> None:
    """In one stretch of offsets, and in many of which some are the same."""
    monkeypatch.setattr("goqueue.pipeline.jobs.reconcile._STRETCH", f"shiftright(offset, {bits})")
    source = topic(3)
    producer = Producer({"bootstrap.servers": broker.kafka})
    for number in range(20):
        producer.produce(source, value=f"v{number}", partition=number % 2)
    assert producer.flush(20) == 0
    options = {"kafka.bootstrap.servers": broker.kafka}
    places = read(source).selectExpr("partition", "offset", "CAST(value AS STRING) AS value")
    append(delta_table(str(tmp_path / "same")), places, Batch("q", 0))

    same = reconcile(spark, options, source, delta_table(str(tmp_path / "same")))

    assert (same.facts["same"], same.problems) == (20, [])

    rows = [tuple(row) for row in places.collect() if (row.partition, row.offset) != (1, 4)]
    rows = [(p, o, "changed") if (p, o) == (0, 2) else (p, o, v) for p, o, v in rows]
    # Behind the end of a partition, in one without messages, in one that the topic does not have, and in none.
    rows += [(0, 3, "v6"), (1, 99, "from nowhere"), (2, 0, "empty"), (7, 0, "no partition"), (None, 5, "null")]
    other = delta_table(str(tmp_path / "other"))
    append(other, spark.createDataFrame(rows, "partition INT, offset BIGINT, value STRING"), Batch("q", 0))

    found = reconcile(spark, options, source, delta_table(str(tmp_path / "other")))

    told = {name: found.facts[name] for name in ("same", "missing", "extra", "doubled", "different", "older")}
    assert told == {"same": 17, "missing": 1, "extra": 4, "doubled": 1, "different": 1, "older": 0}
    assert found.tables["Missing"] == [{"partition": 1, "offset": 4}]
    assert found.problems[0] == "1 missing, the first at partition 1, offset 4"
    with pytest.raises(InvalidRequest, match="the table has no column 'body'; it has partition, offset, value"):
        reconcile(spark, options, source, delta_table(str(tmp_path / "other")), Columns(value="body"))

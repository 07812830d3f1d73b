"""A topic as a table on real Spark: latest values, as of an offset, joined with a stream, and as tables of SQL."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.e2e.kafka_raw import RawClient
from tests.e2e.process import BrokerProcess

import goqueue.pipeline
from goqueue.pipeline.declared.load import load_values
from goqueue.pipeline.declared.main import run_until_stopped


def send(broker: BrokerProcess, topic: str, rows: Sequence[tuple[str | None, str | None]]) -> None:
    producer = Producer({"bootstrap.servers": broker.kafka, "compression.type": "zstd"})
    for key, value in rows:
        producer.produce(topic, key=key, value=value)
    assert producer.flush(20) == 0


def shown(frame: Any) -> dict[str, str]:
    rows = frame.selectExpr("CAST(key AS STRING) k", "CAST(value AS STRING) v").collect()
    assert len({row.k for row in rows}) == len(rows)
    return {row.k: row.v for row in rows}


def test_a_table_has_the_latest_value_of_each_key_also_as_of_an_offset(
    broker: BrokerProcess, topic: Callable[..., str], read: Callable[..., Any]
) -> None:
    source = topic(1)
    send(broker, source, [("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"), ("b", None), ("c", "3")])
    frame = read(source, **{"as": "table"})
    assert shown(frame) == {"a": "2", "c": "3"}
    ends = json.dumps({source: {"0": 4}})
    assert shown(read(source, **{"as": "table", "endingOffsets": ends})) == {"a": "2", "b": "1", "c": "1"}
    # Retention goes by the times of records, and these are years old.
    timed = topic(2, **{"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": broker.kafka})
    for at, (key, value) in enumerate([("a", "1"), ("b", "1"), ("a", "2"), ("b", None), ("a", "3")]):
        producer.produce(timed, key=key, value=value, timestamp=1_700_000_000_000 + at)
        assert producer.flush(20) == 0
    assert shown(read(timed, **{"as": "table", "endingTimestamp": 1_700_000_000_003})) == {"a": "2", "b": "1"}

    # The frame that was planned before shows what has come since.
    send(broker, source, [("d", "9"), ("a", None), ("c", "4")])
    assert shown(frame) == {"c": "4", "d": "9"}
    assert frame.select("partition").distinct().collect()[0][0] == 0

    send(broker, source, [(None, "x")])
    with pytest.raises(Exception, match="without a key at offset 9: a table needs keys"):
        frame.collect()


def test_topics_are_tables_of_sql_and_can_be_written_to(
    spark: Any, broker: BrokerProcess, topic: Callable[..., str]
) -> None:
    source = topic(2)
    send(broker, source, [("a", "1"), ("b", "1"), ("a", "2")])

    made = goqueue.pipeline.tables(spark, broker.kafka, as_table=[source])

    name = source.replace("-", "_")
    assert made[name] == source
    query = f"SELECT CAST(value AS STRING) v FROM goqueue.{name} ORDER BY v"
    assert [row.v for row in spark.sql(query).collect()] == ["1", "2"]
    send(broker, source, [("b", "7")])
    assert [row.v for row in spark.sql(query).collect()] == ["2", "7"]


def test_a_stream_is_joined_with_what_the_table_is_at_each_batch(
    spark: Any, broker: BrokerProcess, topic: Callable[..., str], tmp_path: Path
) -> None:
    towns, orders = topic(2), topic(1)
    with RawClient(broker.kafka) as raw:
        raw.create_topic(f"{orders}.out", 1)
        raw.create_topic(f"{orders}.bad", 1)
    send(broker, towns, [("1", '{"id": 1, "town": "Köln"}'), ("2", '{"id": 2, "town": "Bonn"}')])
    send(broker, orders, [("x", '{"id": 1, "n": 1}'), ("y", '{"id": 2, "n": 2}')])
    pipeline = load_values(
        {
            "name": "join",
            "broker": broker.kafka,
            "checkpoint": str(tmp_path / "checkpoint"),
            "trigger": "available-now",
            "dead_letters": f"{orders}.bad",
            "sources": {
                "towns": {"table": towns, "schema": "id BIGINT, town STRING"},
                "orders": {"topic": orders},
            },
            "steps": [
                {"parse": {"from": "orders", "schema": "id BIGINT, n BIGINT"}},
                {"join": {"with": "towns", "on": ["id"]}},
            ],
            "sinks": [{"topic": {"topic": f"{orders}.out"}}],
        }
    )
    run_until_stopped(pipeline, spark, folder=tmp_path)
    send(broker, towns, [("1", '{"id": 1, "town": "Ulm"}'), ("2", None)])
    send(broker, orders, [("x", '{"id": 1, "n": 3}'), ("y", '{"id": 2, "n": 4}')])

    run_until_stopped(pipeline, spark, folder=tmp_path)

    reader = spark.read.format("goqueue").option("kafka.bootstrap.servers", broker.kafka)
    found = [json.loads(bytes(row.value)) for row in reader.option("subscribe", f"{orders}.out").load().collect()]
    assert sorted((one["n"], one["town"]) for one in found) == [(1, "Köln"), (2, "Bonn"), (3, "Ulm")]

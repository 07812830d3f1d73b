"""Expectations on real Spark: counted, dropped, quarantined, and runs that end because of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.e2e.kafka_raw import RawClient
from tests.e2e.process import BrokerProcess

from goqueue.pipeline.declared.load import load_values
from goqueue.pipeline.declared.main import run_until_stopped
from goqueue.pipeline.declared.running.run import PipelineFailed
from goqueue.pipeline.declared.testing.cases import run_cases

Read = Callable[..., Any]


@pytest.fixture
def orders(broker: BrokerProcess, topic: Callable[..., str]) -> str:
    """Twenty orders: four without a customer, five with an amount below one, of which one has no customer."""
    name = topic(1)
    with RawClient(broker.kafka) as raw:
        for tail in ("out", "bad"):
            raw.create_topic(f"{name}.{tail}", 1)
    producer = Producer({"bootstrap.servers": broker.kafka})
    for number in range(20):
        customer = None if number % 5 == 0 else f"c{number}"
        value = {"id": number, "customer": customer, "amount": -1.0 if number % 4 == 3 or number == 0 else 2.5}
        producer.produce(name, key=str(number), value=json.dumps(value))
    assert producer.flush(20) == 0
    return name


def pipeline(broker: BrokerProcess, topic: str, home: Path, rules: dict[str, Any]) -> Any:
    return load_values(
        {
            "name": "checked",
            "broker": broker.kafka,
            "checkpoint": str(home / "checkpoint"),
            "trigger": "available-now",
            "dead_letters": f"{topic}.bad",
            "sources": {"orders": {"topic": topic, "max_per_batch": 8}},
            "steps": [
                {"parse": {"schema": "id BIGINT, customer STRING, amount DOUBLE", "keep": ["offset"]}},
                {"expect": {"name": "checked", "rules": rules}},
            ],
            "sinks": [{"topic": {"name": "out", "topic": f"{topic}.out"}}],
        }
    )


def test_rows_are_counted_by_rule_and_dropped_or_quarantined(
    spark: Any, broker: BrokerProcess, orders: str, read: Read, tmp_path: Path
) -> None:
    rules = {
        "small_id": "id < 10",
        "has_customer": {"check": "customer IS NOT NULL", "then": "quarantine"},
        "is_paid": {"check": "amount > 0", "then": "drop"},
    }

    status = run_until_stopped(pipeline(broker, orders, tmp_path, rules), spark, folder=tmp_path)

    counts = {one["sink"]: one["expectations"] for one in status}["out"]
    assert counts == {"checked": {"rows": 20, "small_id": 10, "has_customer": 4, "is_paid": 6}}
    written = sorted(json.loads(bytes(row.value))["id"] for row in read(f"{orders}.out").collect())
    assert written == [number for number in range(20) if number % 5 and number % 4 != 3]
    letters = read(f"{orders}.bad", includeHeaders="true").collect()
    assert sorted(json.loads(bytes(row.value))["id"] for row in letters) == [0, 5, 10, 15]
    told = {one.key: bytes(one.value).decode() for one in letters[0].headers if one.value is not None}
    assert told["goqueue-error"] == "breaks the rule has_customer: customer IS NOT NULL"
    assert told["goqueue-origin-offset"] == "0"


def test_a_run_ends_after_a_batch_in_which_too_many_rows_break_a_rule(
    spark: Any, broker: BrokerProcess, orders: str, tmp_path: Path
) -> None:
    rules = {"has_customer": {"check": "customer IS NOT NULL", "fail_above": 0.1}}

    with pytest.raises(PipelineFailed, match=r"of 8 rows of a batch broke the rule has_customer of step checked, more"):
        run_until_stopped(pipeline(broker, orders, tmp_path, rules), spark, folder=tmp_path)


def test_a_rule_that_must_hold_fails_the_batch_and_says_which_row(spark: Any) -> None:
    values = {
        "name": "strict",
        "sources": {"events": {"topic": "events"}},
        "steps": [
            {"select": {"columns": {"n": "CAST(CAST(value AS STRING) AS INT)"}}},
            {"expect": {"name": "strict", "then": "fail", "rules": {"is_small": "n < 10"}}},
        ],
        "sinks": [{"console": {}}],
        "tests": [{"name": "too large", "given": {"events": [{"value": "12"}]}, "expect": {"strict": []}}],
    }

    with pytest.raises(Exception, match=r'step strict: a row breaks the rule is_small: n < 10: {"n":12}'):
        run_cases(load_values(values), spark)

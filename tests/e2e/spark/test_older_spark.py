"""PySpark 4.0 and 4.1, each in an environment of its own, which `make test-spark-older` makes."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.e2e.kafka_raw import RawClient
from tests.e2e.process import BrokerProcess
from tests.e2e.spark.kafka_truth import truth
from tests.e2e.spark.test_spark_typed import avro, registered

PYTHONS = os.environ.get("GOQUEUE_OLDER_SPARK", "").split()
JOB = Path(__file__).with_name("older_spark_job.py")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not PYTHONS, reason="make test-spark-older"),
]


PIPELINE = """
name: older
broker: {broker}
registry: http://{http}
checkpoint: {home}/state
trigger: available-now
dead_letters: bad
shared_reads: true
settings: {{spark.sql.shuffle.partitions: "2"}}
sources:
  orders: {{topic: orders, subject: orders-value, keep: [offset]}}
steps:
  - expect: {{rules: {{real: "id >= 0"}}, then: drop}}
  - deduplicate: {{name: once, keys: [id], time: at, watermark: 10m}}
sinks:
  - topic: {{topic: copy, subject: copy-value, register: avro, key: id}}
  - delta: {{path: {home}/lake}}
tests:
  - name: an order without a real id is dropped
    given:
      orders: [{{id: 1, at: "2026-01-01T00:00:00Z"}}, {{id: -1, at: "2026-01-01T00:00:00Z"}}]
    expect: {{topic: [{{id: 1}}]}}
"""
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "broker").start()
    with RawClient(process.kafka) as raw:
        raw.create_topic("events", 2)
        raw.create_topic("copy", 1)
    yield process
    process.kill()


def send(broker: BrokerProcess, first: int, end: int) -> None:
    producer = Producer({"bootstrap.servers": broker.kafka, "compression.type": "lz4"})
    for number in range(first, end):
        producer.produce("events", key=str(number), value=f"v{number}", partition=number % 2)
    assert producer.flush(20) == 0


@pytest.mark.parametrize("python", PYTHONS)
def test_a_topic_is_read_and_copied_exactly_once_over_a_restart(
    python: str, broker: BrokerProcess, tmp_path: Path
) -> None:
    def run() -> dict[str, Any]:
        words = [python, str(JOB), broker.kafka, "events", "copy", str(tmp_path)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=400, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return told

    send(broker, 0, 200)
    first = run()
    send(broker, 200, 300)
    second = run()

    assert (first["rows"], first["filtered"], second["rows"]) == (200, 10, 400)
    # The first batch of a run reads all that is there; behind it the limit holds.
    assert first["largest_later_batch"] <= 40
    copied = Counter((row[3], row[4]) for row in truth(broker.kafka, "copy"))
    assert copied == Counter((row[3], row[4]) for row in truth(broker.kafka, "events", 2))
    assert copied.total() == 500


@pytest.mark.parametrize("python", PYTHONS)
def test_a_declared_pipeline_is_tested_and_runs_exactly_once_over_a_restart(
    python: str, broker: BrokerProcess, tmp_path: Path
) -> None:
    from deltalake import DeltaTable

    with RawClient(broker.kafka) as raw:
        for topic in ("orders", "bad"):
            raw.create_topic(topic, 1)
    own = registered(broker, "orders-value", "AVRO", json.dumps(ORDER))
    file = tmp_path / "older.yaml"
    file.write_text(PIPELINE.format(broker=broker.kafka, http=broker.http, home=tmp_path))

    def goqueue(*words: str) -> None:
        command = [python, "-m", "goqueue", "pipeline", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False, cwd=tmp_path)
        assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"

    goqueue("test", str(file))
    for first, end in ((0, 60), (40, 100)):
        orders = [avro(own, ORDER, {"id": number, "at": 1_700_000_000_000 + number}) for number in range(first, end)]
        _send_values(broker, [*orders, b"not an order", avro(own, ORDER, {"id": -1, "at": 1_700_000_000_000})])
        goqueue("run", str(file), "--master", "local[1]", "--quiet")

    written = [int(row[3] or b"-1") for row in truth(broker.kafka, "copy")]
    assert sorted(written) == list(range(100))
    assert sorted(DeltaTable(str(tmp_path / "lake")).to_pyarrow_table()["id"].to_pylist()) == list(range(100))
    assert [row[4] for row in truth(broker.kafka, "bad")] == [b"not an order"] * 2


def _send_values(broker: BrokerProcess, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": broker.kafka})
    for value in values:
        producer.produce("orders", value)
    assert producer.flush(20) == 0

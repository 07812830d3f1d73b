"""Shared reads and backfills killed between their sinks and before they can say that they are done: every row once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.e2e.kafka_raw import RawClient
from tests.e2e.process import BrokerProcess
from tests.e2e.spark.command import Command, run
from tests.e2e.spark.kafka_truth import truth

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

PIPELINE = """
name: shared
broker: {broker}
checkpoint: {home}/state
trigger: available-now
shared_reads: true
settings: {{spark.sql.shuffle.partitions: "2"}}
sources:
  events: {{topic: events, max_per_batch: 40, start: {start}}}
steps:
  - select: {{name: opened, columns: {{id: "CAST(CAST(value AS STRING) AS BIGINT)"}}}}
sinks:
  - delta: {{name: one, path: {home}/one}}
  - topic: {{name: two, topic: copy, key: id}}
  - delta: {{name: three, path: {home}/three}}
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "broker").start()
    with RawClient(process.kafka) as raw:
        for topic in ("events", "copy"):
            raw.create_topic(topic, 1)
    yield process
    process.kill()


def send(broker: BrokerProcess, first: int, end: int) -> None:
    producer = Producer({"bootstrap.servers": broker.kafka})
    for number in range(first, end):
        producer.produce("events", key=str(number), value=str(number))
    assert producer.flush(20) == 0


def assert_exact(broker: BrokerProcess, home: Path, rows: int) -> None:
    from deltalake import DeltaTable

    for name in ("one", "three"):
        found = DeltaTable(str(home / name)).to_pyarrow_table()["id"].to_pylist()
        assert sorted(found) == list(range(rows)), name
    assert sorted(int(row[3]) for row in truth(broker.kafka, "copy", 1)) == list(range(rows))


def killed_at(home: Path, orders: str, mark: Path, *words: object) -> None:
    command = Command(home, *words, "--master", "local[2]", GOQUEUE_SPARK_STEPS=orders)
    try:
        command.until(mark.exists)
        command.wait()
    finally:
        command.kill()


def test_a_shared_read_is_exact_in_every_sink_after_kills_between_them(broker: BrokerProcess, tmp_path: Path) -> None:
    send(broker, 0, 170)
    file = tmp_path / "shared.yaml"
    file.write_text(PIPELINE.format(broker=broker.kafka, home=tmp_path, start="earliest"))
    steps = ("sink-one", "sink-two", "sink-three")
    orders = ",".join(f"kill:{step}:{at + 1}:{tmp_path}/{step}" for at, step in enumerate(steps))

    for step in steps:
        killed_at(tmp_path, orders, tmp_path / step, "pipeline", "run", file)
    run(tmp_path, "pipeline", "run", file, "--master", "local[2]")

    assert_exact(broker, tmp_path, 170)


def test_a_backfill_is_exact_after_kills(broker: BrokerProcess, tmp_path: Path) -> None:
    send(broker, 0, 100)
    file = tmp_path / "shared.yaml"
    file.write_text(PIPELINE.format(broker=broker.kafka, home=tmp_path, start="latest"))
    run(tmp_path, "pipeline", "run", file, "--master", "local[2]")
    send(broker, 100, 120)
    run(tmp_path, "pipeline", "run", file, "--master", "local[2]")
    words = ("pipeline", "backfill", file, "--from", "2020-01-01T00:00:00Z", "--to", "2100-01-01T00:00:00Z")

    for step in ("lake-files", "backfill-written"):
        # Before the first commit, and behind it, before the second sink is begun.
        killed_at(tmp_path, f"kill:{step}:0:{tmp_path}/{step}", tmp_path / step, *words)
    run(tmp_path, *words, "--master", "local[2]")
    run(tmp_path, *words, "--master", "local[2]")

    assert_exact(broker, tmp_path, 120)

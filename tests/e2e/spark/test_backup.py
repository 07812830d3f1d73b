"""Backup, verify and restore, through the functions behind `goqueue jobs`, against real brokers."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.e2e.process import BrokerProcess

from goqueue.backup.store import BackupStore
from goqueue.errors import InvalidRequest
from goqueue.pipeline.backup import job

MESSAGES = 3_000


@pytest.fixture
def source(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path / "source").start()
    produce(broker, MESSAGES)
    consume_and_commit(broker, 500)
    yield broker
    broker.kill()


def produce(broker: BrokerProcess, count: int, value: bytes = b"v" * 50) -> None:
    producer = Producer({"bootstrap.servers": broker.kafka})
    for number in range(count):
        producer.produce("orders", key=str(number), value=value + str(number).encode())
    assert producer.flush(20) == 0


def consume_and_commit(broker: BrokerProcess, count: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.kafka, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    read = 0
    while read < count:
        read += len(consumer.consume(100, 5))
    consumer.commit(asynchronous=False)
    consumer.close()


def messages(broker: BrokerProcess) -> list[tuple[Any, ...]]:
    """Everything in the topic, with its place, as a Kafka client reads it."""
    consumer = Consumer({"bootstrap.servers": broker.kafka, "group.id": "look", "enable.partition.eof": True})
    places = [TopicPartition("orders", partition, 0) for partition in range(3)]
    consumer.assign(places)
    found, ended = [], 0
    while ended < len(places):
        message = consumer.poll(10)
        assert message is not None, "the broker does not answer"
        if message.error():
            ended += 1
        else:
            found.append((message.partition(), message.offset(), message.timestamp(), message.key(), message.value()))
    consumer.close()
    return sorted(found)


def positions(broker: BrokerProcess) -> list[int]:
    consumer = Consumer({"bootstrap.servers": broker.kafka, "group.id": "readers"})
    committed = consumer.committed([TopicPartition("orders", partition) for partition in range(3)], 10)
    consumer.close()
    return [one.offset for one in committed]


def take_backup(spark: Any, broker: BrokerProcess, target: Path) -> str:
    def ends() -> dict[tuple[str, str], int]:
        with urllib.request.urlopen(f"http://{broker.http}/admin/instant") as reply:
            return {(one["directory"], one["segment"]): one["size_bytes"] for one in json.load(reply)["logs"]}

    report = job.backup(spark, broker.data_dir, target, ask_instant=ends, show=silent)
    return str(report.facts["backup"])


def restored(spark: Any, target: Path, name: str | None, home: Path, *, until_ms: int | None = None) -> BrokerProcess:
    broker = BrokerProcess(home)
    job.restore(spark, target, name, broker.data_dir, show=silent, until_ms=until_ms)
    return broker.start()


def silent(_done: int, _total: int) -> None:
    """No progress bar in a test."""


def test_a_backup_of_a_running_broker_serves_the_same_bytes_at_the_same_offsets(
    spark: Any, source: BrokerProcess, tmp_path: Path
) -> None:
    name = take_backup(spark, source, tmp_path / "backups")
    before, committed = messages(source), positions(source)
    produce(source, 10, b"later")

    broker = restored(spark, tmp_path / "backups", name, tmp_path / "target")

    try:
        assert len(before) == MESSAGES
        assert messages(broker) == before
        assert positions(broker) == committed
        assert sum(offset for offset in committed if offset > 0) >= 500
    finally:
        broker.kill()


def test_a_second_backup_reads_only_what_is_new_and_both_can_be_restored(
    spark: Any, source: BrokerProcess, tmp_path: Path
) -> None:
    first = take_backup(spark, source, tmp_path / "backups")
    produce(source, 10, b"later")
    take_backup(spark, source, tmp_path / "backups")

    older = restored(spark, tmp_path / "backups", first, tmp_path / "older")
    newer = restored(spark, tmp_path / "backups", None, tmp_path / "newer")

    try:
        assert len(messages(older)) == MESSAGES
        assert messages(newer) == messages(source)
    finally:
        older.kill()
        newer.kill()


def test_a_restore_up_to_a_time_leaves_out_what_came_later(spark: Any, source: BrokerProcess, tmp_path: Path) -> None:
    before = messages(source)
    time.sleep(0.05)  # the log's clock has milliseconds; what follows must be later
    until_ms = int(time.time() * 1000) - 1
    produce(source, 10, b"later")
    name = take_backup(spark, source, tmp_path / "backups")

    broker = restored(spark, tmp_path / "backups", name, tmp_path / "target", until_ms=until_ms)

    try:
        assert messages(broker) == before
    finally:
        broker.kill()


def test_a_flipped_bit_in_a_backup_is_found_and_named(spark: Any, source: BrokerProcess, tmp_path: Path) -> None:
    take_backup(spark, source, tmp_path / "backups")
    store = BackupStore(tmp_path / "backups")
    file = max(store.read().files, key=lambda one: one.size)
    path = store.object_path(file.hash)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)

    report = job.verify(spark, tmp_path / "backups", None, show=silent)

    assert len(report.problems) == 1
    assert file.path in report.problems[0]
    with pytest.raises(job.BackupFailed, match=file.path):
        job.restore(spark, tmp_path / "backups", None, tmp_path / "target" / "data", show=silent)
    assert not (tmp_path / "target" / "data").exists()


def test_a_backup_of_a_stopped_broker_and_a_plan_of_one(spark: Any, source: BrokerProcess, tmp_path: Path) -> None:
    before = messages(source)
    source.stop()

    planned = job.backup(None, source.data_dir, tmp_path / "backups", ask_instant=lambda: None, show=silent)

    assert planned.is_dry_run
    assert planned.facts["bytes_to_read"] > 0
    assert not (tmp_path / "backups").exists()

    job.backup(spark, source.data_dir, tmp_path / "backups", ask_instant=lambda: None, show=silent)
    broker = restored(spark, tmp_path / "backups", None, tmp_path / "target")
    try:
        assert messages(broker) == before
    finally:
        broker.kill()


def test_a_restore_never_writes_over_data(spark: Any, source: BrokerProcess, tmp_path: Path) -> None:
    take_backup(spark, source, tmp_path / "backups")

    with pytest.raises(InvalidRequest, match="not empty"):
        job.restore(spark, tmp_path / "backups", None, source.data_dir, show=silent)

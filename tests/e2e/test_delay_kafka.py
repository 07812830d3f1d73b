"""Delay by record header from stock Kafka clients, all of which step over a batch that was emptied this way."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from tests.e2e.conftest import StartBroker
from tests.e2e.http import Http
from tests.e2e.kafka_python import KafkaConsumer, KafkaProducer
from tests.e2e.kafka_python import TopicPartition as PythonPartition
from tests.e2e.process import BrokerProcess


@pytest.fixture
def topic(broker: BrokerProcess, request: pytest.FixtureRequest) -> str:
    name = request.node.name.replace("[", "-").replace("]", "")[:60]
    Http(broker.http).post("/topics", {"name": name, "num_partitions": 1, "config": {"goqueue.delay.headers": "true"}})
    return name


EXPECTED = [b"now-0", b"now-3", b"after", b"late-1", b"late-2", b"alone"]


def send_with_confluent(broker: BrokerProcess, topic: str) -> None:
    """One mixed batch, one that is emptied whole, one plain; retries are on, as by default."""
    producer = Producer({"bootstrap.servers": broker.kafka, "enable.idempotence": True, "linger.ms": 50})
    failed: list[Any] = []

    def told(error: Any, _: Any) -> None:
        if error is not None:
            failed.append(error)

    for number in range(4):
        late = number in {1, 2}
        headers = [("goqueue-delay-ms", str(1500 + number).encode())] if late else None
        producer.produce(topic, f"{'late' if late else 'now'}-{number}", headers=headers, on_delivery=told)
    assert producer.flush(20) == 0
    at = str(int(time.time() * 1000) + 2_500).encode()
    producer.produce(topic, "alone", headers=[("goqueue-deliver-at", at)], on_delivery=told)
    assert producer.flush(20) == 0
    producer.produce(topic, "after", on_delivery=told)
    assert producer.flush(20) == 0
    assert failed == []


def test_confluent_kafka_reads_over_the_gaps(broker: BrokerProcess, topic: str) -> None:
    send_with_confluent(broker, topic)
    consumer = Consumer({"bootstrap.servers": broker.kafka, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes] = []
    deadline = time.monotonic() + 30
    while len(found) < len(EXPECTED) and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message.value())
    consumer.close()
    assert found == EXPECTED


async def test_aiokafka_reads_over_the_gaps_and_sends_the_same(broker: BrokerProcess, topic: str) -> None:
    send_with_confluent(broker, topic)
    async with AIOKafkaProducer(bootstrap_servers=broker.kafka, enable_idempotence=True) as producer:
        await producer.send_and_wait(topic, b"aio", headers=[("goqueue-delay-ms", b"3000")])
    async with AIOKafkaConsumer(topic, bootstrap_servers=broker.kafka, auto_offset_reset="earliest") as consumer:
        found = [(await consumer.getone()).value for _ in range(len(EXPECTED) + 1)]
    assert found == [*EXPECTED, b"aio"]


def test_kafka_python_reads_over_the_gaps_and_sends_the_same(broker: BrokerProcess, topic: str) -> None:
    send_with_confluent(broker, topic)
    producer = KafkaProducer(bootstrap_servers=broker.kafka)
    producer.send(topic, b"python", headers=[("goqueue-delay-ms", b"3000")]).get(timeout=20)
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=broker.kafka, auto_offset_reset="earliest", consumer_timeout_ms=6_000)
    consumer.assign([PythonPartition(topic, 0)])
    found = [message.value for message in consumer]
    consumer.close()
    assert found == [*EXPECTED, b"python"]


def test_a_client_without_retries_sends_the_first_delayed_message_of_a_partition(broker: BrokerProcess) -> None:
    config = {"goqueue.delay.headers": "true"}
    Http(broker.http).post("/topics", {"name": "no-retries", "num_partitions": 4, "config": config})
    producer = Producer({"bootstrap.servers": broker.kafka, "retries": 0, "linger.ms": 0})
    errors: list[Any] = []
    for number in range(40):
        producer.produce(
            "no-retries",
            str(number),
            partition=number % 4,
            headers=[("goqueue-delay-ms", b"600000")] if number % 8 < 4 else None,
            on_delivery=lambda error, _: errors.append(error),
        )
        producer.poll(0)
    assert producer.flush(20) == 0
    assert errors == [None] * 40
    assert len(Http(broker.http).get("/topics/no-retries/delayed?limit=100")["messages"]) == 20


def test_a_header_that_cannot_be_is_refused(broker: BrokerProcess, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.kafka})
    failed: list[Any] = []
    producer.produce(
        topic, "x", headers=[("goqueue-delay-ms", b"soon")], on_delivery=lambda error, _: failed.append(error)
    )
    producer.flush(20)
    assert failed[0] is not None
    assert failed[0].name() == "INVALID_RECORD"


@pytest.mark.slow
def test_what_was_stored_before_a_kill_and_is_sent_again_while_its_shard_is_loading_comes_once(
    start_broker: StartBroker,
) -> None:
    """librdkafka begins a new epoch when some of its batches are refused and later ones are called out of order."""
    broker = start_broker()
    config = {"goqueue.delay.headers": "true"}
    Http(broker.http).post("/topics", {"name": "delayed", "num_partitions": 1, "config": config})
    producer = Producer(
        {
            "bootstrap.servers": broker.kafka,
            "enable.idempotence": True,
            "batch.num.messages": 1,
            "linger.ms": 0,
            "reconnect.backoff.max.ms": 200,
        }
    )
    sent: list[bytes] = []
    failed: list[Any] = []

    def send(count: int) -> None:
        for _ in range(count):
            sent.append(b"%d" % len(sent))
            headers = {"goqueue-delay-ms": b"500"}
            producer.produce(
                "delayed", sent[-1], headers=headers, on_delivery=lambda error, _: error and failed.append(error)
            )
        producer.poll(0)

    send(1)
    assert producer.flush(20) == 0
    (log,) = (broker.data_dir / "logs" / "delayed" / "0").glob("*.log")
    for _ in range(3):
        size = log.stat().st_size
        send(6)
        # Something is written, and most probably not answered yet.
        poll_until(lambda size=size: log.stat().st_size > size, pause_seconds=0)
        broker.kill()
        (index,) = (broker.data_dir / "delay").glob("*.index")
        with closing(locked(index)):
            broker.start()
            send(6)
            poll_until(lambda: refusals(broker) > 5)
        assert producer.flush(30) == 0
    assert failed == []
    consumer = Consumer({"bootstrap.servers": broker.kafka, "group.id": "all", "auto.offset.reset": "earliest"})
    consumer.subscribe(["delayed"])
    found: Counter[bytes] = Counter()
    producer.produce("delayed", b"end", headers={"goqueue-delay-ms": b"1500"})
    deadline = time.monotonic() + 30
    while b"end" not in found and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found[message.value()] += 1
    consumer.close()
    assert found == Counter([*sent, b"end"])


def locked(index: Path) -> sqlite3.Connection:
    """While nobody can write to a shard's index it cannot be loaded."""
    connection = sqlite3.connect(index)
    connection.execute("BEGIN EXCLUSIVE")
    return connection


def refusals(broker: BrokerProcess) -> int:
    """Batches that this life of the broker has refused."""
    lines = Http(broker.http).get("/metrics").decode().splitlines()
    return sum(
        int(float(line.split()[-1])) for line in lines if line.startswith("goqueue_broker_messages_failed_total{")
    )


def poll_until(condition: Callable[[], bool], *, pause_seconds: float = 0.02) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(pause_seconds)

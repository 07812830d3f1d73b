"""Delay by record header from stock Kafka clients, all of which step over a batch that was emptied this way."""

from __future__ import annotations

import time
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
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


def test_a_header_that_cannot_be_is_refused(broker: BrokerProcess, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.kafka})
    failed: list[Any] = []
    producer.produce(
        topic, "x", headers=[("goqueue-delay-ms", b"soon")], on_delivery=lambda error, _: failed.append(error)
    )
    producer.flush(20)
    assert failed[0] is not None
    assert failed[0].name() == "INVALID_RECORD"

"""What Kafka clients say to the queue by record headers: priority and deduplication ids."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer
from tests.e2e.http import Http


@pytest.fixture
def http(broker):
    return Http(broker.http)


def produce(broker, topic, *messages, **config):
    """Send (value, headers) in one batch; returns the offsets that the client was told."""
    told = []
    producer = Producer({"bootstrap.servers": broker.kafka, "linger.ms": 200, "log_level": 0, **config})
    for value, headers in messages:
        producer.produce(
            topic, value, headers=headers, partition=0, on_delivery=lambda e, m: told.append((e, m.offset()))
        )
    assert producer.flush(15) == 0
    assert [error for error, _ in told if error is not None] == []
    return [offset for _, offset in told]


@pytest.mark.parametrize("idempotent", [False, True])
def test_a_repeat_from_a_kafka_client_is_stored_once_and_readers_step_over_it(broker, http, idempotent):
    topic = f"kafka-dedup-{idempotent}".lower()
    http.post("/topics", {"name": topic, "num_partitions": 1, "config": {"goqueue.dedup.window.ms": "60000"}})
    config = {"enable.idempotence": idempotent}
    one, two = {"goqueue-dedup-id": "one"}, {"goqueue-dedup-id": "two"}

    assert produce(broker, topic, ("a", one), ("b", None), **config) == [0, 1]
    assert produce(broker, topic, ("a", one), ("a", one), **config) == [2, 3]
    assert produce(broker, topic, ("a", one), ("c", two), **config) == [4, 5]

    consumer = Consumer(
        {"bootstrap.servers": broker.kafka, "group.id": topic, "auto.offset.reset": "earliest", "log_level": 0}
    )
    consumer.subscribe([topic])
    seen = []
    while len(seen) < 3:
        message = consumer.poll(10)
        assert message is not None
        assert message.error() is None
        seen.append((message.offset(), message.value()))
    consumer.close()
    assert seen == [(0, b"a"), (1, b"b"), (5, b"c")]
    taken = http.post(f"/topics/{topic}/receive", {"wait": "5s"})["messages"]
    assert [(row["offset"], row["value"]) for row in taken] == [(0, "a"), (1, "b"), (5, "c")]
    repeat = http.post(f"/topics/{topic}/messages", {"value": "c", "deduplication_id": "two"})
    assert repeat["results"][0]["offset"] == 5


def test_a_kafka_clients_priority_counts_where_the_topic_says_so(broker, http):
    http.post("/topics", {"name": "kafka-lanes", "num_partitions": 1, "config": {"goqueue.priority.headers": "true"}})
    lanes = ["background", "4", "normal", "high", "critical"]
    produce(broker, "kafka-lanes", *[(one, {"goqueue-priority": one}) for one in lanes])

    taken = http.post("/topics/kafka-lanes/receive", {"wait": "5s"})["messages"]

    assert [row["priority"] for row in taken] == ["critical", "high", "normal", "background", "background"]

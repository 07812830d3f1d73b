"""Large messages, many partitions, topics made again, and waits that end in time."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from tests.e2e.conftest import StartBroker
from tests.e2e.kafka_clients import CLIENTS, Client, Confluent, Sent
from tests.e2e.kafka_raw import FETCH, METADATA, RawClient
from tests.e2e.process import BrokerProcess
from tests.unit.servers.kafka.batches import batch, records_of

MIB = 1024 * 1024


@pytest.mark.parametrize("size", [MIB, 8 * MIB, 15 * MIB])
def test_large_messages_are_kept_whole(broker: BrokerProcess, size: int) -> None:
    topic = f"large-{size}"
    value = bytes(range(256)) * (size // 256)
    producer = Producer({"bootstrap.servers": broker.kafka, "message.max.bytes": 20 * MIB, "log_level": 0})
    for _ in range(3):
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0
    consumer = Consumer(
        {"bootstrap.servers": broker.kafka, "group.id": "large", "receive.message.max.bytes": 60 * MIB, "log_level": 0}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    got = [message.value() for message in consumer.consume(3, 20)]
    consumer.close()
    assert [one == value for one in got] == [True] * 3


def test_a_message_above_the_topics_limit_is_refused_and_others_go_on(broker: BrokerProcess) -> None:
    with RawClient(broker.kafka) as client:
        client.create_topic("limited", max_message_bytes="10000")
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.kafka, "log_level": 0})
    for size in (100, 20_000, 100):
        producer.produce("limited", bytes(size), partition=0, on_delivery=lambda error, _: errors.append(error))
        producer.flush(10)
    assert [error and error.code() for error in errors] == [None, KafkaError.MSG_SIZE_TOO_LARGE, None]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda one: one.name)
def test_a_hundred_partitions_are_written_and_read(broker: BrokerProcess, client: Client) -> None:
    topic = f"hundred-{client.name}"
    with RawClient(broker.kafka) as raw:
        raw.create_topic(topic, partitions=100)
    messages = [Sent(b"%d" % at, partition=at % 100) for at in range(1000)]
    places = client.produce(broker.kafka, topic, messages)
    assert sorted(places) == [(partition, offset) for partition in range(100) for offset in range(10)]
    got = client.consume(broker.kafka, topic, dict.fromkeys(range(100), 0), 1000)
    assert {(one.partition, one.offset): one.value for one in got} == {
        place: one.value for place, one in zip(places, messages, strict=True)
    }


def test_a_topic_that_is_made_again_starts_clean_for_clients_that_knew_the_old_one(start_broker: StartBroker) -> None:
    """The client's metadata names the old topic id until it asks again.

    When it asks while there is no topic, the broker must not create one: librdkafka's producer always asks for that.
    """
    broker = start_broker(GOQUEUE_BROKER_AUTO_CREATE_TOPICS="false")
    producer = Producer(
        {"bootstrap.servers": broker.kafka, "topic.metadata.refresh.interval.ms": 200, "log_level": 0, "acks": "all"}
    )
    with RawClient(broker.kafka) as raw:
        for life in range(3):
            raw.create_topic("again")
            topic_id = raw.call(METADATA, 12, topics=[{"name": "again"}])["topics"][0]["topic_id"]
            for at in range(10):
                producer.produce("again", b"%d/%d" % (life, at), partition=0)
            assert producer.flush(20) == 0
            got = Confluent().consume(broker.kafka, "again", {0: 0}, 10)
            assert [(one.offset, one.value) for one in got] == [(at, b"%d/%d" % (life, at)) for at in range(10)]
            deleted = raw.call(20, 6, topics=[{"name": "again", "topic_id": None}], timeout=5000)
            assert deleted["responses"][0]["topic_id"] == topic_id
            row = raw.fetch("again")
            assert row["error_code"] == 3
            read = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": MIB}
            stale = [{"topic_id": topic_id, "partitions": [read]}]
            reply = raw.call(FETCH, 15, max_bytes=MIB, min_bytes=1, topics=stale)
            assert reply["responses"][0]["partitions"][0]["error_code"] == 100


def test_a_long_poll_ends_as_soon_as_there_is_something(broker: BrokerProcess) -> None:
    with RawClient(broker.kafka) as reader, RawClient(broker.kafka) as writer:
        writer.create_topic("poll", partitions=2)
        delays = []
        for at in range(30):
            reads = [
                {"partition": partition, "fetch_offset": offset, "partition_max_bytes": MIB}
                for partition, offset in ((0, at), (1, 0))
            ]
            topics = [{"topic": "poll", "partitions": reads}]
            waiting = reader.send(FETCH, 12, max_bytes=MIB, min_bytes=1, max_wait=10_000, topics=topics)
            # A second round trip on another connection: by now the fetch waits.
            writer.call(METADATA, 9, topics=[])
            start = time.perf_counter()
            writer.produce("poll", batch(b"x"), acks=1)
            reply = reader.receive(FETCH, 12, waiting)
            delays.append(time.perf_counter() - start)
            assert records_of(reply["responses"][0]["partitions"][0]["records"])
        assert sorted(delays)[15] < 0.05, "half of them within 50 ms, though they asked to wait for 10 s"


@pytest.mark.parametrize("wait_ms", [0, 50, 300])
def test_a_long_poll_waits_no_longer_than_it_was_told(broker: BrokerProcess, wait_ms: int) -> None:
    with RawClient(broker.kafka) as client:
        client.call(METADATA, 9, topics=[{"name": "idle"}], allow_auto_topic_creation=True)
        start = time.perf_counter()
        row = client.fetch("idle", max_wait=wait_ms)
        took_ms = (time.perf_counter() - start) * 1000
        assert row["records"] == b""
        assert wait_ms - 5 <= took_ms < wait_ms + 2000


def test_a_poll_for_many_bytes_waits_until_they_are_there(broker: BrokerProcess) -> None:
    with RawClient(broker.kafka) as reader, RawClient(broker.kafka) as writer:
        writer.create_topic("patient")
        read = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": MIB}
        topics = [{"topic": "patient", "partitions": [read]}]
        waiting = reader.send(FETCH, 12, max_bytes=MIB, min_bytes=5000, max_wait=10_000, topics=topics)
        for _ in range(10):
            writer.produce("patient", batch(bytes(1000)), acks=1)
        reply = reader.receive(FETCH, 12, waiting)
        assert len(reply["responses"][0]["partitions"][0]["records"]) >= 5000

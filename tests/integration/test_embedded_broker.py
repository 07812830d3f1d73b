"""A broker in the test's own process: real ports, real clients, and a time that the test moves."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from confluent_kafka import Consumer, Producer

from goqueue.errors import ConfigError
from goqueue.testing import EmbeddedBroker


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


def consumer_of(broker: EmbeddedBroker, group: str) -> Consumer:
    return Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"})


def read_one(consumer: Consumer) -> bytes:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            return message.value()
    raise AssertionError("nothing came")


def test_it_starts_in_well_under_a_second():
    EmbeddedBroker().close()
    started = time.perf_counter()
    with EmbeddedBroker() as broker:
        seconds = time.perf_counter() - started
        assert urllib.request.urlopen(f"{broker.http_url}/readyz").status == 200

    assert seconds < 0.5


def test_kafka_clients_and_our_own_see_the_same_broker(broker):
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": "all"})
    producer.produce("orders", b"hello", partition=0)
    producer.flush()

    messages, _ = broker.client().read("orders", 0)
    consumer = consumer_of(broker, "readers")
    consumer.subscribe(["orders"])

    assert [message.value for message in messages] == [b"hello"]
    assert read_one(consumer) == b"hello"
    consumer.close()


async def test_it_can_be_awaited(broker):
    async with broker.async_client() as client:
        await client.create_topic("orders", partitions=1)
        async with client.producer() as producer:
            await producer.send_and_wait("orders", b"hello")
        # The broker has a thread of its own, so this may block the test's loop.
        broker.clock.advance(seconds=1)
        messages, _ = await client.read("orders", 0)

    assert [message.value for message in messages] == [b"hello"]


def test_retention_deletes_what_has_grown_old(broker):
    client = broker.client()
    client.create_topic("orders", partitions=1, config={"retention.ms": str(3 * 24 * 3600 * 1000)})
    with client.producer() as producer:
        producer.send_and_wait("orders", b"old")

    broker.clock.advance(days=2, hours=23)
    assert len(client.read("orders", 0)[0]) == 1
    broker.clock.advance(hours=2)
    assert client.read("orders", 0) == ([], 1)


def test_a_member_that_falls_silent_loses_its_place(broker):
    client = broker.client()
    client.create_topic("orders", partitions=1)
    assert post(broker, "/groups/readers/join", b'{"topics": ["orders"]}') == 200
    assert client.group("readers")["state"] == "Stable"

    broker.clock.advance(seconds=29)
    assert client.group("readers")["state"] == "Stable"
    broker.clock.advance(seconds=2)

    assert client.group("readers")["state"] == "Empty"


def test_records_carry_the_time_of_the_manual_clock():
    with EmbeddedBroker(now=datetime(2030, 1, 1, tzinfo=UTC)) as broker:
        client = broker.client()
        client.create_topic("orders", partitions=1)
        with client.producer() as producer:
            delivered = producer.send_and_wait("orders", b"hello")

        messages, _ = client.read("orders", 0)

    assert delivered.offset == 0
    assert datetime.fromtimestamp(messages[0].timestamp_ms / 1000, UTC) == datetime(2030, 1, 1, tzinfo=UTC)


def test_a_restart_keeps_data_ports_and_time(broker):
    with broker.client().producer() as producer:
        producer.send_and_wait("orders", b"hello", partition=0)
    broker.clock.advance(days=1)
    before = (broker.bootstrap_servers, broker.http_url, broker.clock.now)

    broker.restart()

    assert (broker.bootstrap_servers, broker.http_url, broker.clock.now) == before
    assert [message.value for message in broker.client().read("orders", 0)[0]] == [b"hello"]


def test_settings_are_those_of_the_reference_and_wrong_ones_are_refused():
    with EmbeddedBroker(settings={"broker.default_partitions": 7, "broker.auto_create_topics": False}) as broker:
        assert broker.client().create_topic("orders")["partitions"] == 7
    with pytest.raises(ConfigError, match=r"did you mean 'broker\.default_partitions'"):
        EmbeddedBroker(settings={"broker.default_partition": 7}).start()


def test_its_directory_goes_with_it_unless_it_was_given(tmp_path):
    with EmbeddedBroker() as broker:
        own = broker.data_dir
    with EmbeddedBroker(tmp_path / "given") as broker:
        pass

    assert not own.exists()
    assert (tmp_path / "given").exists()


def test_a_broker_that_is_not_there_says_so():
    broker = EmbeddedBroker(manual_clock=False)
    with pytest.raises(RuntimeError, match="not running"):
        _ = broker.http_url
    with pytest.raises(RuntimeError, match="manual_clock=True"):
        _ = broker.clock
    broker.close()


def test_without_the_manual_clock_time_is_the_machines():
    with EmbeddedBroker(manual_clock=False) as broker:
        before_ms = time.time() * 1000
        with broker.client().producer() as producer:
            producer.send_and_wait("orders", b"hello", partition=0)
        (message,), _ = broker.client().read("orders", 0)

    assert before_ms - 1 <= message.timestamp_ms <= time.time() * 1000


def post(broker: EmbeddedBroker, path: str, body: bytes) -> int:
    request = urllib.request.Request(
        broker.http_url + path, data=body, headers={"content-type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request) as reply:
        return reply.status

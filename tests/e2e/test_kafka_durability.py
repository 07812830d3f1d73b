"""What was acknowledged is what can be read: with many producers, over restarts and kill -9."""

from __future__ import annotations

import threading
import time
from collections import Counter

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.e2e.conftest import StartBroker
from tests.e2e.kafka_clients import CLIENTS, Confluent, Sent
from tests.e2e.kafka_raw import RawClient
from tests.e2e.process import BrokerProcess
from tests.unit.servers.kafka.batches import batch, records_of

PARTITIONS = 3
Place = tuple[int, int]


def read_everything(address: str, topic: str) -> dict[Place, bytes | None]:
    """Every record there is, by place, read with raw requests to the very end."""
    found: dict[Place, bytes | None] = {}
    with RawClient(address) as client:
        for partition in range(PARTITIONS):
            offset = 0
            while True:
                row = client.fetch(topic, offset, partition=partition)
                assert row["error_code"] == 0
                records = [one for one in records_of(row["records"]) if one.offset >= offset]
                if not records:
                    assert offset == row["high_watermark"]
                    break
                for one in records:
                    assert (partition, one.offset) not in found
                    found[partition, one.offset] = one.value
                offset = records[-1].offset + 1
    return found


class Writer(threading.Thread):
    """One producer among many; it keeps what was acknowledged."""

    def __init__(self, address: str, topic: str, number: int, count: int, settings: dict[str, object]) -> None:
        super().__init__()
        self.acknowledged: dict[Place, bytes] = {}
        self.failed: list[str] = []
        self._work = (topic, number, count)
        self._producer = Producer({"bootstrap.servers": address, "linger.ms": 1, "log_level": 0, **settings})

    def run(self) -> None:
        topic, number, count = self._work
        for at in range(count):
            self._producer.produce(topic, b"%d/%d" % (number, at), partition=at % PARTITIONS, on_delivery=self._done)
            if at % 50 == 0:
                self._producer.poll(0)
        self._producer.flush(30)

    def _done(self, error: object, message: object) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged[message.partition(), message.offset()] = message.value()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "settings",
    [{"acks": "1"}, {"acks": "all"}, {"acks": "all", "enable.idempotence": True, "compression.type": "lz4"}],
    ids=["leader", "all", "idempotent"],
)
def test_with_eight_producers_at_once_the_acknowledged_set_is_the_readable_set(
    broker: BrokerProcess, settings: dict[str, object], request: pytest.FixtureRequest
) -> None:
    topic = f"many-{request.node.callspec.id}"
    with RawClient(broker.kafka) as client:
        client.create_topic(topic, PARTITIONS)
    writers = [Writer(broker.kafka, topic, number, 2000, settings) for number in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.failed for writer in writers] == [[]] * 8
    acknowledged = [item for writer in writers for item in writer.acknowledged.items()]
    assert len(acknowledged) == 16_000
    found = read_everything(broker.kafka, topic)
    missing = dict(acknowledged).keys() - found.keys()
    assert not missing, f"acknowledged but not readable: {sorted(missing)[:20]}"
    assert found == dict(acknowledged)
    assert max(Counter(found.values()).values()) == 1


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_everything_acknowledged_is_there_after_a_restart(start_broker: StartBroker, how: str) -> None:
    broker = start_broker()
    messages = [Sent(b"%d" % at, key=b"k", headers=(("h", b"v"),), partition=at % 3) for at in range(600)]
    with RawClient(broker.kafka) as client:
        client.create_topic("kept", PARTITIONS, retention_ms="3600000")
    places = Confluent().produce(broker.kafka, "kept", messages, acks="all")
    getattr(broker, how)()
    broker.start()
    for reader in CLIENTS:
        got = reader.consume(broker.kafka, "kept", {0: 0, 1: 0, 2: 0}, 600)
        assert {(one.partition, one.offset): one.value for one in got} == {
            place: one.value for place, one in zip(places, messages, strict=True)
        }, reader.name
    with RawClient(broker.kafka) as client:
        resource = {"resource_type": 2, "resource_name": "kept", "configuration_keys": ["retention.ms"]}
        (result,) = client.call(32, 4, resources=[resource])["results"]
        assert result["configs"][0]["value"] == "3600000"
        assert client.produce("kept", batch(b"next"))["base_offset"] == 200


def test_a_producer_goes_on_by_itself_through_a_kill(start_broker: StartBroker) -> None:
    broker = start_broker()
    with RawClient(broker.kafka) as client:
        client.create_topic("through", PARTITIONS)
    settings = {"acks": "all", "enable.idempotence": True, "reconnect.backoff.max.ms": 200, "retry.backoff.ms": 20}
    writers = [Writer(broker.kafka, "through", number, 4000, dict(settings)) for number in range(3)]
    for writer in writers:
        writer.start()
    deadline = time.monotonic() + 20
    while sum(len(writer.acknowledged) for writer in writers) < 500:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    broker.kill()
    broker.start()
    for writer in writers:
        writer.join()
    assert [writer.failed for writer in writers] == [[]] * 3
    acknowledged = {place: value for writer in writers for place, value in writer.acknowledged.items()}
    assert len(acknowledged) == 12_000
    found = read_everything(broker.kafka, "through")
    assert found == acknowledged, "nothing is lost, nothing is there twice"


def test_the_high_watermark_never_shows_more_than_can_be_read(broker: BrokerProcess) -> None:
    with RawClient(broker.kafka) as client, RawClient(broker.kafka) as reader:
        client.create_topic("watermark")
        for at in range(100):
            assert client.produce("watermark", batch(b"x"), acks=1)["base_offset"] == at
            row = reader.fetch("watermark", at)
            assert row["high_watermark"] == at + 1
            assert records_of(row["records"])[-1].offset == at


def test_a_consumer_goes_on_after_a_kill_in_the_new_leader_epoch(start_broker: StartBroker) -> None:
    broker = start_broker()
    with RawClient(broker.kafka) as client:
        client.create_topic("epochs", 1)
    producer = Producer({"bootstrap.servers": broker.kafka})
    settings = {"bootstrap.servers": broker.kafka, "group.id": "g", "auto.offset.reset": "error"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.assign([TopicPartition("epochs", 0, 0)])
    for value in (b"before", b"after"):
        producer.produce("epochs", value, partition=0)
        assert producer.flush(30) == 0
        deadline = time.monotonic() + 30
        message = None
        while message is None:
            assert time.monotonic() < deadline
            message = consumer.poll(1)
        # Not even a moment of "offset out of range", which would be an error here.
        assert message.error() is None
        assert message.value() == value
        if value == b"before":
            broker.kill()
            broker.start()
    consumer.close()
    with RawClient(broker.kafka) as client:
        asked = [{"name": "epochs", "partitions": [{"partition_index": 0, "timestamp": -1}]}]
        row = client.call(2, 5, replica_id=-1, topics=asked)["topics"][0]["partitions"][0]
        assert (row["offset"], row["leader_epoch"]) == (2, 1)

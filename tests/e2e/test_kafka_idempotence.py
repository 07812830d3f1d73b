"""Idempotent producers, with batches made by hand: each is stored once, or refused as Kafka refuses it.

A new epoch starts again at sequence 0; a retry is told its true offset; an old epoch writes
nothing; sequences wrap, epochs end.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from tests.e2e.conftest import StartBroker
from tests.e2e.kafka_raw import RawClient
from tests.e2e.process import BrokerProcess
from tests.unit.servers.kafka.batches import batch, records_of

OUT_OF_ORDER, DUPLICATE, INVALID_EPOCH, UNKNOWN_PRODUCER = 45, 46, 47, 59
LAST_SEQUENCE = 2**31 - 1
numbers = itertools.count()


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[RawClient]:
    with RawClient(broker.kafka) as one:
        yield one


@pytest.fixture
def topic(client: RawClient) -> str:
    name = f"idempotence-{next(numbers)}"
    client.create_topic(name)
    return name


class Sender:
    """An idempotent producer that says exactly what it is told to."""

    def __init__(self, client: RawClient, topic: str) -> None:
        self.client, self.topic = client, topic
        self.producer_id = client.new_producer_id()

    def send(self, *values: bytes, sequence: int, epoch: int = 0) -> tuple[int, int]:
        """(error code, base offset)."""
        data = batch(*values, producer_id=self.producer_id, producer_epoch=epoch, base_sequence=sequence)
        row = self.client.produce(self.topic, data)
        return row["error_code"], row["base_offset"]

    def stored(self) -> list[bytes | None]:
        return [record.value for record in records_of(self.client.fetch(self.topic)["records"])]


@pytest.fixture
def sender(client: RawClient, topic: str) -> Sender:
    return Sender(client, topic)


def test_a_retried_batch_keeps_its_offset_however_often_it_comes(sender: Sender) -> None:
    assert sender.send(b"a", b"b", sequence=0) == (0, 0)
    assert sender.send(b"c", sequence=2) == (0, 2)
    for _ in range(3):
        assert sender.send(b"a", b"b", sequence=0) == (0, 0)
        assert sender.send(b"c", sequence=2) == (0, 2)
    assert sender.stored() == [b"a", b"b", b"c"]


def test_the_last_five_batches_are_recognised_and_older_ones_refused(sender: Sender) -> None:
    for at in range(7):
        assert sender.send(b"%d" % at, sequence=at) == (0, at)
    for at in range(2, 7):
        assert sender.send(b"%d" % at, sequence=at) == (0, at)
    assert sender.send(b"1", sequence=1)[0] in {DUPLICATE, OUT_OF_ORDER}
    assert len(sender.stored()) == 7


def test_a_gap_is_refused_and_may_be_filled(sender: Sender) -> None:
    sender.send(b"a", sequence=0)
    assert sender.send(b"c", sequence=2) == (OUT_OF_ORDER, -1)
    assert sender.send(b"b", sequence=1) == (0, 1)
    assert sender.send(b"c", sequence=2) == (0, 2)
    assert sender.stored() == [b"a", b"b", b"c"]


def test_a_batch_that_overlaps_an_old_one_is_refused(sender: Sender) -> None:
    sender.send(b"a", b"b", sequence=0)
    assert sender.send(b"b", b"c", sequence=1)[0] in {OUT_OF_ORDER, DUPLICATE}
    assert sender.stored() == [b"a", b"b"]


def test_a_new_epoch_starts_again_and_the_old_one_is_fenced(sender: Sender) -> None:
    sender.send(b"old", sequence=0)
    assert sender.send(b"new", sequence=0, epoch=1) == (0, 1)
    assert sender.send(b"zombie", sequence=1, epoch=0) == (INVALID_EPOCH, -1)
    assert sender.send(b"newer", sequence=1, epoch=1) == (0, 2)
    assert sender.stored() == [b"old", b"new", b"newer"]


def test_a_new_epoch_must_begin_at_zero(sender: Sender) -> None:
    sender.send(b"old", sequence=0)
    assert sender.send(b"new", sequence=5, epoch=1) == (OUT_OF_ORDER, -1)


def test_a_producer_that_the_partition_never_saw_may_begin_anywhere(sender: Sender) -> None:
    # As Kafka since 2.5 (KIP-360): its records may have been deleted, which is no error of its own.
    assert sender.send(b"a", sequence=17) == (0, 0)
    assert sender.send(b"b", sequence=18) == (0, 1)
    assert sender.send(b"c", sequence=20) == (OUT_OF_ORDER, -1)


def test_sequences_wrap_at_the_end_of_their_range(sender: Sender) -> None:
    assert sender.send(b"a", b"b", sequence=LAST_SEQUENCE - 1) == (0, 0)
    assert sender.send(b"c", b"d", sequence=0) == (0, 2)
    assert sender.send(b"a", b"b", sequence=LAST_SEQUENCE - 1) == (0, 0)
    assert sender.send(b"e", sequence=2) == (0, 4)


def test_a_batch_may_wrap_in_its_middle(sender: Sender) -> None:
    assert sender.send(b"a", b"b", b"c", sequence=LAST_SEQUENCE - 1) == (0, 0)
    assert sender.send(b"d", sequence=1) == (0, 3)
    assert sender.send(b"a", b"b", b"c", sequence=LAST_SEQUENCE - 1) == (0, 0)


def test_each_partition_counts_by_itself(client: RawClient) -> None:
    client.create_topic("idempotence-partitions", partitions=2)
    producer_id = client.new_producer_id()
    data = batch(b"x", producer_id=producer_id, producer_epoch=0, base_sequence=0)
    for partition in (0, 1):
        assert client.produce("idempotence-partitions", data, partition=partition)["base_offset"] == 0


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_producers_are_known_after_a_restart(start_broker: StartBroker, how: str) -> None:
    broker = start_broker()
    with RawClient(broker.kafka) as client:
        client.create_topic("t")
        sender = Sender(client, "t")
        for at in range(3):
            assert sender.send(b"%d" % at, sequence=at) == (0, at)
    getattr(broker, how)()
    broker.start()
    with RawClient(broker.kafka) as client:
        sender.client = client
        assert sender.send(b"2", sequence=2) == (0, 2)
        assert sender.send(b"4", sequence=4) == (OUT_OF_ORDER, -1)
        assert sender.send(b"3", sequence=3) == (0, 3)
        assert client.new_producer_id() > sender.producer_id, "an id is never given out twice"
        assert sender.stored() == [b"0", b"1", b"2", b"3"]


def test_five_batches_under_way_arrive_in_order_and_once(client: RawClient, sender: Sender) -> None:
    """What a client with max.in.flight=5 does, all of it sent twice."""
    for _ in range(2):
        waiting = []
        for at in range(5):
            data = batch(b"%d" % at, producer_id=sender.producer_id, producer_epoch=0, base_sequence=at)
            fields = {"name": sender.topic, "partition_data": [{"index": 0, "records": data}]}
            waiting.append(client.send(0, 9, acks=-1, timeout=5000, topic_data=[fields]))
        offsets = [
            client.receive(0, 9, one)["responses"][0]["partition_responses"][0]["base_offset"] for one in waiting
        ]
        assert offsets == [0, 1, 2, 3, 4]
    assert sender.stored() == [b"0", b"1", b"2", b"3", b"4"]


def test_a_stock_idempotent_producer_works(broker: BrokerProcess, topic: str, client: RawClient) -> None:
    producer = Producer({"bootstrap.servers": broker.kafka, "enable.idempotence": True, "log_level": 0})
    for at in range(5000):
        producer.produce(topic, b"%d" % at, partition=0)
    assert producer.flush(20) == 0
    assert [one.value for one in records_of(client.fetch(topic)["records"])] == [b"%d" % at for at in range(5000)]
    reply = client.call(61, 0, topics=[{"name": topic, "partition_indexes": [0]}])
    (known,) = reply["topics"][0]["partitions"][0]["active_producers"]
    assert known["last_sequence"] == 4999

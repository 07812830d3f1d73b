"""Every day's work with three clients: what goes in comes out, whoever reads it."""

from __future__ import annotations

import itertools
import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.e2e.kafka_clients import CLIENTS, Client, Confluent, Sent
from tests.e2e.kafka_raw import RawClient
from tests.e2e.process import BrokerProcess

NAMES = [client.name for client in CLIENTS]
numbers = itertools.count()
MESSAGES = [
    Sent(b"plain", key=b"key"),
    Sent(b"", key=b""),
    Sent(b"without a key"),
    Sent(None, key=b"tombstone"),
    Sent(None),
    Sent("żółw 🐢".encode(), key=bytes(range(256))),
    Sent(b"headers", headers=(("a", b"1"), ("a", b"2"), ("empty", b""), ("ü", bytes(300)))),
    Sent(b"a header of nothing", headers=(("null", None),)),
    Sent(b"old", timestamp_ms=1_500_000_000_000),
    Sent(b"x" * 50_000),
]


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    name = f"messages-{next(numbers)}"
    with RawClient(broker.kafka) as client:
        client.create_topic(name, partitions=3)
    return name


@pytest.mark.parametrize("writer", CLIENTS, ids=NAMES)
def test_every_kind_of_message_is_read_back_by_all_clients(broker: BrokerProcess, topic: str, writer: Client) -> None:
    messages = [one for one in MESSAGES if writer.can_send(one)]
    places = writer.produce(broker.kafka, topic, messages)
    assert places == [(0, at) for at in range(len(messages))]
    for reader in CLIENTS:
        got = reader.consume(broker.kafka, topic, {0: 0}, len(messages))
        assert [(one.key, one.value) for one in got] == [(one.key, one.value) for one in messages], reader.name
        assert [one.headers for one in got] == [one.headers for one in messages], reader.name
        assert [one.offset for one in got] == list(range(len(messages))), reader.name
        assert got[-2].timestamp_ms == 1_500_000_000_000, reader.name
        assert abs(got[0].timestamp_ms - time.time() * 1000) < 60_000, reader.name


@pytest.mark.parametrize(
    ("writer", "compression"),
    [(client, one) for client in CLIENTS for one in client.compressions],
    ids=lambda one: getattr(one, "name", one),
)
def test_every_compression_is_read_back(broker: BrokerProcess, topic: str, writer: Client, compression: str) -> None:
    messages = [Sent(b"%d " % at * 100, key=b"k") for at in range(200)]
    writer.produce(broker.kafka, topic, messages, compression=compression)
    for reader in (Confluent(), CLIENTS[1]):
        got = reader.consume(broker.kafka, topic, {0: 0}, len(messages))
        assert [one.value for one in got] == [one.value for one in messages], reader.name


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_librdkafka_really_compresses(broker: BrokerProcess, topic: str, compression: str) -> None:
    """KAFKA-18659: it falls back to plain batches if it misreads what we advertise."""
    Confluent().produce(broker.kafka, topic, [Sent(b"a" * 100)] * 1000, compression=compression)
    with RawClient(broker.kafka) as client:
        row = client.fetch(topic)
        attributes = int.from_bytes(row["records"][21:23], "big")
        assert attributes & 7 == {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}[compression]
        assert len(row["records"]) < 20_000


@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.parametrize("writer", CLIENTS, ids=NAMES)
def test_every_level_of_acks_stores_everything(broker: BrokerProcess, topic: str, writer: Client, acks: str) -> None:
    messages = [Sent(b"%d" % at, partition=at % 3) for at in range(300)]
    places = writer.produce(broker.kafka, topic, messages, acks=acks)
    if acks != "0":
        assert places == [(at % 3, at // 3) for at in range(300)]
    got = Confluent().consume(broker.kafka, topic, {0: 0, 1: 0, 2: 0}, 300)
    assert {(one.partition, one.offset, one.value) for one in got} == {
        (at % 3, at // 3, b"%d" % at) for at in range(300)
    }


@pytest.mark.parametrize("reader", CLIENTS, ids=NAMES)
def test_reading_begins_at_any_offset(broker: BrokerProcess, topic: str, reader: Client) -> None:
    Confluent().produce(broker.kafka, topic, [Sent(b"%d" % at) for at in range(100)])
    for start in (0, 1, 50, 99):
        got = reader.consume(broker.kafka, topic, {0: start}, 100 - start)
        assert [one.offset for one in got] == list(range(start, 100))


def test_reading_begins_at_any_time_and_at_both_ends(broker: BrokerProcess, topic: str) -> None:
    base = 1_700_000_000_000
    Confluent().produce(broker.kafka, topic, [Sent(b"x", timestamp_ms=base + 1000 * at) for at in range(10)])
    consumer = Consumer({"bootstrap.servers": broker.kafka, "group.id": "times"})
    times = [base - 5, base, base + 1, base + 5000, base + 9000, base + 9001]
    found = [consumer.offsets_for_times([TopicPartition(topic, 0, at)], timeout=5)[0].offset for at in times]
    # librdkafka turns "no record is that young" into the end.
    assert found == [0, 0, 1, 5, 9, -1]
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=5) == (0, 10)
    consumer.close()


def test_a_consumer_seeks_pauses_and_resumes(broker: BrokerProcess, topic: str) -> None:
    Confluent().produce(broker.kafka, topic, [Sent(b"%d" % at, partition=at % 2) for at in range(20)])
    consumer = Consumer({"bootstrap.servers": broker.kafka, "group.id": "seek", "log_level": 0})
    first, second = TopicPartition(topic, 0, 0), TopicPartition(topic, 1, 0)
    consumer.assign([first, second])
    assert len(_take(consumer, 20)) == 20
    consumer.seek(TopicPartition(topic, 0, 7))
    assert [(one[0], one[1]) for one in _take(consumer, 3)] == [(0, 7), (0, 8), (0, 9)]
    consumer.pause([first])
    Confluent().produce(broker.kafka, topic, [Sent(b"more", partition=at) for at in (0, 1)])
    assert [(one[0], one[1]) for one in _take(consumer, 1)] == [(1, 10)]
    consumer.resume([first])
    assert [(one[0], one[1]) for one in _take(consumer, 1)] == [(0, 10)]
    consumer.close()


def test_a_reader_whose_records_are_gone_starts_where_it_was_told_to(broker: BrokerProcess, topic: str) -> None:
    Confluent().produce(broker.kafka, topic, [Sent(b"%d" % at) for at in range(10)])
    with RawClient(broker.kafka) as client:
        partitions = [{"partition_index": 0, "offset": 6}]
        client.call(21, 2, topics=[{"name": topic, "partitions": partitions}], timeout=5000)
    reset = {"bootstrap.servers": broker.kafka, "group.id": "gone", "auto.offset.reset": "earliest", "log_level": 0}
    consumer = Consumer(reset)
    consumer.assign([TopicPartition(topic, 0, 2)])
    assert [one[1] for one in _take(consumer, 4)] == [6, 7, 8, 9]
    consumer.close()


def test_a_message_for_which_the_reader_waits_arrives_at_once(broker: BrokerProcess, topic: str) -> None:
    consumer = Consumer(
        {"bootstrap.servers": broker.kafka, "group.id": "wait", "fetch.wait.max.ms": 5000, "log_level": 0}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    producer = Producer({"bootstrap.servers": broker.kafka, "linger.ms": 0, "log_level": 0})
    producer.produce(topic, b"warm up", partition=0)
    producer.flush(5)
    _take(consumer, 1)
    delays = []
    for _ in range(20):
        start = time.perf_counter()
        producer.produce(topic, b"x", partition=0)
        producer.poll(0)
        _take(consumer, 1)
        delays.append(time.perf_counter() - start)
        producer.flush(5)
    consumer.close()
    assert sorted(delays)[10] < 0.05, "half of them within 50 ms, though the reader asked to wait for 5 s"


def _take(consumer: Consumer, count: int) -> list[tuple[int, int, bytes]]:
    """(partition, offset, value) of the next messages; fails if they do not come."""
    got: list[tuple[int, int, bytes]] = []
    deadline = time.monotonic() + 15
    while len(got) < count:
        assert time.monotonic() < deadline, f"{len(got)} of {count} came"
        message = consumer.poll(0.2)
        if message is not None:
            assert message.error() is None, message.error()
            got.append((message.partition(), message.offset(), message.value()))
    return got


def test_a_producer_hears_which_of_its_records_was_the_reason(broker: BrokerProcess) -> None:
    with RawClient(broker.kafka) as client:
        client.create_topic("keyed", cleanup_policy="compact")
    outcomes: dict[bytes, str] = {}
    producer = Producer({"bootstrap.servers": broker.kafka, "linger.ms": 500})
    for at in range(6):
        producer.produce(
            "keyed",
            b"%d" % at,
            # librdkafka tells records apart only where more than one is named.
            key=None if at in {1, 4} else b"k",
            on_delivery=lambda error, message: outcomes.update({message.value(): error.name()}),
        )
    producer.flush()
    innocent = dict.fromkeys([b"0", b"2", b"3", b"5"], "_INVALID_DIFFERENT_RECORD")
    assert outcomes == {b"1": "INVALID_RECORD", b"4": "INVALID_RECORD", **innocent}

"""The blocking client of the Kafka port: raw batches in, closed batches out, and clear words when it fails."""

from __future__ import annotations

import socket
import threading
import time
from itertools import count

import pytest

from goqueue.client.wire import KafkaUnreachable, SecurityUnsupported, WireClient
from goqueue.client.wire.fetcher import Gone, fetch_range
from goqueue.client.wire.offsets import (
    EARLIEST,
    LATEST,
    commit_offsets,
    committed_offsets,
    list_offsets,
    log_directories,
)
from goqueue.client.wire.producer import BatchProducer, new_identity
from goqueue.codec.batch import split_batches
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import encode_batch
from goqueue.errors import InvalidRequest, OffsetOutOfRange, TopicNotFound
from goqueue.records import Isolation, NewRecord, TopicPartition

from .kafka_raw import RawClient

_numbers = count(1)


@pytest.fixture
def place(broker) -> TopicPartition:
    name = f"wire-{next(_numbers)}"
    with RawClient(broker.kafka) as raw:
        raw.create_topic(name)
    return TopicPartition(name, 0)


@pytest.fixture
def client(broker):
    with WireClient(broker.kafka) as client:
        yield client


def send(client: WireClient, place: TopicPartition, batches: list[list[bytes]]) -> BatchProducer:
    producer = BatchProducer(client, new_identity(client))
    for values in batches:
        identity = producer.identity
        batch = encode_batch(
            [NewRecord(None, value) for value in values],
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=producer.next_sequence(place),
            now_ms=1_000,
        )
        producer.send(place, [batch], len(values))
    return producer


def values_of(client: WireClient, place: TopicPartition, start: int, end: int, **more) -> list[bytes | None]:
    return [
        record.value
        for fetched in fetch_range(client, place, start, end, **more)
        for batch in split_batches(fetched.data)
        for record in decode_records(batch)
        if start <= record.offset < end
    ]


def test_batches_that_were_sent_are_read_back_in_order(client, place):
    batches = [[f"{number}-{one}".encode() for one in range(7)] for number in range(40)]

    stored = send(client, place, batches).flush()

    assert sum(one.count for one in stored) == 280
    assert list_offsets(client, {place: LATEST}) == {place: 280}
    assert values_of(client, place, 0, 280) == [value for batch in batches for value in batch]
    assert values_of(client, place, 10, 20) == [value for batch in batches for value in batch][10:20]


def test_questions_may_be_asked_while_batches_are_on_their_way(client, place):
    producer = BatchProducer(client, new_identity(client))
    for number in range(3):
        batch = encode_batch(
            [NewRecord(None, b"%d" % number)],
            producer_id=producer.identity.producer_id,
            producer_epoch=producer.identity.producer_epoch,
            base_sequence=producer.next_sequence(place),
            now_ms=1_000,
        )
        producer.send(place, [batch], 1)
        assert place.topic in client.topics()

    assert [one.base_offset for one in producer.flush()] == [0, 1, 2]


def test_small_answers_come_one_after_the_other(client, place):
    send(client, place, [[bytes([number]) * 3000] for number in range(50)]).flush()

    answers = list(fetch_range(client, place, 0, 50, answer_bytes=10_000))

    assert len(answers) > 10
    assert values_of(client, place, 0, 50, answer_bytes=10_000) == [bytes([number]) * 3000 for number in range(50)]


def test_a_reader_that_stops_early_leaves_nothing_running(client, place):
    send(client, place, [[bytes(3000)] for _ in range(50)]).flush()
    before = threading.active_count()

    next(fetch_range(client, place, 0, 50, answer_bytes=10_000)).data.release()

    assert threading.active_count() == before


def test_offsets_that_are_gone_are_told_or_refused(client, place, broker):
    send(client, place, [[b"a"], [b"b"], [b"c"]]).flush()
    with RawClient(broker.kafka) as raw:
        part = {"partition_index": 0, "offset": 2}
        raw.call(21, 2, topics=[{"name": place.topic, "partitions": [part]}], timeout=1000)
    told: list[Gone] = []

    assert values_of(client, place, 0, 3, on_gone=told.append) == [b"c"]
    assert told == [Gone(0, 2)]
    assert list_offsets(client, {place: EARLIEST}) == {place: 2}
    with pytest.raises(OffsetOutOfRange, match="offset 0 is outside the log, which holds 2"):
        values_of(client, place, 0, 3)


def test_committed_readers_stop_before_an_open_transaction(client, place, broker):
    from confluent_kafka import Producer

    send(client, place, [[b"plain"]]).flush()
    producer = Producer({"bootstrap.servers": broker.kafka, "transactional.id": place.topic, "log_level": 0})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(place.topic, b"open", partition=0)
    producer.flush(10)

    assert list_offsets(client, {place: LATEST}, isolation=Isolation.READ_COMMITTED) == {place: 1}
    assert list_offsets(client, {place: LATEST}) == {place: 2}
    producer.abort_transaction(10)
    # The marker may come after the first answer: then there is a second.
    answers = list(fetch_range(client, place, 0, 3, isolation=Isolation.READ_COMMITTED))
    assert {first for fetched in answers for _, first in fetched.aborted} == {1}


def test_a_group_without_members_has_offsets(client, place):
    group = f"group-of-{place.topic}"
    assert committed_offsets(client, group, [place]) == {}

    commit_offsets(client, group, {place: 7}, note="batch 3")

    assert committed_offsets(client, group, [place]) == {place: 7}


def test_the_broker_tells_where_a_partition_lies(client, place, broker):
    send(client, place, [[bytes(5000)]]).flush()

    found = log_directories(client, [place])[place]

    assert found.size_bytes > 5000
    assert str(broker.data_dir) in found.directory


def test_what_was_in_flight_when_the_broker_died_is_stored_once(start_broker):
    broker = start_broker()
    place = TopicPartition("survivor", 0)
    with WireClient(broker.kafka) as client:
        client.create_topic(place.topic, 1)
        producer = send(client, place, [[b"before"]])
        producer.flush()
        broker.kill()
        again = threading.Thread(target=broker.start)
        again.start()
        for number in range(20):
            identity = producer.identity
            batch = encode_batch(
                [NewRecord(None, b"%d" % number)],
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
                base_sequence=producer.next_sequence(place),
                now_ms=1_000,
            )
            producer.send(place, [batch], 1)
        producer.flush()
        again.join()

        assert values_of(client, place, 0, 21) == [b"before", *(b"%d" % number for number in range(20))]


def test_a_broker_that_dies_amid_many_large_batches_stores_each_once_and_in_order(start_broker):
    broker = start_broker()
    places = [TopicPartition("survivors", partition) for partition in range(3)]
    wanted = {place: [b"%d" % number + bytes(300_000) for number in range(12)] for place in places}
    with WireClient(broker.kafka) as client:
        client.create_topic("survivors", len(places))
        producer = BatchProducer(client, new_identity(client))
        for number in range(12):
            if number == 6:
                broker.kill()
                again = threading.Thread(target=broker.start)
                again.start()
            for place in places:
                batch = encode_batch(
                    [NewRecord(None, wanted[place][number])],
                    producer_id=producer.identity.producer_id,
                    producer_epoch=producer.identity.producer_epoch,
                    base_sequence=producer.next_sequence(place),
                    now_ms=1_000,
                )
                producer.send(place, [batch[:61], batch[61:]], 1)
        stored = producer.flush()
        again.join()

        assert sorted(one.place for one in stored) == sorted(places * 12)
        assert {place: values_of(client, place, 0, 12) for place in places} == wanted
        assert list_offsets(client, dict.fromkeys(places, LATEST)) == dict.fromkeys(places, 12)


def test_an_address_where_nobody_listens_is_told_in_one_line():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        started = time.monotonic()
        with WireClient(address, connect_s=0.2) as client, pytest.raises(KafkaUnreachable) as told:
            client.topics()

    assert str(told.value) == f"no answer from {address}: Connection refused"
    assert "Kafka port" in told.value.hint
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("servers", ["", "localhost", "localhost:", ":9092", "host:port", "host:99999"])
def test_an_address_that_is_none_is_refused(servers):
    with pytest.raises(InvalidRequest) as told:
        WireClient(servers)
    assert told.value.field == "bootstrap.servers"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"security.protocol": "QUIC"}, "security.protocol=QUIC is not one of"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism=GSSAPI is not one of"),
        ({"sasl.mechanism": "PLAIN"}, "sasl.mechanism has no effect with security.protocol=PLAINTEXT"),
        ({"ssl.truststore.location": "x.pem"}, "ssl.truststore.location has no effect"),
        ({"security.protocol": "SASL_SSL", "sasl.kerberos.service.name": "k"}, "sasl.kerberos.service.name is not"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, "PLAIN needs a user and a password"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "a.jks"}, "run keytool -importkeystore"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "OAUTHBEARER needs"),
    ],
)
def test_security_that_it_cannot_give_is_refused_by_name(options, problem):
    with pytest.raises(SecurityUnsupported, match=problem):
        WireClient("127.0.0.1:9092", security=options)


def test_a_topic_that_is_not_there_is_not_made(client):
    with pytest.raises(TopicNotFound, match="'nowhere'"):
        client.topic("nowhere")
    assert client.topics(["nowhere"]) == {}

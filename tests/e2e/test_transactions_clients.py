"""Stock transactional producers: what is committed is seen, what is aborted or open never is."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from confluent_kafka import KafkaException
from tests.e2e.conftest import StartBroker
from tests.e2e.kafka_raw import RawClient
from tests.e2e.process import BrokerProcess
from tests.e2e.transactional_clients import (
    PRODUCERS,
    ConfluentTransactional,
    Transactional,
    committed_offsets,
    read_aiokafka,
    read_confluent,
    read_kafka_python,
    wait_for,
)

from goqueue.records import TopicPartition

NO_OFFSET = -1001
by_client = pytest.mark.parametrize("connect", PRODUCERS, ids=lambda one: one.__name__)
Connect = Callable[..., Transactional]


def topic(broker: BrokerProcess, name: str, partitions: int = 3) -> list[TopicPartition]:
    with RawClient(broker.kafka) as raw:
        raw.create_topic(name, partitions)
    return [TopicPartition(name, partition) for partition in range(partitions)]


@by_client
def test_a_commit_shows_all_and_an_abort_nothing_over_partitions_and_topics(
    broker: BrokerProcess, connect: Connect
) -> None:
    name = connect.__name__
    places = [*topic(broker, f"{name}-one"), *topic(broker, f"{name}-two", 2)]
    producer = connect(broker.kafka, name)
    for number, commit in enumerate([True, False, True, False]):
        producer.begin()
        for place in places:
            producer.send(place, [b"%d-%d" % (number, at) for at in range(3)])
        producer.commit() if commit else producer.abort()
    expected = [b"%d-%d" % (number, at) for number in (0, 2) for at in range(3)]
    for place in places:
        wait_for(lambda place=place: read_confluent(broker.kafka, place), expected)
        assert read_aiokafka(broker.kafka, place, 6) == expected
        assert read_kafka_python(broker.kafka, place, 6) == expected
        assert len(read_confluent(broker.kafka, place, committed=False)) == 12
    producer.close()


@by_client
def test_committed_readers_stop_before_an_open_transaction_and_go_on_behind_it(
    broker: BrokerProcess, connect: Connect
) -> None:
    (place,) = topic(broker, f"{connect.__name__}-open", 1)
    producer = connect(broker.kafka, f"{connect.__name__}-open")
    other = ConfluentTransactional(broker.kafka, f"{connect.__name__}-other")
    producer.begin()
    producer.send(place, [b"open"])
    other.begin()
    other.send(place, [b"behind it"])
    other.commit()
    assert read_confluent(broker.kafka, place) == []
    assert read_confluent(broker.kafka, place, committed=False) == [b"open", b"behind it"]
    producer.abort()
    wait_for(lambda: read_confluent(broker.kafka, place), [b"behind it"])
    producer.close()


@by_client
def test_offsets_count_with_the_commit_and_not_with_an_abort(broker: BrokerProcess, connect: Connect) -> None:
    places = topic(broker, f"{connect.__name__}-offsets", 2)
    group = f"{connect.__name__}-group"
    producer = connect(broker.kafka, f"{connect.__name__}-offsets")
    producer.begin()
    producer.send(places[0], [b"x"])
    producer.send_offsets(group, {places[0]: 5, places[1]: 6})
    assert committed_offsets(broker.kafka, group, places) == [NO_OFFSET, NO_OFFSET]
    producer.abort()
    producer.begin()
    producer.send_offsets(group, {places[0]: 7})
    producer.commit()
    wait_for(lambda: committed_offsets(broker.kafka, group, places), [7, NO_OFFSET])
    producer.close()


@by_client
def test_a_zombie_is_fenced_and_what_it_left_open_is_aborted(broker: BrokerProcess, connect: Connect) -> None:
    (place,) = topic(broker, f"{connect.__name__}-zombie", 1)
    name = f"{connect.__name__}-zombie"
    zombie = connect(broker.kafka, name)
    zombie.begin()
    zombie.send(place, [b"zombie"])
    successor = connect(broker.kafka, name)
    with pytest.raises(Exception, match=r"(?i)fenced|epoch|fatal"):
        zombie.commit()
    with suppress(Exception):
        zombie.close()
    successor.begin()
    successor.send(place, [b"successor"])
    successor.commit()
    wait_for(lambda: read_confluent(broker.kafka, place), [b"successor"])
    successor.close()


def test_a_transaction_that_takes_too_long_is_aborted(broker: BrokerProcess) -> None:
    (place,) = topic(broker, "slow", 1)
    producer = ConfluentTransactional(broker.kafka, "slow", **{"transaction.timeout.ms": 1000})
    producer.begin()
    producer.send(place, [b"too slow"])
    with RawClient(broker.kafka) as raw:
        wait_for(lambda: raw.fetch("slow", isolation_level=1)["last_stable_offset"], 2)
    with pytest.raises(KafkaException):
        producer.commit()
    assert read_confluent(broker.kafka, place) == []


def test_consume_transform_produce_is_exactly_once_through_aborts(broker: BrokerProcess) -> None:
    (source,) = topic(broker, "source", 1)
    (target,) = topic(broker, "target", 1)
    values = [b"%d" % number for number in range(30)]
    feeder = ConfluentTransactional(broker.kafka, "feeder")
    feeder.begin()
    feeder.send(source, values)
    feeder.commit()
    wait_for(lambda: read_confluent(broker.kafka, source), values)
    for attempt in range(12):
        worker = ConfluentTransactional(broker.kafka, "worker")
        (position,) = committed_offsets(broker.kafka, "workers", [source])
        at = max(position, 0)
        worker.begin()
        worker.send(target, [b"did " + value for value in values[at : at + 5]])
        worker.send_offsets("workers", {source: min(at + 5, len(values))})
        if attempt % 3 == 0:
            worker.abort()
        elif attempt % 3 == 1:
            worker.commit()
            wait_for(lambda at=at: committed_offsets(broker.kafka, "workers", [source])[0], min(at + 5, len(values)))
        # Else it dies: the next one of the same id takes over.
        if at + 5 >= len(values) and attempt % 3 == 1:
            break
    expected = [b"did " + value for value in read_values(broker, source)][: position_of(broker, source)]
    wait_for(lambda: read_confluent(broker.kafka, target), expected)
    assert len(expected) >= 20


def read_values(broker: BrokerProcess, place: TopicPartition) -> list[bytes]:
    return read_confluent(broker.kafka, place)


def position_of(broker: BrokerProcess, place: TopicPartition) -> int:
    return committed_offsets(broker.kafka, "workers", [place])[0]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_what_was_open_decided_or_aborted_is_so_after_a_restart(start_broker: StartBroker, end: str) -> None:
    """Aborted records stay hidden, open ones too, and committed ones are shown."""
    broker = start_broker()
    (place,) = topic(broker, "survivor", 1)
    for name, commit in (("committed", True), ("aborted", False)):
        one = ConfluentTransactional(broker.kafka, name)
        one.begin()
        one.send(place, [name.encode()])
        one.send_offsets(name, {place: 1})
        one.commit() if commit else one.abort()
    open_one: Any = ConfluentTransactional(broker.kafka, "open", **{"transaction.timeout.ms": 60_000})
    open_one.begin()
    open_one.send(place, [b"open"])
    open_one.send_offsets("open", {place: 1})
    broker.kill() if end == "kill" else broker.stop()
    broker.start()
    wait_for(lambda: read_confluent(broker.kafka, place), [b"committed"])
    wait_for(lambda: committed_offsets(broker.kafka, "committed", [place]), [1])
    assert committed_offsets(broker.kafka, "aborted", [place]) == [NO_OFFSET]
    assert committed_offsets(broker.kafka, "open", [place]) == [NO_OFFSET]
    open_one.send(place, [b"and on"])
    open_one.commit()
    wait_for(lambda: read_confluent(broker.kafka, place), [b"committed", b"open", b"and on"])
    wait_for(lambda: committed_offsets(broker.kafka, "open", [place]), [1])


def test_kill_9_during_transactions_leaves_each_wholly_visible_or_wholly_hidden(start_broker: StartBroker) -> None:
    broker = start_broker()
    places = [*topic(broker, "kill-a", 2), *topic(broker, "kill-b", 2)]
    promised: dict[bytes, bool | None] = {}
    for life in range(6):
        producer = ConfluentTransactional(broker.kafka, "killed", **{"reconnect.backoff.max.ms": 100})
        for number in range(8):
            value, commit = b"%d-%d" % (life, number), number % 3 != 2
            producer.begin()
            for place in places:
                producer.send(place, [value])
            if number == 7:
                break  # left open, or killed somewhere around its end
            promised[value] = None
            producer.commit() if commit else producer.abort()
            promised[value] = commit
        if life % 2:
            promised[value] = None
            # The request is on its way when the broker dies.
            with RawClient(broker.kafka) as raw:
                described = raw.call(65, 0, transactional_ids=["killed"])["transaction_states"][0]
                raw.send(
                    26,
                    3,
                    transactional_id="killed",
                    producer_id=described["producer_id"],
                    producer_epoch=described["producer_epoch"],
                    committed=True,
                )
                time.sleep(0.001 * life)
                broker.kill()
        else:
            promised[value] = False
            broker.kill()
        broker.start()
        producer.close()
    final = ConfluentTransactional(broker.kafka, "killed")
    final.begin()
    for place in places:
        final.send(place, [b"final"])
    final.commit()
    promised[b"final"] = True
    wait_for(lambda: all(read_confluent(broker.kafka, place)[-1:] == [b"final"] for place in places), True)
    seen = [set(read_confluent(broker.kafka, place)) for place in places]
    assert all(one == seen[0] for one in seen), "a transaction is visible in some partitions only"
    for value, commit in promised.items():
        if commit is not None:
            assert (value in seen[0]) is commit, value

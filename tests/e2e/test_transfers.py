"""The transfer workload: many producers, aborts, a broker that is killed again and again; the sum never changes."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from tests.e2e.conftest import StartBroker
from tests.e2e.kafka_raw import RawClient
from tests.e2e.process import BrokerProcess
from tests.e2e.transactional_clients import ConfluentTransactional, read_confluent, wait_for
from tests.e2e.transfers import (
    ACCOUNTS,
    PARTITIONS,
    PLACES,
    TOPICS,
    Entry,
    History,
    Outcome,
    changed,
    place_of,
    problems,
)

from goqueue.client import ClientError, TransactionUnknown, sync
from goqueue.client.retry import RetryPolicy
from goqueue.records import TopicPartition

END = b"end"
# What a writer may meet while the broker is away; it begins again then.
TROUBLE = (KafkaException, AssertionError, ClientError, OSError)


class Workload:
    """Writers and readers of one broker, until it is told to stop."""

    def __init__(self, broker: BrokerProcess, seed: int) -> None:
        self.broker = broker
        self.seed = seed
        self.history = History()
        self.stopping = threading.Event()
        self.found: list[str] = []
        self.views = 0
        self.last: dict[TopicPartition, list[Entry]] = {place: [] for place in PLACES}
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        writers: list[Callable[[str, random.Random], None]] = [self.by_kafka] * 3 + [self.by_http]
        for number, work in enumerate(writers):
            name = f"teller-{number}"
            self._run(lambda work=work, name=name: self.write(work, name))  # type: ignore[misc]
        self._run(self.read)

    def stop(self) -> None:
        self.stopping.set()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive(), "a writer hangs"

    def _run(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, daemon=True)
        thread.start()
        self._threads.append(thread)

    # --- writers ----------------------------------------------------------------------

    def write(self, work: Callable[[str, random.Random], None], name: str) -> None:
        chance = random.Random(f"{self.seed} {name}")
        life = 0
        while not self.stopping.is_set():
            life += 1
            with suppress(*TROUBLE):
                work(f"{name}/{life}", chance)

    def by_kafka(self, name: str, chance: random.Random) -> None:
        producer = ConfluentTransactional(
            self.broker.kafka, name.split("/", maxsplit=1)[0], **{"reconnect.backoff.max.ms": 100, "linger.ms": 0}
        )
        try:
            for number, entries in self.transfers(name, chance):
                producer.begin()
                for entry in entries:
                    producer.send(place_of(entry.account), [entry.encode()])
                if chance.random() < 0.25:
                    producer.abort()
                    continue
                self.history.note(number, Outcome.UNKNOWN)
                producer.commit()
                self.history.note(number, Outcome.COMMITTED)
        finally:
            producer.close()

    def by_http(self, name: str, chance: random.Random) -> None:
        with sync.connect(f"http://{self.broker.http}", retry=RetryPolicy(attempts_max=8)) as client:
            producer = client.producer(transactional_id=name.split("/", maxsplit=1)[0])
            for number, entries in self.transfers(name, chance):
                fails = chance.random() < 0.25
                try:
                    with producer.transaction() as transaction:
                        for entry in entries:
                            place = place_of(entry.account)
                            transaction.send(place.topic, entry.encode(), partition=place.partition)
                        if fails:
                            producer.flush()
                            raise LookupError
                        self.history.note(number, Outcome.UNKNOWN)
                except LookupError:
                    continue
                except TransactionUnknown:
                    raise
                except ClientError:
                    # Said to be aborted, or fenced before it could be committed.
                    self.history.note(number, Outcome.ABORTED)
                    raise
                self.history.note(number, Outcome.COMMITTED)

    def transfers(self, name: str, chance: random.Random) -> Any:
        number = 0
        while not self.stopping.is_set():
            number += 1
            payer, payee = chance.sample(range(ACCOUNTS), 2)
            key = f"{name}/{number}"
            yield key, self.history.begin(key, payer, payee, chance.randrange(1, 100))

    # --- readers ----------------------------------------------------------------------

    def read(self) -> None:
        while not self.stopping.is_set():
            for place in PLACES:
                with suppress(AssertionError):
                    now = self.view(place)
                    self.found += changed(self.last[place], now, place)
                    self.last[place] = now
                    self.views += 1

    def view(self, place: TopicPartition) -> list[Entry]:
        return [Entry.decode(value) for value in read_confluent(self.broker.kafka, place) if value != END]

    def final_view(self) -> dict[TopicPartition, list[Entry]]:
        """What is seen when everything has ended: each writer's successor ends what it left open."""
        for number in range(4):
            ConfluentTransactional(self.broker.kafka, f"teller-{number}").close()
        plain = Producer({"bootstrap.servers": self.broker.kafka})
        for place in PLACES:
            plain.produce(place.topic, END, partition=place.partition)
        assert plain.flush(20) == 0
        for place in PLACES:
            wait_for(lambda place=place: read_confluent(self.broker.kafka, place)[-1:], [END])
        return {place: self.view(place) for place in PLACES}


def run(broker: BrokerProcess, seed: int, *, seconds: float, kills: int, at_least: Mapping[Outcome, int]) -> Workload:
    """Kills spread over so many seconds, and then on until each outcome was seen often enough to mean something."""
    with RawClient(broker.kafka) as raw:
        for number in range(TOPICS):
            raw.create_topic(f"accounts-{number}", PARTITIONS)
    workload = Workload(broker, seed)
    workload.start()
    chance = random.Random(seed)
    for _ in range(kills):
        workload.stopping.wait(seconds / (kills + 1) * (0.5 + chance.random()))
        broker.kill()
        broker.start()
    done = workload.history.count(Outcome.COMMITTED)
    wait_for(lambda: workload.history.count(Outcome.COMMITTED) > done, True)
    wait_for(lambda: [one for one, times in at_least.items() if workload.history.count(one) < times], [])
    workload.stop()
    final = workload.final_view()
    workload.found += [one for place in PLACES for one in changed(workload.last[place], final[place], place)]
    workload.found += problems(workload.history.transfers, final)
    return workload


@pytest.mark.timeout(180)
def test_transfers_leave_the_sum_as_it_is_through_aborts_and_kill_9(start_broker: StartBroker) -> None:
    workload = run(start_broker(), 1, seconds=6, kills=2, at_least={Outcome.COMMITTED: 20, Outcome.ABORTED: 5})
    assert workload.found == []
    assert any(workload.last.values()), "nothing was read while it was written"


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(3))
def test_transfers_leave_the_sum_as_it_is_for_long(start_broker: StartBroker, seed: int) -> None:
    started = time.monotonic()
    workload = run(start_broker(), seed, seconds=240, kills=40, at_least={Outcome.COMMITTED: 1000, Outcome.ABORTED: 5})
    assert workload.found == []
    assert time.monotonic() - started > 60

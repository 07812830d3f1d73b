"""Tellers that move money in transactions, over Kafka and over HTTP, and a reader who looks on meanwhile."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from confluent_kafka import KafkaException, Producer
from tests.e2e.transactional_clients import ConfluentTransactional, read_confluent, wait_for
from tests.e2e.transfers import ACCOUNTS, PLACES, Entry, History, Outcome, changed, place_of, problems

from goqueue.client import ClientError, TransactionUnknown, sync
from goqueue.client.retry import RetryPolicy
from goqueue.records import TopicPartition

END = b"end"
# What a writer may meet while the broker is away; it begins again then.
TROUBLE = (KafkaException, AssertionError, ClientError, OSError)


class Addresses(Protocol):
    """Of one broker, or of a cluster."""

    @property
    def kafka(self) -> str: ...

    @property
    def http(self) -> str: ...


class TransferLoad:
    """Writers and a reader of one broker or cluster, until they are told to stop."""

    def __init__(
        self, broker: Addresses, seed: int, *, by_kafka: int = 3, by_http: int = 1, read_pause_seconds: float = 0.0
    ) -> None:
        self.broker = broker
        self.seed = seed
        self._read_pause = read_pause_seconds
        self._writers: Sequence[Callable[[str, random.Random], None]] = [
            *[self.by_kafka] * by_kafka,
            *[self.by_http] * by_http,
        ]
        self.history = History()
        self.stopping = threading.Event()
        self.found: list[str] = []
        self.views = 0
        self.last: dict[TopicPartition, list[Entry]] = {place: [] for place in PLACES}
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        for number, work in enumerate(self._writers):
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
            self.stopping.wait(self._read_pause)

    def view(self, place: TopicPartition) -> list[Entry]:
        return [Entry.decode(value) for value in read_confluent(self.broker.kafka, place) if value != END]

    def final_view(self) -> dict[TopicPartition, list[Entry]]:
        """What is seen when everything has ended: each writer's successor ends what it left open."""
        for number in range(len(self._writers)):
            ConfluentTransactional(self.broker.kafka, f"teller-{number}").close()
        plain = Producer({"bootstrap.servers": self.broker.kafka})
        for place in PLACES:
            plain.produce(place.topic, END, partition=place.partition)
        assert plain.flush(20) == 0
        for place in PLACES:
            wait_for(lambda place=place: read_confluent(self.broker.kafka, place)[-1:], [END])
        return {place: self.view(place) for place in PLACES}

    def judge(self) -> None:
        """Compare what is seen in the end with the history; what is wrong is added to `found`."""
        final = self.final_view()
        self.found += [one for place in PLACES for one in changed(self.last[place], final[place], place)]
        self.found += problems(self.history.transfers, final)

    def check(self) -> None:
        """All of it is right."""
        self.judge()
        assert not self.found, f"transfers: {self.found[:5]}"

    def figures(self) -> str:
        """For the report."""
        ended = ", ".join(f"{self.history.count(one)} {one.value}" for one in Outcome)
        return f"transfers: {ended}; {self.views} views of partitions while they were written"

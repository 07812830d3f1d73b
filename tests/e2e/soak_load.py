"""Mixed load at a low rate, for as long as a soak lasts: Kafka, transactions, a queue over HTTP, delay, connections.

Topics keep a few megabytes, so that what is read, deleted and compacted stays the same from minute to minute: what
then still grows in the broker is a leak.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, Producer
from tests.e2e.http import Http
from tests.e2e.process import BrokerProcess

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SECONDS_MAX = 20.0
_TOPIC = {"segment.bytes": "262144", "retention.bytes": "1048576"}
# A consumer leaves its group after so many rounds and another joins, as deployments do.
_ROUNDS_PER_MEMBER = 60

Round = Callable[[int], None]


@contextmanager
def mixed_load(broker: BrokerProcess, *, pause_seconds: float = 0.2) -> Iterator[Load]:
    """Run every kind of load in a thread of its own until the block is left."""
    http = Http(broker.http)
    for topic, partitions in (("stream", 4), ("ledger", 2), ("jobs", 2), ("later", 2)):
        http.post("/topics", {"name": topic, "num_partitions": partitions, "config": _TOPIC})
    load = Load(pause_seconds)
    for make in (_stream, _transactions, _queue, _delay):
        load.start(make(broker))
    try:
        yield load
    finally:
        load.stop()


class Load:
    """Threads that repeat their rounds. The first exception of any of them is kept and raised."""

    def __init__(self, pause_seconds: float) -> None:
        self.rounds = 0
        self._pause_seconds = pause_seconds
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._failure: BaseException | None = None

    def start(self, one: Round) -> None:
        """Repeat these rounds."""
        thread = threading.Thread(target=self._run, args=(one,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def check(self) -> None:
        """Raise what a thread ended with."""
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """End every thread after its round."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(2 * SECONDS_MAX)

    def _run(self, one: Round) -> None:
        try:
            for number in itertools.count():
                if self._stopping.wait(self._pause_seconds):
                    return
                one(number)
                self.rounds += 1
        except BaseException as failure:  # noqa: BLE001 - it is raised in the thread of the test
            self._failure = self._failure or failure


def _stream(broker: BrokerProcess) -> Round:
    """Batches in every codec, read by a group whose members come and go."""
    producers = [
        Producer({"bootstrap.servers": broker.kafka, "compression.type": codec, "linger.ms": 5, "log_level": 0})
        for codec in CODECS
    ]
    members: list[Consumer] = []

    def round_(number: int) -> None:
        producer = producers[number % len(producers)]
        for at in range(20):
            producer.produce("stream", b"%d-%d" % (number, at) + bytes(200), key=b"%d" % (at % 7))
        assert producer.flush(SECONDS_MAX) == 0
        if number % _ROUNDS_PER_MEMBER == 0:
            for member in members:
                member.close()
            members[:] = [_member(broker)]
        members[0].consume(100, timeout=0.05)

    return round_


def _member(broker: BrokerProcess) -> Consumer:
    settings = {"bootstrap.servers": broker.kafka, "group.id": "readers", "auto.offset.reset": "earliest"}
    member = Consumer({**settings, "auto.commit.interval.ms": 1000, "log_level": 0})
    member.subscribe(["stream"])
    return member


def _transactions(broker: BrokerProcess) -> Round:
    """Transactions of one producer, every third of which is aborted."""
    producer = Producer({"bootstrap.servers": broker.kafka, "transactional.id": "soak", "log_level": 0})
    producer.init_transactions(SECONDS_MAX)

    def round_(number: int) -> None:
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce("ledger", b"%d" % number + bytes(100), partition=partition)
        if number % 3 == 2:
            producer.abort_transaction(SECONDS_MAX)
        else:
            producer.commit_transaction(SECONDS_MAX)

    return round_


def _queue(broker: BrokerProcess) -> Round:
    """Messages with priorities, most of which are acknowledged and some rejected until they are dead letters."""
    http = Http(broker.http)

    def round_(number: int) -> None:
        priority = ("low", "normal", "high")[number % 3]
        messages = [{"value": f"{number}-{at}", "priority": priority} for at in range(5)]
        http.post("/topics/jobs/messages", {"messages": messages})
        taken = http.post("/topics/jobs/receive", {"group": "workers", "limit": 10})["messages"]
        failed = [one["receipt_handle"] for one in taken if one["offset"] % 11 == 0]
        done = [one["receipt_handle"] for one in taken if one["offset"] % 11]
        if done:
            http.post("/messages/ack", {"receipts": done})
        if failed:
            http.post("/messages/nack", {"receipts": failed, "delay": "100ms"})
        if number % 50 == 0:
            http.get("/metrics")
            http.get("/topics/jobs")

    return round_


def _delay(broker: BrokerProcess) -> Round:
    """Messages that are due soon; some are cancelled before."""
    http = Http(broker.http)

    def round_(number: int) -> None:
        delay = f"{500 + number % 7 * 300}ms"
        http.post("/topics/later/messages", {"messages": [{"value": f"{number}-{at}", "delay": delay} for at in "ab"]})
        if number % 5 == 0:
            reply = http.post("/topics/later/messages", {"value": f"{number}-never", "delay": "1h"})
            held = reply["results"][0]
            http.delete(f"/topics/later/delayed/{held['slot']}")

    return round_


def wait(seconds: float, load: Load) -> None:
    """Let the load go on, and fail as soon as it does."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        load.check()
        time.sleep(min(left, 0.5))
    load.check()

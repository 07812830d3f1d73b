"""One load of share consumers: a topic, its messages, and consumers of one group that take all of them."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from confluent_kafka import AcknowledgeType, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

SECONDS_MAX = 300.0
_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class ShareLoad:
    """What the consumers do with what they are given. `release_every` 20: every twentieth is released the first time.

    `commit_every` 1 commits after each message; 0 leaves the answers of a poll to the next poll.
    """

    messages: int
    size: int = 100
    partitions: int = 2
    consumers: int = 8
    explicit: bool = False
    commit_every: int = 0
    release_every: int = 0
    with_producer: bool = False
    codec: str = "none"
    poll_records: int = 500

    def of(self, messages: int) -> ShareLoad:
        """The same load with so many messages."""
        return replace(self, messages=messages)


@dataclass(frozen=True, slots=True)
class ShareResult:
    """How long it took from the first message until every message was accepted, and what came more than once."""

    seconds: float
    delivered: int
    accepted: int
    commits: int


def run_share_load(address: str, name: str, load: ShareLoad) -> ShareResult:
    """Make topic and group, write the messages, and let the consumers take all of them."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    admin.create_topics([NewTopic(name, load.partitions, 1)])[name].result()
    earliest = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    group = ConfigResource(ResourceType.GROUP, name, incremental_configs=[earliest])
    for done in admin.incremental_alter_configs([group]).values():
        done.result()
    writer = threading.Thread(target=_produce, args=(address, name, load))
    taking = _Taking(address, name, load)
    if not load.with_producer:
        writer.start()
        writer.join()
        return taking.run()
    writer.start()
    try:
        return taking.run()
    finally:
        writer.join()


def _produce(address: str, topic: str, load: ShareLoad) -> None:
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5, "compression.type": load.codec, "log_level": 0})
    for number in range(load.messages):
        while True:
            try:
                producer.produce(topic, b"%0*d" % (load.size, number), partition=number % load.partitions)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 1000 == 0:
            producer.poll(0)
    if producer.flush(SECONDS_MAX):
        raise RuntimeError(f"{topic}: not all messages were written")


class _Taking:
    """Consumers in threads: the client's own work does not hold the interpreter's lock."""

    def __init__(self, address: str, name: str, load: ShareLoad) -> None:
        self._address, self._name, self._load = address, name, load
        self._lock = threading.Lock()
        self._seen: Counter[int] = Counter()
        self._accepted: set[int] = set()
        self._commits = 0
        self._ended = threading.Event()
        self._began_at = self._ended_at = 0.0
        self._problems: list[BaseException] = []

    def run(self) -> ShareResult:
        """All consumers, until every message was accepted."""
        threads = [threading.Thread(target=self._guarded) for _ in range(self._load.consumers)]
        for one in threads:
            one.start()
        finished = self._ended.wait(SECONDS_MAX)
        self._ended_at = self._ended_at or time.perf_counter()
        self._ended.set()
        for one in threads:
            one.join()
        if self._problems:
            raise self._problems[0]
        if not finished:
            raise RuntimeError(f"{len(self._accepted)} of {self._load.messages} messages in {SECONDS_MAX:.0f} s")
        return ShareResult(self._ended_at - self._began_at, self._seen.total(), len(self._accepted), self._commits)

    def _guarded(self) -> None:
        try:
            self._consume()
        except BaseException as error:  # noqa: BLE001 - told by the thread that waits
            self._problems.append(error)
            self._ended.set()

    def _consume(self) -> None:
        load = self._load
        settings: dict[str, Any] = {
            "bootstrap.servers": self._address,
            "group.id": self._name,
            "max.poll.records": load.poll_records,
            "log_level": 0,
        }
        if load.explicit:
            settings["share.acknowledgement.mode"] = "explicit"
        consumer = ShareConsumer(settings)
        consumer.subscribe([self._name])
        try:
            while not self._ended.is_set():
                self._answer(consumer, [one for one in consumer.poll(_POLL_SECONDS) if one.error() is None])
        finally:
            consumer.close()

    def _answer(self, consumer: ShareConsumer, messages: list[Any]) -> None:
        load, accepted, commits, waiting = self._load, [], 0, 0
        for one in messages:
            number = int(one.value())
            released = self._first_time(number) and load.release_every and number % load.release_every == 0
            if not released:
                accepted.append(number)
            if load.explicit:
                consumer.acknowledge(one, AcknowledgeType.RELEASE if released else AcknowledgeType.ACCEPT)
            waiting += 1
            if load.commit_every and waiting == load.commit_every:
                consumer.commit_sync(30)
                commits, waiting = commits + 1, 0
        with self._lock:
            self._accepted.update(accepted)
            self._commits += commits
            if len(self._accepted) == load.messages and not self._ended_at:
                self._ended_at = time.perf_counter()
                self._ended.set()

    def _first_time(self, number: int) -> bool:
        with self._lock:
            self._began_at = self._began_at or time.perf_counter()
            self._seen[number] += 1
            return self._seen[number] == 1

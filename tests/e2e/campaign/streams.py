"""Kafka producers of every codec, and a consumer group that commits."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from tests.e2e.campaign.ledger import Body, Fate, Ledger
from tests.e2e.campaign.load import SECONDS_MAX, Campaign, Load

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ORDERS, LEADER, SHARED, INPUTS = "orders", "leader", "shared", "inputs"
# Few enough for any disk, and enough for every partition to have requests under way at each kill.
ON_THEIR_WAY_MAX = 500

Headers = Callable[[Body], dict[str, str]]


class Writer:
    """One stock producer; what is not acknowledged when the broker dies is sent again by the client itself."""

    def __init__(
        self, ledger: Ledger, topic: str, settings: dict[str, Any], *, copies: int = 1, headers: Headers | None = None
    ) -> None:
        self._ledger = ledger
        self._topic = topic
        self._copies = copies
        self._headers = headers
        self._producer = Producer(settings)
        self.errors: list[str] = []

    def send(self, load: Load, count: int) -> None:
        for _ in range(min(count, ON_THEIR_WAY_MAX - len(self._producer))):
            body = self._ledger.begin()
            value = body.encode(load.chance)
            more: dict[str, Any] = {"headers": self._headers(body)} if self._headers is not None else {}
            for _ in range(self._copies):
                self._producer.produce(
                    self._topic, value, body.key, on_delivery=lambda e, m, i=body.id: self._delivered(e, m, i), **more
                )
        self._producer.poll(0)

    def finish(self) -> None:
        """Wait until every record is answered."""
        if left := self._producer.flush(SECONDS_MAX):
            self.errors.append(f"{left} records of {self._ledger.kind} had no answer in the end")

    def _delivered(self, error: KafkaError | None, _message: Message, name: str) -> None:
        if error is None:
            self._ledger.note(name, Fate.ACKNOWLEDGED)
        else:
            self.errors.append(f"{name}: {error}")


class KafkaWriters(Load):
    """Idempotent producers with acks=all, one for each codec; one with acks=1; and those that feed other loads."""

    def __init__(self, campaign: Campaign, delay: Headers, deduplication: Headers) -> None:
        super().__init__(campaign, "kafka-writers")
        safe = self.settings(acks="all", enable_idempotence=True, linger_ms=2, batch_num_messages=50)
        self._writers = [
            Writer(campaign.ledger(f"orders-{codec}"), ORDERS, {**safe, "compression.type": codec}) for codec in CODECS
        ]
        # One request at a time, since there is nothing else to keep the order of what is sent again.
        plain = self.settings(acks=1, linger_ms=2, max_in_flight=1, batch_num_messages=50)
        self._writers.append(Writer(campaign.ledger("leader"), LEADER, plain))
        self._writers.append(Writer(campaign.ledger("shared"), SHARED, {**safe, "compression.type": "lz4"}))
        self._writers.append(Writer(campaign.ledger("inputs"), INPUTS, {**safe, "compression.type": "zstd"}))
        self._writers.append(Writer(campaign.ledger("delayed-kafka"), "delayed", safe, headers=delay))
        packed = {**safe, "compression.type": "gzip"}
        self._writers.append(
            Writer(campaign.ledger("dedup-kafka"), "dedup", packed, copies=2, headers=deduplication),
        )

    def work(self) -> None:
        while not self.is_ended:
            for number, writer in enumerate(self._writers):
                writer.send(self, self.chance.randrange(1, 12 if number <= len(CODECS) else 4))
            self.pause(0.02)

    def run(self) -> None:
        super().run()
        for writer in self._writers:
            writer.finish()
            self.campaign.problems += writer.errors


class StreamMember(Load):
    """A member of a consumer group: reads, commits, and remembers both."""

    def __init__(self, campaign: Campaign, number: int, seen: StreamLedger) -> None:
        super().__init__(campaign, f"stream-member-{number}", consumes=True)
        self._seen = seen

    def work(self) -> None:
        consumer = Consumer(
            self.settings(
                group_id="readers",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=6000,
                isolation_level="read_committed",
            )
        )
        consumer.subscribe([ORDERS, "delayed"], on_assign=self._assigned)
        try:
            while not self.is_ended:
                found = [one for one in consumer.consume(200, 0.2) if one.error() is None]
                if not found:
                    continue
                self._seen.note(found)
                try:
                    done = consumer.commit(asynchronous=False)
                except KafkaException:
                    # The broker is away, or the group is being rebalanced: what was read is read again.
                    self.campaign.counts["commits of offsets that failed"] += 1
                else:
                    self._seen.note_commit(done or [])
        finally:
            consumer.close()

    def _assigned(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        before = self._seen.committed.copy()
        try:
            rows = consumer.committed(places, 5.0)
        except KafkaException:
            return
        for row in rows:
            if row.error is None and row.offset < before.get((row.topic, row.partition), -1001):
                self.campaign.problems.append(
                    f"{row.topic}-{row.partition}: the group committed {before[row.topic, row.partition]} "
                    f"and is told {row.offset}"
                )


class StreamLedger:
    """What the members of the group saw, and the offsets whose commit was confirmed."""

    def __init__(self, due_ms: dict[str, int]) -> None:
        self.seen: Counter[str] = Counter()
        self.committed: dict[tuple[str, int], int] = {}
        self.early: list[str] = []
        self._due_ms = due_ms
        self._lock = threading.Lock()

    def note(self, messages: list[Message]) -> None:
        now_ms = time.time() * 1000
        with self._lock:
            for message in messages:
                name = Body.decode(message.value()).id
                self.seen[name] += 1
                if name in self._due_ms and now_ms < self._due_ms[name]:
                    self.early.append(name)

    def note_commit(self, rows: list[TopicPartition]) -> None:
        with self._lock:
            for row in rows:
                # A partition of which nothing was read yet has no offset.
                if row.error is None and row.offset >= 0:
                    place = row.topic, row.partition
                    self.committed[place] = max(row.offset, self.committed.get(place, 0))

    def unseen(self, ledgers: list[Ledger]) -> list[str]:
        """Acknowledged messages that no member has read."""
        with self._lock:
            return [name for one in ledgers for name in one.with_fate(Fate.ACKNOWLEDGED) if name not in self.seen]

"""How long partitions take no write when a leader fails or stops, as a producer with acks=all sees it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, Producer
from tests.bench.peers.common import Wrong

PAUSE_SECONDS = 0.002
WARM_UP = 200
SECONDS_MAX = 120.0
# A frozen or isolated node closes no connection: without these the client itself waits for a minute before it looks
# for another leader, and that would be all that is measured.
IMPATIENT = {
    "socket.timeout.ms": 2_000,
    "request.timeout.ms": 2_000,
    "socket.connection.setup.timeout.ms": 2_000,
    "topic.metadata.refresh.interval.ms": 500,
    "reconnect.backoff.max.ms": 500,
}


class Sending:
    """An idempotent producer with acks=all that sends numbers, round after round over the partitions."""

    def __init__(self, address: str, topic: str, partitions: int, settings: Mapping[str, object] | None = None) -> None:
        self.producer = Producer(
            {
                "bootstrap.servers": address,
                "acks": "all",
                "enable.idempotence": True,
                "message.timeout.ms": int(SECONDS_MAX * 2000),
                "linger.ms": 1,
                "log_level": 0,
                **(settings or {}),
            }
        )
        self._topic = topic
        self._partitions = partitions
        self.sent = 0
        # Number of the message, its partition, and when it was acknowledged.
        self.acknowledged: list[tuple[int, int, float]] = []
        self.failures: list[str] = []

    def send(self, pause_seconds: float = PAUSE_SECONDS) -> None:
        """One message more."""
        number, partition = self.sent, self.sent % self._partitions

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is None:
                self.acknowledged.append((number, partition, time.monotonic()))
            else:
                self.failures.append(str(error))

        self.producer.produce(self._topic, str(number).encode(), partition=partition, on_delivery=delivered)
        self.sent += 1
        self.producer.poll(pause_seconds)

    def finish(self) -> None:
        """Wait for all that is under way; every message must have been acknowledged."""
        self.producer.flush(SECONDS_MAX)
        if self.failures or len(self.acknowledged) != self.sent:
            left = self.sent - len(self.acknowledged)
            raise Wrong(f"{left} messages of {self._topic} were not acknowledged: {self.failures[:1]}")


def seconds_without_writes(address: str, topic: str, fail: Callable[[int], None]) -> float:
    """Let the leader of partition 0 fail, and wait until a message that was handed over later is acknowledged."""
    sending = Sending(address, topic, 1, IMPATIENT)
    deadline = time.monotonic() + SECONDS_MAX
    while len(sending.acknowledged) < WARM_UP and time.monotonic() < deadline:
        sending.send()
    leader = sending.producer.list_topics(topic, timeout=10).topics[topic].partitions[0].leader
    first_after = sending.sent
    failed = time.monotonic()
    deadline = failed + SECONDS_MAX
    fail(leader)
    while not (sending.acknowledged and sending.acknowledged[-1][0] >= first_after):
        if sending.failures or time.monotonic() > deadline:
            raise Wrong(f"no write of {topic} was acknowledged after node {leader} failed: {sending.failures[:1]}")
        sending.send()
    ended = next(at for number, _, at in sending.acknowledged if number >= first_after)
    sending.finish()
    return ended - failed


def seconds_until_all_write(address: str, topic: str, partitions: int, fail: Callable[[int], None]) -> float:
    """Let node 1 fail, and wait until every partition has acknowledged a message that was handed over later."""
    sending = Sending(address, topic, partitions)
    # Every partition has been written before, so that all connections and epochs are there.
    for _ in range(2 * partitions):
        sending.send(0)
    sending.finish()
    leaders = [one.leader for one in sending.producer.list_topics(topic, timeout=30).topics[topic].partitions.values()]
    if 1 not in leaders:
        raise Wrong("node 1 leads nothing")
    first_after = sending.sent
    failed = time.monotonic()
    fail(1)
    for _ in range(partitions):
        sending.send(0)
    sending.finish()
    return max(at for number, _, at in sending.acknowledged if number >= first_after) - failed


class Restarts(NamedTuple):
    """What a producer and a consumer noticed of clean restarts."""

    # The longest time in which a partition acknowledged nothing, once for each restart.
    pauses: list[float]
    errors: list[str]
    missing: int


def restarts(address: str, topic: str, partitions: int, count: int, restart: Callable[[int], None]) -> Restarts:
    """Restart one node after the other while a producer writes and a group reads."""
    sending = Sending(address, topic, partitions)
    errors: list[str] = []
    seen: set[tuple[int, int]] = set()
    is_over = False

    def read() -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": f"reads-{topic}",
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        consumer.subscribe([topic])
        quiet_since = time.monotonic()
        while not is_over or (len(seen) < sending.sent and time.monotonic() - quiet_since < SECONDS_MAX):
            message = consumer.poll(0.2)
            if message is None:
                continue
            if (error := message.error()) is not None:
                errors.append(f"consumer: {error}")
                continue
            quiet_since = time.monotonic()
            seen.add((message.partition() or 0, message.offset() or 0))
        consumer.close()

    pauses = []
    with ThreadPoolExecutor(2) as pool:
        reading = pool.submit(read)
        try:
            while len(sending.acknowledged) < WARM_UP:
                sending.send()
            for number in range(count):
                # A few from before, so that a pause is seen from its beginning.
                before = max(0, len(sending.acknowledged) - 4 * partitions)
                restarting = pool.submit(restart, number % 3 + 1)
                while not restarting.done():
                    sending.send()
                restarting.result()
                pauses.append(_longest_pause(sending.acknowledged[before:], partitions))
            sending.producer.flush(SECONDS_MAX)
        finally:
            is_over = True
        reading.result()
    errors += [f"producer: {one}" for one in sending.failures]
    return Restarts(pauses, errors, len(sending.acknowledged) - len(seen))


def _longest_pause(acknowledged: list[tuple[int, int, float]], partitions: int) -> float:
    longest = 0.0
    for partition in range(partitions):
        times = [at for _, one, at in acknowledged if one == partition]
        longest = max(longest, max((later - at for at, later in pairwise(times)), default=0.0))
    return longest

"""What runs while nodes fail, and what must be true of it afterwards.

A producer's messages carry the number of their partition and a count within it. What was acknowledged must be there,
what is there must have been sent, and counts must not go back within a partition.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, defaultdict
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from goqueue.client import connect
from goqueue.client.errors import SettleFailed

PARTITIONS = 6
# The status of a receipt whose lease has ended.
EXPIRED = 410
# From here on a status says nothing about what was done.
UNKNOWN_MIN = 500


class StreamLoad:
    """An idempotent producer with acks=all, in a thread of its own."""

    def __init__(self, servers: str, topic: str, *, pause_seconds: float = 0.002) -> None:
        self._topic = topic
        self._pause = pause_seconds
        self._servers = servers
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "acks": "all",
                "enable.idempotence": True,
                "message.timeout.ms": 120_000,
                "linger.ms": 5,
            }
        )
        self.sent: Counter[int] = Counter()
        self.acknowledged: dict[int, set[int]] = defaultdict(set)
        self.failed: list[str] = []
        self.longest_gap_seconds = 0.0
        self._last = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._last = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """Send no more, and wait for what is under way."""
        self._stop.set()
        self._thread.join()
        left = self._producer.flush(120)
        assert left == 0, f"{left} messages were neither acknowledged nor refused"

    def check(self) -> None:
        """Read everything back and compare."""
        assert not self.failed, self.failed[:5]
        found = self._read()
        for partition, counts in found.items():
            assert counts == sorted(counts), f"partition {partition} is out of order"
            assert len(counts) == len(set(counts)), f"partition {partition} has a message twice"
            assert set(counts) <= set(range(self.sent[partition])), f"partition {partition} has what nobody sent"
            lost = self.acknowledged[partition] - set(counts)
            assert not lost, f"partition {partition} lost {len(lost)} acknowledged messages: {sorted(lost)[:5]}"

    def _run(self) -> None:
        while not self._stop.is_set():
            for partition in range(PARTITIONS):
                count = self.sent[partition]
                try:
                    self._producer.produce(
                        self._topic,
                        str(count).encode(),
                        partition=partition,
                        on_delivery=lambda error, _, at=(partition, count): self._delivered(error, at),
                    )
                except BufferError:
                    break
                self.sent[partition] += 1
            self._producer.poll(self._pause)
            time.sleep(self._pause)

    def _delivered(self, error: KafkaError | None, at: tuple[int, int]) -> None:
        if error is not None:
            self.failed.append(str(error))
            return
        now = time.monotonic()
        self.longest_gap_seconds = max(self.longest_gap_seconds, now - self._last)
        self._last = now
        self.acknowledged[at[0]].add(at[1])

    def _read(self) -> dict[int, list[int]]:
        settings = {"bootstrap.servers": self._servers, "group.id": "checker", "enable.auto.commit": False}
        consumer = Consumer({**settings, "isolation.level": "read_committed"})
        found: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
        ends = {
            partition: consumer.get_watermark_offsets(TopicPartition(self._topic, partition), timeout=30)[1]
            for partition in range(PARTITIONS)
        }
        consumer.assign([TopicPartition(self._topic, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
        deadline = time.monotonic() + 120
        while any(len(found[partition]) < end for partition, end in ends.items()) and time.monotonic() < deadline:
            for message in consumer.consume(1000, 1.0):
                if message.error() is None:
                    found[message.partition()].append(int(message.value()))
        consumer.close()
        return found


class QueueLoad:
    """The Python client with several addresses: publishes to a queue, and acknowledges what it receives."""

    def __init__(self, urls: str, topic: str) -> None:
        self._urls = urls
        self._topic = topic
        self.published: set[str] = set()
        self.received: Counter[str] = Counter()
        self.failed: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, seconds: float = 60.0) -> None:
        """Publish no more; what was published is received within this time."""
        self._stop.set()
        self._thread.join(seconds + 60)
        assert not self._thread.is_alive(), "the queue's client does not end"

    def check(self) -> None:
        """All that was acknowledged to the publisher was received at least once."""
        assert not self.failed, self.failed[:5]
        lost = self.published - self.received.keys()
        assert not lost, f"{len(lost)} messages of the queue are lost: {sorted(lost)[:5]}"

    async def _run(self) -> None:
        async with connect(self._urls) as publishing, connect(self._urls) as receiving:
            consuming = asyncio.create_task(self._receive(receiving))
            async with publishing.producer(acks="all") as producer:
                number = 0
                while not self._stop.is_set():
                    text = f"q{number}"
                    number += 1
                    try:
                        await producer.send_and_wait(self._topic, text)
                    except Exception as problem:  # noqa: BLE001 - whatever reaches the application is a failure
                        self.failed.append(f"{type(problem).__name__}: {problem}")
                        continue
                    self.published.add(text)
                    await asyncio.sleep(0.01)
            deadline = asyncio.get_running_loop().time() + 60
            while self.published - self.received.keys() and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            consuming.cancel()
            (ended,) = await asyncio.gather(consuming, return_exceptions=True)
            if not isinstance(ended, asyncio.CancelledError):
                self.failed.append(f"the receiver ended with {type(ended).__name__}: {ended}")

    async def _receive(self, client: Any) -> None:
        async with client.queue(self._topic, group="workers") as queue:
            async for message in queue:
                self.received[message.text] += 1
                try:
                    await queue.ack(message)
                except SettleFailed as refusal:
                    # A lease is written by its leader alone and may be lost with it: the message is delivered again.
                    # So it is if the ack did not arrive, because nobody leads before the session of a dead node ends.
                    if refusal.status != EXPIRED and refusal.status < UNKNOWN_MIN:
                        raise

"""What runs while nodes fail, and what must be true of it afterwards: a stream of messages, and a queue."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from typing import Any

from confluent_kafka import KafkaError, Producer
from tests.e2e.cluster.loads.numbered import PARTITIONS, NumberedMessages

from goqueue.client import connect
from goqueue.client.errors import SettleFailed

# The status of a receipt whose lease has ended.
EXPIRED = 410
# From here on a status says nothing about what was done.
UNKNOWN_MIN = 500
# A load that has fallen behind sends so many messages to a partition at once.
_BURST_MAX = 500


class StreamLoad(NumberedMessages):
    """An idempotent producer with acks=all, in a thread of its own."""

    def __init__(self, servers: str, topic: str, *, pause_seconds: float = 0.002, per_second: float = 0) -> None:
        """With `per_second`, as many messages are sent as are due by then; else one to each partition at a time."""
        super().__init__(servers, topic)
        self._pause = pause_seconds
        self._per_second = per_second
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "acks": "all",
                "enable.idempotence": True,
                "message.timeout.ms": 120_000,
                "linger.ms": 5,
            }
        )
        self.longest_gap_seconds = 0.0
        self._last = self._began = time.monotonic()
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

    def figures(self) -> str:
        """For the report."""
        return f"confluent-kafka: {self.acknowledged_count} acknowledged, longest gap {self.longest_gap_seconds:.1f} s"

    def _run(self) -> None:
        self._began = time.monotonic()
        while not self._stop.is_set():
            for partition in range(PARTITIONS):
                if not self._send(partition):
                    break
            self._producer.poll(self._pause)
            time.sleep(self._pause)

    def _send(self, partition: int) -> bool:
        """Whether the client took all of them."""
        first, behind = self.sent[partition], self.sent[partition] + 1
        if self._per_second:
            due = int((time.monotonic() - self._began) * self._per_second / PARTITIONS)
            behind = min(due, first + _BURST_MAX)
        for count in range(first, behind):
            try:
                self._producer.produce(
                    self._topic,
                    str(count).encode(),
                    partition=partition,
                    on_delivery=lambda error, _, at=(partition, count): self._delivered(error, at),
                )
            except BufferError:
                return False
            self.sent[partition] += 1
        return True

    def _delivered(self, error: KafkaError | None, at: tuple[int, int]) -> None:
        if error is not None:
            self.failed.append(str(error))
            return
        now = time.monotonic()
        self.longest_gap_seconds = max(self.longest_gap_seconds, now - self._last)
        self._last = now
        self.acknowledged[at[0]].add(at[1])


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

    def figures(self) -> str:
        """For the report."""
        return f"Python client: {len(self.published)} jobs"

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

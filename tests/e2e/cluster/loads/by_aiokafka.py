"""aiokafka: an idempotent producer with acks=all, and a group that commits what it has read."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, defaultdict

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError
from tests.e2e.cluster.loads.numbered import PARTITIONS, NumberedMessages

_GROUP = "aiokafka-readers"
_SECONDS_MAX = 120.0


class AiokafkaLoad(NumberedMessages):
    """Both in one event loop, in a thread of its own."""

    def __init__(self, servers: str, topic: str, *, pause_seconds: float = 0.02) -> None:
        super().__init__(servers, topic)
        self._pause = pause_seconds
        self.seen: dict[int, set[int]] = defaultdict(set)
        self.met: Counter[str] = Counter()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Send no more; all that was acknowledged is read by the group within this time."""
        self._stop.set()
        self._thread.join(2 * _SECONDS_MAX + 30)
        assert not self._thread.is_alive(), "aiokafka does not end"

    def check(self) -> None:
        """What the topic has, and what the group saw."""
        super().check()
        self.check_seen(self.seen, _GROUP)

    def figures(self) -> str:
        """For the report."""
        return f"aiokafka: {self.acknowledged_count} acknowledged, met {dict(self.met)}"

    async def _run(self) -> None:
        reading = asyncio.create_task(self._read_group())
        try:
            await self._produce()
            deadline = asyncio.get_running_loop().time() + _SECONDS_MAX
            while self._unseen() and not reading.done() and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        except Exception as problem:  # noqa: BLE001 - whatever reaches the application is a failure
            self.failed.append(f"the producer ended with {type(problem).__name__}: {problem}")
        reading.cancel()
        (ended,) = await asyncio.gather(reading, return_exceptions=True)
        if not isinstance(ended, asyncio.CancelledError):
            self.failed.append(f"the consumer ended with {type(ended).__name__}: {ended}")

    def _unseen(self) -> bool:
        return any(counts - self.seen[partition] for partition, counts in self.acknowledged.items())

    async def _produce(self) -> None:
        # A message gets as long as one of librdkafka: a node that is frozen answers when it goes on.
        async with AIOKafkaProducer(
            bootstrap_servers=self._servers,
            acks="all",
            enable_idempotence=True,
            request_timeout_ms=int(_SECONDS_MAX * 1000),
        ) as producer:
            while not self._stop.is_set():
                for partition in range(PARTITIONS):
                    count = self.sent[partition]
                    self.sent[partition] += 1
                    future = await producer.send(self._topic, str(count).encode(), partition=partition)
                    future.add_done_callback(lambda done, at=(partition, count): self._delivered(done, at))
                await asyncio.sleep(self._pause)
            await producer.flush()

    def _delivered(self, done: asyncio.Future[object], at: tuple[int, int]) -> None:
        problem = done.exception()
        if problem is not None:
            self.failed.append(f"{at}: {type(problem).__name__}: {problem}")
        else:
            self.acknowledged[at[0]].add(at[1])

    async def _read_group(self) -> None:
        async with AIOKafkaConsumer(
            self._topic,
            bootstrap_servers=self._servers,
            group_id=_GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:
            while True:
                for place, rows in (await consumer.getmany(timeout_ms=200)).items():
                    self.seen[place.partition].update(int(row.value) for row in rows)
                try:
                    await consumer.commit()
                except KafkaError as problem:
                    # The group rebalances, or its coordinator moves: what was read may be read again.
                    self.met[type(problem).__name__] += 1

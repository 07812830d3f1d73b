"""Sessions of producers that speak HTTP: one that falls silent has its open transaction aborted.

A Kafka client's transaction ends by its timeout alone. Over HTTP there is no connection whose
loss would tell, but there are heartbeats, so a dead producer need not hold readers back for that
long. Sessions are in memory: after a restart the timeout is what is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from goqueue.clock import Clock
from goqueue.coordinator.timers import Alarm
from goqueue.errors import GoQueueError
from goqueue.transactions.commands import Producer

OnSilence = Callable[[str, Producer], Awaitable[None]]


class ProducerSessions:
    """Who was heard when."""

    def __init__(self, clock: Clock, session_ms: int, on_silence: OnSilence) -> None:
        self._clock = clock
        self._session_ms = session_ms
        self._on_silence = on_silence
        # By id, the producer and when its session ends; whoever was heard last is last.
        self._sessions: dict[str, tuple[Producer, int]] = {}
        self._alarm = Alarm(clock, self._ring)
        self._endings: set[asyncio.Task[None]] = set()

    def heard(self, transactional_id: str, producer: Producer) -> None:
        """The producer lives."""
        self._sessions.pop(transactional_id, None)
        self._sessions[transactional_id] = (producer, self._clock.now_ms() + self._session_ms)
        self._set_alarm()

    def __len__(self) -> int:
        return len(self._sessions)

    async def close(self) -> None:
        """Forget everybody."""
        self._alarm.cancel()
        self._sessions.clear()
        for task in self._endings:
            task.cancel()
        await asyncio.gather(*self._endings, return_exceptions=True)

    def _ring(self) -> None:
        now_ms = self._clock.now_ms()
        silent = [(name, one[0]) for name, one in self._sessions.items() if one[1] <= now_ms]
        for name, producer in silent:
            del self._sessions[name]
            task = asyncio.get_running_loop().create_task(self._end(name, producer))
            self._endings.add(task)
            task.add_done_callback(self._endings.discard)
        self._set_alarm()

    async def _end(self, transactional_id: str, producer: Producer) -> None:
        try:
            await self._on_silence(transactional_id, producer)
        except GoQueueError:
            # It had nothing open, or somebody else has the id; if the shard is away, the timeout is left.
            return

    def _set_alarm(self) -> None:
        self._alarm.set(next((at_ms for _, at_ms in self._sessions.values()), None))

"""One alarm per shard, by the injected clock, on the running loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from goqueue.clock import Clock

# The wall clock may be set while we sleep, so we look at it at least this often.
_SLEEP_MS_MAX = 60_000
# A machine that is always due may not keep the loop from everything else.
_SLEEP_MS_MIN = 1


class Alarm:
    """Calls back once the clock has reached the time that was set last.

    Every heartbeat moves a deadline further away. That costs nothing here: the alarm wakes at
    the old time, sees that it is too early and sleeps on.
    """

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._at_ms: int | None = None
        self._wakes_at_ms = 0
        self._handle: asyncio.TimerHandle | None = None

    def set(self, at_ms: int | None) -> None:
        """Ring at this time instead of any other; None: never."""
        self._at_ms = at_ms
        if at_ms is not None and (self._handle is None or at_ms < self._wakes_at_ms):
            self._sleep(at_ms)

    def cancel(self) -> None:
        """Never ring."""
        self._at_ms = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _sleep(self, at_ms: int) -> None:
        if self._handle is not None:
            self._handle.cancel()
        now_ms = self._clock.now_ms()
        wait_ms = min(max(at_ms - now_ms, _SLEEP_MS_MIN), _SLEEP_MS_MAX)
        self._wakes_at_ms = now_ms + wait_ms
        self._handle = asyncio.get_running_loop().call_later(wait_ms / 1000, self._wake)

    def _wake(self) -> None:
        self._handle = None
        if self._at_ms is None:
            return
        if self._clock.now_ms() < self._at_ms:
            self._sleep(self._at_ms)
            return
        self._at_ms = None
        self._ring()

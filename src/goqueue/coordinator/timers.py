"""One alarm per shard, by the injected clock, on the running loop."""

from __future__ import annotations

from collections.abc import Callable

from goqueue.clock import Clock, Timer


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
        self._timer: Timer | None = None

    def set(self, at_ms: int | None) -> None:
        """Ring at this time instead of any other; None: never."""
        self._at_ms = at_ms
        if at_ms is not None and (self._timer is None or at_ms < self._wakes_at_ms):
            self._sleep(at_ms)

    def cancel(self) -> None:
        """Never ring."""
        self._at_ms = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sleep(self, at_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._wakes_at_ms = at_ms
        self._timer = self._clock.call_at(at_ms, self._wake)

    def _wake(self) -> None:
        self._timer = None
        if self._at_ms is None:
            return
        if self._clock.now_ms() < self._at_ms:
            self._sleep(self._at_ms)
            return
        self._at_ms = None
        self._ring()

"""Progress: a migration that takes longer than a second says how far it is, every second, whatever it is at."""

from __future__ import annotations

import logging

from goqueue.clock import Clock, Timer

_log = logging.getLogger("goqueue.migration")
_INTERVAL_MS = 1000


class Progress:
    """Of one former topic, from `begin` to `end`. A step tells what it has done; the clock decides when it is said."""

    def __init__(self, clock: Clock, topic: str) -> None:
        self._clock = clock
        self._topic = topic
        self._begun_ms = clock.monotonic_ms()
        self._done = 0
        self._total = 0
        self._timer: Timer | None = None

    def begin(self) -> None:
        """Say it every second from now on."""
        self._timer = self._clock.call_later(_INTERVAL_MS, self._say)

    def at(self, done: int, total: int) -> None:
        """So many of so many records are taken over."""
        self._done, self._total = done, total

    def end(self) -> None:
        """Say nothing more."""
        if self._timer is not None:
            self._timer.cancel()

    @property
    def took_ms(self) -> int:
        """How long it has taken until now."""
        return self._clock.monotonic_ms() - self._begun_ms

    def _say(self) -> None:
        self.begin()
        _log.warning(
            "taking over %s: %d of %d records after %d s; nothing is served until this has ended",
            self._topic,
            self._done,
            self._total,
            self.took_ms // 1000,
        )

"""The clock of the machine."""

from __future__ import annotations

import time

from goqueue.clock import LoopTimers

_NS_PER_MS = 1_000_000


class SystemClock(LoopTimers):
    """Wall and monotonic time of the operating system."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return time.time_ns() // _NS_PER_MS

    def monotonic_ms(self) -> int:
        """Milliseconds that never run backwards."""
        return time.monotonic_ns() // _NS_PER_MS

"""The clock of the machine."""

from __future__ import annotations

import time

from goqueue.clock import LoopTimers

_NS_PER_MS = 1_000_000
# Not every system has the first one.
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock(LoopTimers):
    """Wall and monotonic time of the operating system."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return time.time_ns() // _NS_PER_MS

    def monotonic_ms(self) -> int:
        """Milliseconds that never run backwards."""
        return time.monotonic_ns() // _NS_PER_MS


def boot_ms() -> int:
    """Monotonic milliseconds that count the time in which the machine slept."""
    return time.clock_gettime_ns(_BOOT_CLOCK) // _NS_PER_MS

"""Time and chance, handed in so that a test or a simulation can own them."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

# The wall clock may be set while a timer sleeps, so it is looked at at least this often.
_SLEEP_MS_MAX = 60_000
# A machine that is always due may not keep the loop from everything else.
_SLEEP_MS_MIN = 1


class Timer(Protocol):
    """A call that is still to come."""

    def cancel(self) -> None:
        """Never call. Harmless when it has been called."""
        ...


class Clock(Protocol):
    """Where the time comes from. Wall time is for records, monotonic time for waiting."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds that never run backwards."""
        ...

    def call_at(self, at_ms: int, call: Callable[[], None]) -> Timer:
        """Call on the running loop when the wall reaches this time, or before: whoever is called looks, and asks again.

        Whatever wakes by the time of its records asks here, so that a clock that is moved by hand can wake it.
        """
        ...

    def call_later(self, wait_ms: int, call: Callable[[], None]) -> Timer:
        """Call on the running loop when so much time has passed, whatever the wall says."""
        ...


class Rng(Protocol):
    """Where chance comes from: the subset of `random.Random` that we use."""

    def random(self) -> float:
        """A float in [0, 1)."""
        ...

    def getrandbits(self, bits: int, /) -> int:
        """A non-negative integer of that many random bits."""
        ...


class LoopTimers(ABC):
    """The timers of a clock whose time passes as the running loop's does: part of such a clock."""

    @abstractmethod
    def now_ms(self) -> int:
        """The wall clock that is slept by."""

    def call_at(self, at_ms: int, call: Callable[[], None]) -> Timer:
        """See `Clock.call_at`."""
        wait_ms = min(max(at_ms - self.now_ms(), _SLEEP_MS_MIN), _SLEEP_MS_MAX)
        return self.call_later(wait_ms, call)

    def call_later(self, wait_ms: int, call: Callable[[], None]) -> Timer:
        """See `Clock.call_later`."""
        return asyncio.get_running_loop().call_later(wait_ms / 1000, call)

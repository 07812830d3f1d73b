"""Time and chance, handed in so that a test or a simulation can own them."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Where the time comes from. Wall time is for records, monotonic time for waiting."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...

    def now_ns(self) -> int:
        """Nanoseconds since the Unix epoch."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds that never run backwards."""
        ...


class Rng(Protocol):
    """Where chance comes from: the subset of `random.Random` that we use."""

    def random(self) -> float:
        """A float in [0, 1)."""
        ...

    def getrandbits(self, bits: int, /) -> int:
        """A non-negative integer of that many random bits."""
        ...

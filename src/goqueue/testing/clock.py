"""A clock that stands still until it is told to move, and chance that repeats itself."""

from __future__ import annotations

from random import Random

from goqueue.clock import LoopTimers

_START_MS = 1_700_000_000_000
_NS_PER_MS = 1_000_000
_NS_PER_SECOND = 1_000_000_000
_NS_PER_DAY = 86_400 * _NS_PER_SECOND


class ManualClock(LoopTimers):
    """Wall and monotonic time that move together when advanced; `jump` moves the wall alone."""

    def __init__(self, now_ms: int = _START_MS) -> None:
        self._wall_ns = now_ms * _NS_PER_MS
        self._monotonic_ns = 0

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return self._wall_ns // _NS_PER_MS

    def monotonic_ms(self) -> int:
        """Milliseconds that never run backwards."""
        return self._monotonic_ns // _NS_PER_MS

    def monotonic_ns(self) -> int:
        """The same in nanoseconds: what the simulated loop reads."""
        return self._monotonic_ns

    def advance(self, *, ms: float = 0, seconds: float = 0, days: float = 0) -> None:
        """Let time pass. It never runs backwards."""
        passed_ns = round(ms * _NS_PER_MS + seconds * _NS_PER_SECOND + days * _NS_PER_DAY)
        if passed_ns < 0:
            raise ValueError("time does not run backwards; use jump() for a wall clock that is set back")
        self._wall_ns += passed_ns
        self._monotonic_ns += passed_ns

    def advance_to_monotonic_ns(self, instant_ns: int) -> None:
        """Let time pass up to an instant; nothing happens if that is in the past."""
        passed_ns = max(0, instant_ns - self._monotonic_ns)
        self._wall_ns += passed_ns
        self._monotonic_ns += passed_ns

    def jump(self, *, ms: int) -> None:
        """Set the wall clock forwards or back, as an operator or NTP might."""
        self._wall_ns += ms * _NS_PER_MS


class NodeClock(LoopTimers):
    """The clock of one of several simulated nodes: time passes as for all, and its wall clock can be set wrong."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        # How far its wall clock is ahead of the true time.
        self.ahead_ms = 0

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch, as this node believes."""
        return self._clock.now_ms() + self.ahead_ms

    def monotonic_ms(self) -> int:
        """Milliseconds that never run backwards."""
        return self._clock.monotonic_ms()


def seeded_rng(seed: int, *purpose: object) -> Random:
    """A source of chance of its own for each purpose, all repeatable from one seed."""
    return Random("/".join(str(part) for part in (seed, *purpose)))  # noqa: S311 - repeatable on purpose

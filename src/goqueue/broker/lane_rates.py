"""Messages by lane: counters since the start, and how many a second over the last minute.

One add per batch. The rate needs no list of events: six times a minute the counters are noted down, and the rate is
how far they are beyond what they were a minute ago.
"""

from __future__ import annotations

from goqueue.records import Priority

_LANES = len(Priority)
_STEP_MS = 10_000
_STEPS = 6


class LaneRates:
    """What passed in each lane of one place."""

    __slots__ = ("_noted", "_step", "totals")

    def __init__(self) -> None:
        self.totals = [0] * _LANES
        self._step = -1
        # Of the last steps in which something passed: the counters when the step began.
        self._noted: list[tuple[int, tuple[int, ...]]] = []

    def add(self, lane: int, count: int, now_ms: int) -> None:
        """So many messages of the lane passed."""
        step = now_ms // _STEP_MS
        # A clock that was put back stays in its step until time has caught up.
        if step > self._step:
            self._step = step
            self._noted = [*self._noted[1 - _STEPS :], (step, tuple(self.totals))]
        self.totals[lane] += count

    def per_second(self, lane: int, now_ms: int) -> float:
        """Messages a second over the last minute: the current ten seconds and the fifty before them."""
        first = now_ms // _STEP_MS - _STEPS + 1
        for step, totals in self._noted:
            if step >= first:
                return (self.totals[lane] - totals[lane]) * 1000 / max(now_ms - first * _STEP_MS, 1)
        return 0.0

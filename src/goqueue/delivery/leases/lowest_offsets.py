"""LowestOffsets: the lowest outstanding offset, without sorting what is outstanding."""

from __future__ import annotations

import heapq
from collections.abc import Container


class LowestOffsets:
    """Runs of offsets that were outstanding once. Those that are no longer are dropped when they come up."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: list[tuple[int, int]] = []

    def add(self, first: int, last: int) -> None:
        """These are outstanding now."""
        heapq.heappush(self._runs, (first, last))

    def clear(self) -> None:
        """Nothing is."""
        self._runs.clear()

    def lowest(self, outstanding: Container[int]) -> int | None:
        """The lowest of all that is still outstanding."""
        runs = self._runs
        while runs:
            first, last = runs[0]
            low = first
            while low <= last and low not in outstanding:
                low += 1
            if low > last:
                heapq.heappop(runs)
            elif low == first:
                return low
            else:
                heapq.heapreplace(runs, (low, last))
        return None

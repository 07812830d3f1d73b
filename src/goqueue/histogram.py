"""Durations counted in fixed buckets."""

from __future__ import annotations

from bisect import bisect_left

BUCKETS_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0)


class Histogram:
    """Counts by bucket; the last one holds all that took longer than the largest bound."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_SECONDS) + 1)
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(BUCKETS_SECONDS, seconds)] += 1
        self.seconds += seconds

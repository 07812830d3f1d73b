"""How long requests take, front-end by front-end and API by API: counts in fixed buckets."""

from __future__ import annotations

from bisect import bisect_left

BUCKETS_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0)


class Histogram:
    """Counts of one API; the last bucket holds all that took longer than the largest bound."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_SECONDS) + 1)
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count one request."""
        self.counts[bisect_left(BUCKETS_SECONDS, seconds)] += 1
        self.seconds += seconds


class RequestTimes:
    """The histograms of all APIs. Names are our own, never a client's, so their number is bounded."""

    def __init__(self) -> None:
        self._histograms: dict[tuple[str, str], Histogram] = {}

    def of(self, server: str, api: str) -> Histogram:
        """The histogram of an API, made on first use; keep it rather than asking for it each time."""
        return self._histograms.setdefault((server, api), Histogram())

    def items(self) -> list[tuple[tuple[str, str], Histogram]]:
        """Every API that was called, by name."""
        return sorted((name, one) for name, one in self._histograms.items() if any(one.counts))

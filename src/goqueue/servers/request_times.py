"""How long requests take, front-end by front-end and API by API: counts in fixed buckets."""

from __future__ import annotations

from goqueue.histogram import Histogram


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

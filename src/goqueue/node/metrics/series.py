"""Series: how a metric is named, explained and filled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from goqueue.histogram import BUCKETS_SECONDS, Histogram

PREFIX = "goqueue_"


@dataclass(frozen=True, slots=True)
class Series:
    """One series: its name without prefix, what it means, its labels."""

    name: str
    help: str
    labels: tuple[str, ...] = ()

    def counter(self, rows: Iterable[tuple[Sequence[str], float]]) -> CounterMetricFamily:
        """The series as a counter with these rows of label values and value."""
        family = CounterMetricFamily(PREFIX + self.name, self.help, labels=self.labels)
        for values, value in rows:
            family.add_metric(values, value)
        return family

    def gauge(self, rows: Iterable[tuple[Sequence[str], float]]) -> GaugeMetricFamily:
        """The series as a gauge with these rows of label values and value."""
        family = GaugeMetricFamily(PREFIX + self.name, self.help, labels=self.labels)
        for values, value in rows:
            family.add_metric(values, value)
        return family

    def histogram(self, rows: Iterable[tuple[Sequence[str], Histogram]]) -> HistogramMetricFamily:
        """The series as a histogram with these rows of label values and counted durations."""
        family = HistogramMetricFamily(PREFIX + self.name, self.help, labels=self.labels)
        for values, counted in rows:
            family.add_metric(values, buckets(BUCKETS_SECONDS, counted.counts), counted.seconds)
        return family


def buckets(bounds: Sequence[float], counts: Sequence[int]) -> list[tuple[str, float]]:
    """Counts per bucket as the cumulative ones that Prometheus wants."""
    total = 0
    rows = []
    for bound, count in zip([*map(str, bounds), "+Inf"], counts, strict=True):
        total += count
        rows.append((bound, float(total)))
    return rows

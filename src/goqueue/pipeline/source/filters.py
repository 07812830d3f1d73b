"""Filters that Spark hands down: those on partition, topic, offset and timestamp, kept exactly.

Each narrows the bounds of a partition or leaves a partition out, so that nothing is read and
then thrown away. What cannot be said as a bound is handed back, and Spark applies it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from goqueue.pipeline.decoding.columns import Bounds
from goqueue.pipeline.spark.api import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)
from goqueue.records import TopicPartition

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class Pushed:
    """What all accepted filters together ask for."""

    bounds: Bounds = field(default_factory=Bounds)
    partitions: frozenset[int] | None = None
    topics: frozenset[str] | None = None

    def take(self, filters: Iterable[Filter]) -> list[Filter]:
        """Accept what can be kept exactly; returns the rest."""
        return [one for one in filters if not self._take(one)]

    def wants(self, place: TopicPartition) -> bool:
        """Whether a partition can hold a row that is wanted."""
        return (self.partitions is None or place.partition in self.partitions) and (
            self.topics is None or place.topic in self.topics
        )

    def _take(self, one: Filter) -> bool:
        if isinstance(one, IsNotNull):
            # These columns are never null.
            return one.attribute in {("partition",), ("topic",), ("offset",), ("timestamp",)}
        value = getattr(one, "value", None)
        if value is None or len(one.attribute) != 1:
            return False
        (name,) = one.attribute
        if name in {"partition", "topic"}:
            return self._choose(name, one, value)
        if name == "offset" and isinstance(value, int):
            return self._narrow(one, value, "start", "end")
        if name == "timestamp" and isinstance(value, datetime):
            return self._narrow(one, _microseconds(value), "start_us", "end_us")
        return False

    def _choose(self, name: str, one: Filter, value: Any) -> bool:
        if isinstance(one, (EqualTo, EqualNullSafe)):
            chosen = frozenset([value])
        elif isinstance(one, In):
            chosen = frozenset(value)
        else:
            return False
        if name == "partition":
            self.partitions = chosen if self.partitions is None else self.partitions & chosen
        else:
            self.topics = chosen if self.topics is None else self.topics & chosen
        return True

    def _narrow(self, one: Filter, value: int, low: str, high: str) -> bool:
        limits = {
            GreaterThan: (value + 1, None),
            GreaterThanOrEqual: (value, None),
            LessThan: (None, value),
            LessThanOrEqual: (None, value + 1),
            EqualTo: (value, value + 1),
            EqualNullSafe: (value, value + 1),
        }.get(type(one))
        if limits is None:
            return False
        bounds = self.bounds._asdict()
        if limits[0] is not None:
            bounds[low] = max(bounds[low], limits[0])
        if limits[1] is not None:
            bounds[high] = min(bounds[high], limits[1])
        self.bounds = Bounds(**bounds)
        return True


def _microseconds(value: datetime) -> int:
    moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    passed = moment - _EPOCH
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds

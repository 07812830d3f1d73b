"""How far a query is, read off what Spark reports after every batch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from goqueue.pipeline.declared.running.sinks import WRITTEN

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """The last batch of a query, and how many rows it has written since it was started."""

    batch: int = -1
    rows_in: int = 0
    rows_per_second: float = 0.0
    rows_written: int = 0
    batch_ms: int = 0
    lag: Mapping[str, int] = field(default_factory=dict)
    at: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**asdict(self), "lag": dict(self.lag)}


def progress_of(query: StreamingQuery, last: QueryProgress) -> QueryProgress:
    """The progress now, given what was known before; batches in between are added up."""
    fresh = [one for one in query.recentProgress if int(one["batchId"]) > last.batch]
    if not fresh:
        return last
    newest = fresh[-1]
    return QueryProgress(
        batch=int(newest["batchId"]),
        rows_in=int(newest["numInputRows"]),
        rows_per_second=round(float(newest.get("processedRowsPerSecond") or 0.0), 1),
        rows_written=last.rows_written + sum(_written(one) for one in fresh),
        batch_ms=int(newest.get("durationMs", {}).get("triggerExecution", 0)),
        lag=_lag(newest),
        at=newest.get("timestamp"),
    )


def _written(progress: Mapping[str, Any]) -> int:
    observed = (progress.get("observedMetrics") or {}).get(WRITTEN)
    if observed is None:
        return 0
    return int(observed["rows"] if isinstance(observed, Mapping) else observed.rows)


def _lag(progress: Mapping[str, Any]) -> dict[str, int]:
    """Messages not read yet, per source, where the source says how far its topic reaches."""
    lags = {}
    for source in progress.get("sources", ()):
        end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
        if end and latest:
            topics = ", ".join(sorted(latest))
            lags[topics] = sum(
                max(int(offset) - int(end.get(topic, {}).get(partition, 0)), 0)
                for topic, partitions in latest.items()
                for partition, offset in partitions.items()
            )
    return lags


def _offsets(text: Any) -> dict[str, dict[str, int]]:
    """Offsets by topic and partition, as sources write them; empty if they are written otherwise.

    What stands beside the topics, such as the name of a group, is left out.
    """
    try:
        value = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return {}
    if not isinstance(value, dict):
        return {}
    return {topic: partitions for topic, partitions in value.items() if isinstance(partitions, dict)}

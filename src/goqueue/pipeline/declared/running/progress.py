"""How far a query is, read off what Spark reports after every batch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from goqueue.pipeline.declared.frames.expectations import METRIC
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
    # up to when rows are complete, as Spark writes times; None without a watermark
    watermark: str | None = None
    # what steps remember from batch to batch
    state_rows: int = 0
    state_bytes: int = 0
    # step -> rule -> rows that broke it since the query was started; `rows` is how many were looked at
    expectations: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    # the same for every batch since the last look
    fresh_expectations: tuple[Mapping[str, Mapping[str, int]], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        shown = asdict(self)
        del shown["fresh_expectations"]
        return shown


def progress_of(query: StreamingQuery, last: QueryProgress) -> QueryProgress:
    """The progress now, given what was known before; batches in between are added up."""
    fresh = [one for one in query.recentProgress if int(one["batchId"]) > last.batch]
    if not fresh:
        return last
    newest = fresh[-1]
    counts = tuple(_expectations(one) for one in fresh)
    return QueryProgress(
        batch=int(newest["batchId"]),
        rows_in=int(newest["numInputRows"]),
        rows_per_second=round(float(newest.get("processedRowsPerSecond") or 0.0), 1),
        rows_written=last.rows_written + sum(_written(one) for one in fresh),
        batch_ms=int(newest.get("durationMs", {}).get("triggerExecution", 0)),
        lag=_lag(newest),
        at=newest.get("timestamp"),
        watermark=(newest.get("eventTime") or {}).get("watermark"),
        state_rows=sum(int(one.get("numRowsTotal", 0)) for one in newest.get("stateOperators") or ()),
        state_bytes=sum(int(one.get("memoryUsedBytes", 0)) for one in newest.get("stateOperators") or ()),
        expectations=_added([last.expectations, *counts]),
        fresh_expectations=counts,
    )


def _expectations(progress: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    found = {}
    for name, observed in (progress.get("observedMetrics") or {}).items():
        if name.startswith(METRIC):
            values = observed if isinstance(observed, Mapping) else observed.asDict()
            # A batch without rows has no sums.
            found[name.removeprefix(METRIC)] = {rule: int(count or 0) for rule, count in values.items()}
    return found


def _added(parts: Sequence[Mapping[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    total: dict[str, dict[str, int]] = {}
    for part in parts:
        for step, counts in part.items():
            into = total.setdefault(step, {})
            for rule, count in counts.items():
                into[rule] = into.get(rule, 0) + count
    return total


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

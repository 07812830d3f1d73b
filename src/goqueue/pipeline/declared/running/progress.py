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
class BatchFacts:
    """One batch of a query, as it is kept."""

    batch: int
    at: str | None
    rows_in: int
    rows_written: int
    rows_per_second: float
    batch_ms: int
    lag: Mapping[str, int]
    # step -> rule -> rows that broke it; `rows` is how many were looked at
    expectations: Mapping[str, Mapping[str, int]]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


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
    # the same of the last batch
    last_expectations: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    # every batch since the last look
    fresh: tuple[BatchFacts, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        shown = asdict(self)
        del shown["fresh"]
        return shown


def progress_of(query: StreamingQuery, last: QueryProgress) -> QueryProgress:
    """The progress now, given what was known before; batches in between are added up."""
    told = [one for one in query.recentProgress if int(one["batchId"]) > last.batch]
    if not told:
        return last
    newest, fresh = told[-1], tuple(map(_facts, told))
    return QueryProgress(
        batch=fresh[-1].batch,
        rows_in=fresh[-1].rows_in,
        rows_per_second=fresh[-1].rows_per_second,
        rows_written=last.rows_written + sum(one.rows_written for one in fresh),
        batch_ms=fresh[-1].batch_ms,
        lag=fresh[-1].lag,
        at=fresh[-1].at,
        watermark=(newest.get("eventTime") or {}).get("watermark"),
        state_rows=sum(int(one.get("numRowsTotal", 0)) for one in newest.get("stateOperators") or ()),
        state_bytes=sum(int(one.get("memoryUsedBytes", 0)) for one in newest.get("stateOperators") or ()),
        expectations=_added([last.expectations, *(one.expectations for one in fresh)]),
        last_expectations=fresh[-1].expectations,
        fresh=fresh,
    )


def _facts(progress: Mapping[str, Any]) -> BatchFacts:
    return BatchFacts(
        batch=int(progress["batchId"]),
        at=progress.get("timestamp"),
        rows_in=int(_of_sources(progress, "numInputRows")),
        rows_written=_written(progress),
        rows_per_second=round(_of_sources(progress, "processedRowsPerSecond"), 1),
        batch_ms=int(progress.get("durationMs", {}).get("triggerExecution", 0)),
        lag=_lag(progress),
        expectations=_expectations(progress),
    )


def _of_sources(progress: Mapping[str, Any], name: str) -> float:
    """A number of a batch. Spark Connect tells it by source only."""
    found = progress.get(name)
    if found is None:
        found = sum(float(source.get(name) or 0.0) for source in progress.get("sources") or ())
    return float(found)


def _expectations(progress: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    found = {}
    for name, observed in (progress.get("observedMetrics") or {}).items():
        if name.startswith(METRIC):
            # A batch without rows has no sums.
            found[name.removeprefix(METRIC)] = {rule: int(count or 0) for rule, count in _columns(observed).items()}
    return found


def _columns(observed: Any) -> Mapping[str, Any]:
    """The columns of a metric. Spark Connect hands them over as a row of values and schema, empty if it saw none."""
    values: Mapping[str, Any] = observed if isinstance(observed, Mapping) else observed.asDict()
    if set(values) != {"values", "schema"} or not isinstance(values["schema"], Mapping):
        return values
    names = [field["name"] for field in values["schema"]["fields"]]
    return dict(zip(names, values["values"] or (), strict=False))


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
    return 0 if observed is None else int(_columns(observed).get("rows") or 0)


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

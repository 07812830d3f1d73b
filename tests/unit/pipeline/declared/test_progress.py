"""How far a query is, out of what Spark reports."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from pyspark.sql import Row

from goqueue.pipeline.declared.running.progress import QueryProgress, progress_of


def query(*batches: dict[str, Any]) -> Any:
    return SimpleNamespace(recentProgress=batches)


def batch(number: int, rows: int, end: object = None, latest: object = None) -> dict[str, Any]:
    return {
        "batchId": number,
        "numInputRows": rows,
        "processedRowsPerSecond": 12.34,
        "durationMs": {"triggerExecution": 250},
        "timestamp": "2026-01-01T10:00:00.000Z",
        "observedMetrics": {"written": {"rows": rows}},
        "sources": [{"endOffset": end, "latestOffset": latest}],
    }


def test_the_lag_is_what_the_topic_has_beyond_the_last_batch() -> None:
    end = json.dumps({"orders": {"0": 10, "1": 5}, "@group": "pipeline.orders.clean"})
    latest = json.dumps({"orders": {"0": 12, "1": 9}})

    assert progress_of(query(batch(0, 15, end, latest)), QueryProgress()).lag == {"orders": 6}


def test_offsets_that_are_written_otherwise_tell_no_lag() -> None:
    assert progress_of(query(batch(0, 15, "seven", None)), QueryProgress()).lag == {}


def test_batches_since_the_last_look_are_added_up() -> None:
    first = progress_of(query(batch(0, 3)), QueryProgress())

    then = progress_of(query(batch(0, 3), batch(1, 4), batch(2, 5)), first)

    assert (then.batch, then.rows_written, then.rows_per_second, then.batch_ms) == (2, 12, 12.3, 250)


def test_without_a_new_batch_nothing_changes() -> None:
    known = progress_of(query(batch(4, 3)), QueryProgress())

    assert progress_of(query(batch(4, 3)), known) is known


def test_what_spark_connect_tells_by_source_only_is_added_up() -> None:
    told = {**batch(0, 3), "numInputRows": None, "processedRowsPerSecond": None}
    told["observedMetrics"] = {
        "written": _connected(rows=6),
        "expect checked": _connected(rows=7, small=None),
        "expect other": Row()(),
    }
    told["sources"] = [{"numInputRows": 3, "processedRowsPerSecond": 1.5}, {"numInputRows": 4}]

    found = progress_of(query(told), QueryProgress())

    assert (found.rows_in, found.rows_per_second, found.rows_written) == (7, 1.5, 6)
    assert found.expectations == {"checked": {"rows": 7, "small": 0}, "other": {}}


def _connected(**columns: int | None) -> Any:
    """A metric as Spark Connect of 4.3 has it."""
    schema = {"type": "struct", "fields": [{"name": name, "type": "long"} for name in columns]}
    return Row("values", "schema")(list(columns.values()), schema)

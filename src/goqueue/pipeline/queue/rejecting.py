"""Rows of a queue that can never succeed, sent to the dead letters from `foreachBatch` with what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from goqueue.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SCHEMA = pa.schema([("failed", pa.int64()), ("rows", pa.int64())])


def reject(frame: DataFrame, *, http: str | None = None, error: str = "error") -> int:
    """Reject the messages of these rows; `error` is the column that says why. Returns how many were rejected.

    The frame needs the column `receipt`. Whoever calls it again for the same rows rejects them once.
    """
    for name in ("receipt", error):
        if name not in frame.columns:
            raise PipelineError(f"reject: there is no column {name!r}; there are {', '.join(frame.columns)}")
    rows = frame.select("receipt", f"`{error}`").toDF("receipt", "error")
    done = rows.mapInArrow(_Rejecting(http), "failed bigint, rows bigint").collect()
    return sum(one.rows - one.failed for one in done)


class _Rejecting:
    """Runs in the executors."""

    def __init__(self, http: str | None) -> None:
        self._http = http

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from goqueue.pipeline.queue.queue_broker import QueueBroker

        broker = QueueBroker(self._http, "", "", "spark")
        failed = count = 0
        try:
            for batch in batches:
                by_error: dict[str, list[str]] = {}
                for receipt, error in zip(batch["receipt"].to_pylist(), batch["error"].to_pylist(), strict=True):
                    by_error.setdefault(error or "rejected by a Spark job", []).append(receipt)
                for error, receipts in by_error.items():
                    failed += broker.reject(receipts, error)
                    count += len(receipts)
        finally:
            broker.close()
        yield pa.RecordBatch.from_arrays([pa.array([failed]), pa.array([count])], schema=_SCHEMA)

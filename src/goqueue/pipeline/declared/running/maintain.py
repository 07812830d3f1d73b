"""Upkeep of the lake tables of a pipeline: small files are put together, old versions are forgotten."""

from __future__ import annotations

import fcntl
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goqueue.errors import InvalidRequest
from goqueue.pipeline.declared.form.sinks import DeltaSink, IcebergSink
from goqueue.pipeline.declared.form.spec import Pipeline
from goqueue.pipeline.declared.running.tables import open_table
from goqueue.pipeline.lake.compact import SMALL_BYTES, compact

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCK = "maintain.lock"


def maintain(
    pipeline: Pipeline, spark: SparkSession, *, small_bytes: int = SMALL_BYTES, keep_ms: int | None = None
) -> list[dict[str, Any]]:
    """Compact every lake table that the pipeline writes; it may run meanwhile. One row per table."""
    lakes = {name: sink for name, sink in pipeline.sinks.items() if isinstance(sink, DeltaSink | IcebergSink)}
    if not lakes:
        raise InvalidRequest("the pipeline has no delta or iceberg sink: there is nothing to maintain")
    folder = Path(pipeline.checkpoint_path)
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    with (folder / _LOCK).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidRequest("another maintenance of this pipeline has not ended") from None
        owner = _owner(lock)
        for name, sink in lakes.items():
            table = open_table(sink)
            if table.schema is None:
                rows.append({"sink": name, "files_before": 0, "files_after": 0, "rewritten": 0, "expired": 0})
                continue
            done = compact(spark, table, f"{owner}.{name}", small_bytes=small_bytes)
            expired = 0 if keep_ms is None else table.expire(keep_ms)
            rows.append({"sink": name, **done._asdict(), "expired": expired})
    return rows


def _owner(lock: Any) -> str:
    """Under which name the files are written: of this checkpoint alone, and the same at every run."""
    lock.seek(0)
    known = lock.read().strip()
    if not known:
        known = f"goqueue-maintain-{uuid.uuid4().hex[:12]}"
        lock.write(known)
        lock.flush()
    return str(known)

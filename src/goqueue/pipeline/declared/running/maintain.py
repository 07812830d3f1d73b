"""Upkeep of the lake tables of a pipeline: small files are put together, old versions are forgotten."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from goqueue.errors import InvalidRequest
from goqueue.pipeline.declared.form.sinks import DeltaSink, IcebergSink
from goqueue.pipeline.declared.form.spec import Pipeline
from goqueue.pipeline.declared.running.state import Held, State, state_at
from goqueue.pipeline.declared.running.tables import open_table
from goqueue.pipeline.lake.compact import SMALL_BYTES, compact
from goqueue.pipeline.lake.table import LakeTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCK, _OWNER = "maintain.lock", "maintain.owner"


def maintain(
    pipeline: Pipeline, spark: SparkSession, *, small_bytes: int = SMALL_BYTES, keep_ms: int | None = None
) -> list[dict[str, Any]]:
    """Compact every lake table that the pipeline writes; it may run meanwhile. One row per table."""
    lakes = {
        name: sink
        for name, sink in pipeline.sinks.items()
        if isinstance(sink, DeltaSink | IcebergSink) and not sink.is_written_by_spark()
    }
    if not lakes:
        raise InvalidRequest(
            "the pipeline has no delta or iceberg sink that GoQueue writes: there is nothing to maintain",
            hint="tables with writer: spark are maintained by its jars, as by OPTIMIZE or rewrite_data_files",
        )
    state = state_at(pipeline.checkpoint_path)
    try:
        with state.held(_LOCK):
            owner = _owner(state)
            return [
                _maintained(spark, name, open_table(sink), f"{owner}.{name}", small_bytes, keep_ms)
                for name, sink in lakes.items()
            ]
    except Held:
        raise InvalidRequest("another maintenance of this pipeline has not ended") from None


def _maintained(
    spark: SparkSession, name: str, table: LakeTable, owner: str, small_bytes: int, keep_ms: int | None
) -> dict[str, Any]:
    if table.schema is None:
        return {"sink": name, "files_before": 0, "files_after": 0, "rewritten": 0, "expired": 0}
    done = compact(spark, table, owner, small_bytes=small_bytes)
    expired = 0 if keep_ms is None else table.expire(keep_ms)
    return {"sink": name, **done._asdict(), "expired": expired}


def _owner(state: State) -> str:
    """Under which name the files are written: of this checkpoint alone, and the same at every run."""
    known = (state.read(_OWNER) or "").strip()
    if not known:
        known = f"goqueue-maintain-{uuid.uuid4().hex[:12]}"
        state.write(_OWNER, known)
    return known

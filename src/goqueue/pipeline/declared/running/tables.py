"""Tables as sinks: what is done with every batch of a query.

Spark may run a batch again after a crash. A table keeps, in the same commit as the rows, which batch of which query
they came from; a batch that is there already is not written again. A query's id lies in its checkpoint: who removes
the checkpoint begins a new query, whose batches all count.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import UNSET

from goqueue.pipeline.declared.form.sinks import DeltaSink, IcebergSink, PostgresSink, TableSink
from goqueue.pipeline.declared.form.steps import STEERING
from goqueue.pipeline.declared.running.state import state_at
from goqueue.pipeline.errors import PipelineError
from goqueue.pipeline.lake.append import append, sweep
from goqueue.pipeline.lake.delta import delta_table
from goqueue.pipeline.lake.iceberg import iceberg_table
from goqueue.pipeline.lake.merge import MergeRule, merge
from goqueue.pipeline.lake.table import Batch, LakeTable
from goqueue.pipeline.postgres.writer import PostgresTable, check_installed, write_batch
from goqueue.pipeline.spark.session import is_connected

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

# Writes a table under the name and number of a batch, once.
WriteBatch = Callable[["DataFrame", Batch], None]


def lake_writer(sink: DeltaSink | IcebergSink) -> WriteBatch:
    """Writes batches to a lake table."""
    # Opened with the first batch: whatever is wrong with the table is then an error of the query, which is told.
    found: list[LakeTable] = []

    def write(frame: DataFrame, batch: Batch) -> None:
        if found:
            found[0].refresh()
        else:
            found.append(open_table(sink))
            sweep(found[0], batch.query)
        if sink.mode == "append":
            append(found[0], frame, batch, add_columns=sink.add_columns)
        else:
            merge(found[0], frame, batch, merge_rule(sink, frame.columns), add_columns=sink.add_columns)

    return write


def postgres_writer(sink: PostgresSink) -> WriteBatch:
    """Writes batches to a table of PostgreSQL."""
    check_installed()

    def write(frame: DataFrame, batch: Batch) -> None:
        rule = None if sink.mode == "append" else merge_rule(sink, frame.columns)
        write_batch(PostgresTable(sink.url, sink.table, rule, sink.add_columns), frame, batch)

    return write


def of_query(write: WriteBatch, checkpoint: str) -> Callable[[DataFrame, int], None]:
    """The same for `foreachBatch`, which hands over numbers only: under the name of the query."""
    return lambda frame, number: write(frame, Batch(query_of(frame, checkpoint), number))


def merge_rule(sink: TableSink, columns: Sequence[str]) -> MergeRule:
    """How rows of a sink meet those of its table."""
    is_cdc = sink.mode == "cdc"
    sequence = str(sink.sequence) if sink.sequence is not UNSET else "_sequence"
    deleted = str(sink.delete_when) if sink.delete_when is not UNSET else "_op = 'd'" if is_cdc else None
    # A column of the table may begin with an underscore too, as MongoDB's _id does.
    known = {*STEERING, sequence} if sequence.startswith("_") else {*STEERING}
    steering = tuple(name for name in columns if is_cdc and name in known)
    return MergeRule(tuple(sink.keys), sequence, deleted, steering)


def query_of(frame: DataFrame, checkpoint: str) -> str:
    """The id of the query that this batch belongs to, whose checkpoint lies there."""
    if is_connected(frame.sparkSession):
        # Nothing of the query's thread is seen here; but Spark has written its id before the first batch.
        query = json.loads(state_at(checkpoint).read("metadata") or "{}").get("id")
    else:
        query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    if query is None:
        raise PipelineError("Spark does not tell which query this batch belongs to")
    return str(query)


def open_table(sink: DeltaSink | IcebergSink) -> LakeTable:
    """The lake table of a sink."""
    if isinstance(sink, DeltaSink):
        return delta_table(sink.path, sink.partition_by, sink.options)
    return iceberg_table(sink.table, sink.catalog, sink.partition_by)

"""Lake tables as sinks: Delta and Iceberg, each batch exactly once.

Spark may run a batch again after a crash. Both kinds of table keep, in the same commit as the
rows, which batch of which query they came from; a batch that is there already is not written again.
A query's id lies in its checkpoint: who removes that begins a new query, whose batches all count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from goqueue.errors import ConfigError
from goqueue.pipeline.errors import PipelineError
from goqueue.pipeline.steps import reached

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WriteBatch = Callable[["DataFrame", int], None]


def delta_writer(path: str, partition_by: Sequence[str]) -> WriteBatch:
    """Appends a batch to a Delta table, under the name of its query."""
    try:
        from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
    except ImportError as error:
        raise _missing("deltalake", "delta") from error

    def write(frame: DataFrame, batch: int) -> None:
        writer = _query_of(frame)
        if DeltaTable.is_deltatable(path):
            last = DeltaTable(path).transaction_version(writer)
            if last is not None and last >= batch:
                return
        properties = CommitProperties(app_transactions=[Transaction(writer, batch)])
        write_deltalake(
            path,
            frame.toArrow(),
            mode="append",
            partition_by=list(partition_by) or None,
            commit_properties=properties,
        )
        reached("lake-written", batch)

    return write


def iceberg_writer(table: str, catalog: Mapping[str, str]) -> WriteBatch:
    """Appends a batch to an Iceberg table, made with the first batch's columns if it is not there."""
    try:
        from pyiceberg.catalog import load_catalog
    except ImportError as error:
        raise _missing("pyiceberg", "iceberg") from error

    def write(frame: DataFrame, batch: int) -> None:
        rows = frame.toArrow()
        namespace = table.rpartition(".")[0]
        found = load_catalog(**catalog)
        found.create_namespace_if_not_exists(namespace)
        target = found.create_table_if_not_exists(table, schema=rows.schema)
        # A property of the table and not of the snapshot: old snapshots are removed by whoever tidies up the table.
        last = f"goqueue.batch.{_query_of(frame)}"
        if int(target.properties.get(last, -1)) >= batch:
            return
        with target.transaction() as transaction:
            transaction.append(rows)
            transaction.set_properties({last: str(batch)})
        reached("lake-written", batch)

    return write


def _query_of(frame: DataFrame) -> str:
    """The id of the query that this batch belongs to."""
    query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    if query is None:
        raise PipelineError("Spark does not tell which query this batch belongs to")
    return str(query)


def _missing(package: str, sink: str) -> ConfigError:
    return ConfigError([f"a {sink} sink needs the package {package}: pip install {package}"])

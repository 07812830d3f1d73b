"""Lake tables as sinks: Delta and Iceberg, each batch exactly once.

Spark may run a batch again after a crash. Both kinds of table keep, in the same commit as the
rows, which batch they came from; a batch that is there already is not written again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from goqueue.errors import ConfigError
from goqueue.pipeline.steps import reached

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WriteBatch = Callable[["DataFrame", int], None]

_ICEBERG_WRITER, _ICEBERG_BATCH = "goqueue.writer", "goqueue.batch"


def delta_writer(path: str, writer: str, partition_by: Sequence[str]) -> WriteBatch:
    """Appends a batch to a Delta table, under the name of its writer."""
    try:
        from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
    except ImportError as error:
        raise _missing("deltalake", "delta") from error

    def write(frame: DataFrame, batch: int) -> None:
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


def iceberg_writer(table: str, catalog: Mapping[str, str], writer: str) -> WriteBatch:
    """Appends a batch to an Iceberg table, made with the first batch's columns if it is not there."""
    try:
        from pyiceberg.catalog import load_catalog
    except ImportError as error:
        raise _missing("pyiceberg", "iceberg") from error

    def write(frame: DataFrame, batch: int) -> None:
        rows = frame.toArrow()
        namespace = table.rpartition(".")[0]
        found = load_catalog("goqueue", **catalog)
        found.create_namespace_if_not_exists(namespace)
        target = found.create_table_if_not_exists(table, schema=rows.schema)
        if _last_batch(target, writer) < batch:
            target.append(rows, snapshot_properties={_ICEBERG_WRITER: writer, _ICEBERG_BATCH: str(batch)})
            reached("lake-written", batch)

    return write


def _last_batch(table: Any, writer: str) -> int:
    """The newest batch of a writer that the table's history shows; -1 without one."""
    batches = (
        int(one.summary.additional_properties.get(_ICEBERG_BATCH, -1))
        for one in table.metadata.snapshots
        if one.summary is not None and one.summary.additional_properties.get(_ICEBERG_WRITER) == writer
    )
    return max(batches, default=-1)


def _missing(package: str, sink: str) -> ConfigError:
    return ConfigError([f"a {sink} sink needs the package {package}: pip install {package}"])

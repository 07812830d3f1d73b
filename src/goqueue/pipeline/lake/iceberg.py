"""Iceberg tables, by the package pyiceberg: it keeps the metadata, and the executors write the files."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from goqueue.errors import ConfigError, GoQueueError, InvalidRequest
from goqueue.pipeline.errors import PipelineError
from goqueue.pipeline.lake.iceberg_commits import look_again
from goqueue.pipeline.lake.iceberg_expiry import data_paths, expire
from goqueue.pipeline.lake.table import Batch, Bounds, Conflict, DataFile, FileWriter, TableMismatch, check_columns
from goqueue.pipeline.lake.transforms import partition_field
from goqueue.pipeline.lake.types import plain_schema
from goqueue.pipeline.lake.write_log import WriteLog

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import CreateTableTransaction, Table

# A property of the table and not of a snapshot: old snapshots are removed by whoever maintains the table.
_BATCH, _ATTEMPT = "goqueue.batch.", "goqueue.attempt."
_RETRIES = "commit.retry.num-retries"
_CHUNK_BYTES = 128 * 1024 * 1024


def iceberg_table(name: str, catalog: Mapping[str, str], partition_by: Sequence[str] = ()) -> IcebergLake:
    """A table of a catalog; it need not exist yet."""
    try:
        from pyiceberg.catalog import load_catalog
    except ImportError as error:
        raise ConfigError(["an Iceberg table needs the package pyiceberg: pip install 'goqueue[lake]'"]) from error
    try:
        return IcebergLake(load_catalog(**catalog), name, tuple(partition_by))
    except (ValueError, KeyError) as error:
        raise InvalidRequest(
            f"the Iceberg catalog cannot be opened: {error}",
            field="catalog",
            hint="as in: {type: sql, uri: 'sqlite:///catalog.db', warehouse: 'file:///data/lake'}",
        ) from None
    except GoQueueError:
        raise
    except Exception as error:  # noqa: BLE001 - each kind of catalog raises what its library does
        raise PipelineError(f"the Iceberg catalog cannot be opened: {' '.join(str(error).split())}") from None


class IcebergLake:
    """One Iceberg table."""

    def __init__(self, catalog: Catalog, name: str, partition_by: tuple[str, ...]) -> None:
        self._catalog, self._name, self._partition_by = catalog, name, partition_by
        self._table: Table | None = None
        self.refresh()

    @property
    def schema(self) -> pa.Schema | None:
        """The columns; None if the table does not exist yet."""
        return None if self._table is None else self._table.schema().as_arrow()

    def refresh(self) -> None:
        """Look at the table again."""
        if not self._catalog.table_exists(self._name):
            self._table = None
        else:
            self._table = self._catalog.load_table(self._name)
            # In memory only. pyiceberg would apply a commit again to whatever has become of the table: whether the
            # batch is in it by then is for us to look.
            self._table.metadata.properties[_RETRIES] = "0"
            self._table.catalog = look_again(self._table.catalog)

    def layout(self) -> Hashable:
        """The table itself, whose columns have numbers of their own, and how it is partitioned."""
        return None if self._table is None else (self._table.metadata.table_uuid, self._table.metadata.default_spec_id)

    def prepare(self, schema: pa.Schema, *, add_columns: bool) -> None:
        """Make the table if it is not there, add new columns if that is wanted."""
        if self._table is None:
            self._make(schema)
        from pyiceberg.exceptions import CommitFailedException

        for is_last in (False, True):
            table = self._open
            fresh = check_columns(plain_schema(table.schema().as_arrow()), schema, add_columns=add_columns)
            if not fresh:
                return
            try:
                with table.update_schema() as update:
                    update.union_by_name(pa.schema(fresh))
            except CommitFailedException as error:
                # Another writer has changed the columns meanwhile, perhaps to these.
                if is_last:
                    raise Conflict(f"{self._name}: {error}") from None
            self.refresh()

    def last_batch(self, query: str) -> int | None:
        """The number of the last batch of a query that is in the table."""
        found = None if self._table is None else self._table.properties.get(f"{_BATCH}{query}")
        return None if found is None else int(found)

    def last_attempt(self, query: str) -> str | None:
        """The attempt that wrote this batch."""
        return None if self._table is None else self._table.properties.get(f"{_ATTEMPT}{query}")

    def write_log(self) -> WriteLog:
        """Where files are announced before they are written."""
        return _log(self._open.location(), dict(self._open.io.properties))

    def file_writer(self, attempt: str) -> FileWriter:
        """What executors run."""
        return _Writer(self._open.metadata, dict(self._open.io.properties), attempt)

    def files(self, bounds: Bounds) -> Sequence[DataFile]:
        """The files that may have rows within the bounds."""
        from pyiceberg.expressions import AlwaysTrue, And, GreaterThanOrEqual, LessThanOrEqual

        if self._table is None:
            return []
        wanted: Any = AlwaysTrue()
        for name, (low, high) in bounds.items():
            if low is not None:
                wanted = And(wanted, GreaterThanOrEqual(name, low), LessThanOrEqual(name, high))
        try:
            tasks = list(self._table.scan(row_filter=wanted).plan_files())
        except ValueError:
            # Deletes by values: pyiceberg does not even plan a scan with them.
            tasks = None
        if tasks is None or any(task.delete_files for task in tasks):
            raise PipelineError(
                f"table {self._name} has delete files, which can be neither merged into nor compacted here: run "
                "rewrite_data_files with the engine that wrote them first"
            )
        return [_described(task.file) for task in tasks]

    def paths(self) -> set[str]:
        """The paths of all files, whatever rows of them are deleted."""
        try:
            return {_described(task.file).path for task in self._open.scan().plan_files()}
        except ValueError:
            return data_paths(self._open)

    def partition_of(self, file: DataFile) -> str:
        """The partition that a file belongs to."""
        return f"{file.entry.spec_id}/{file.entry.partition}"

    def expire(self, keep_ms: int) -> int:
        """Forget snapshots that are older than this, and remove the files that only they had."""
        self.refresh()
        forgotten = expire(self._open, self.write_log(), int(time.time() * 1000) - keep_ms)
        self.refresh()
        return forgotten

    def plain_schema(self, columns: Sequence[str] | None) -> pa.Schema:
        """The columns, all or some, as `file_reader` gives them."""
        schema = self._open.schema()
        return plain_schema((schema if columns is None else schema.select(*columns)).as_arrow())

    def file_reader(self, columns: Sequence[str] | None) -> Callable[[DataFile], Iterator[pa.RecordBatch]]:
        """What executors run to read a file again."""
        schema = self._open.schema()
        wanted = schema if columns is None else schema.select(*columns)
        return _Reader(self._open.metadata, dict(self._open.io.properties), wanted)

    def commit(
        self,
        batch: Batch,
        attempt: str,
        added: Sequence[DataFile],
        removed: Sequence[DataFile] = (),
        *,
        is_strict: bool = False,  # noqa: ARG002 - without retries, every commit is strict
        changes_rows: bool = True,  # noqa: ARG002 - pyiceberg has overwrites only, no snapshot of the kind "replace"
    ) -> None:
        """Add and remove files in one commit that holds the batch's number."""
        from pyiceberg.exceptions import CommitFailedException, ValidationException

        try:
            with self._open.transaction() as transaction:
                update = transaction.update_snapshot()
                with update.overwrite() if removed else update.fast_append() as change:
                    for file in added:
                        change.append_data_file(file.entry)
                    for file in removed:
                        change.delete_data_file(file.entry)
                written = {f"{_BATCH}{batch.query}": str(batch.number), f"{_ATTEMPT}{batch.query}": attempt}
                transaction.set_properties(written)
        except (CommitFailedException, ValidationException) as error:
            raise Conflict(f"{self._name}: {error}") from None

    @property
    def _open(self) -> Table:
        if self._table is None:
            raise PipelineError(f"there is no table {self._name}")
        return self._table

    def _make(self, schema: pa.Schema) -> None:
        from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError

        self._catalog.create_namespace_if_not_exists(self._name.rpartition(".")[0])
        transaction = self._new_table(schema)
        # Before there is a table: it would keep a type that these rows do not have.
        check_columns(plain_schema(transaction.table_metadata.schema().as_arrow()), schema, add_columns=False)
        try:
            transaction.commit_transaction()
        except (TableAlreadyExistsError, CommitFailedException) as error:
            self.refresh()
            if self._table is None:
                raise Conflict(f"{self._name}: {error}") from None
        else:
            self.refresh()

    def _new_table(self, schema: pa.Schema) -> CreateTableTransaction:
        from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException

        try:
            transaction = self._catalog.create_table_transaction(self._name, schema=schema)
        except UnsupportedPyArrowTypeException as error:
            raise TableMismatch(f"{error}, which Iceberg does not have: cast it in a select step") from None
        if self._partition_by:
            try:
                with transaction.update_spec() as spec:
                    for text in self._partition_by:
                        spec.add_field(*partition_field(text))
            except ValueError as error:
                raise PipelineError(f"partition_by: {error}") from None
        return transaction


class _Writer:
    """Runs in the executors."""

    def __init__(self, metadata: Any, properties: dict[str, str], attempt: str) -> None:
        self._metadata, self._properties, self._attempt = metadata, properties, attempt

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[DataFile]:
        from pyiceberg.io.pyarrow import _dataframe_to_data_files

        files = _announcing(self._properties, _log(self._metadata.location, self._properties), self._attempt)
        name, numbers = uuid.uuid4(), itertools.count()
        for chunk in _chunks(rows):
            _check_partitions(self._metadata, chunk)
            for file in _dataframe_to_data_files(self._metadata, chunk, files, name, numbers):
                yield _described(file)


class _Reader:
    """Runs in the executors."""

    def __init__(self, metadata: Any, properties: dict[str, str], schema: Any) -> None:
        self._metadata, self._properties, self._schema = metadata, properties, schema

    def __call__(self, file: DataFile) -> Iterator[pa.RecordBatch]:
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan, PyArrowFileIO
        from pyiceberg.table import FileScanTask

        scan = ArrowScan(self._metadata, PyArrowFileIO(self._properties), self._schema, AlwaysTrue())
        plain = plain_schema(self._schema.as_arrow())
        for batch in scan.to_record_batches([FileScanTask(file.entry)]):
            yield pa.RecordBatch.from_arrays([batch[one.name].cast(one.type) for one in plain], schema=plain)


def _check_partitions(metadata: Any, rows: pa.Table) -> None:
    """Raise for values by which pyiceberg loses or doubles rows: it looks for those that equal the partition's."""
    for field in metadata.spec().fields:
        name = metadata.schema().find_column_name(field.source_id)
        column = rows[name] if name in rows.column_names else None
        if column is None or not pa.types.is_floating(column.type):
            continue
        numbers = column.combine_chunks().drop_null().to_numpy()
        if np.isnan(numbers).any() or np.signbit(numbers[numbers == 0]).any():
            raise PipelineError(f"column {name!r} has NaN or -0.0, which no Iceberg table can be partitioned by here")


def _chunks(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in rows:
        if batch.num_rows:
            waiting.append(batch)
            size += batch.nbytes
        if size >= _CHUNK_BYTES:
            yield _in_utc(pa.Table.from_batches(waiting))
            waiting, size = [], 0
    if waiting:
        yield _in_utc(pa.Table.from_batches(waiting))


def _in_utc(rows: pa.Table) -> pa.Table:
    """The same rows, with times as pyiceberg takes them: Spark names the zone of its session, which changes none."""
    plain = plain_schema(rows.schema)
    return rows if rows.schema.types == plain.types else rows.cast(plain)


def _announcing(properties: dict[str, str], log: WriteLog, attempt: str) -> Any:
    """The way of pyiceberg to files, which says every name before it is written."""
    from pyiceberg.io.pyarrow import PyArrowFileIO

    class Announcing(PyArrowFileIO):
        def new_output(self, location: str) -> Any:
            log.announce(attempt, _path(self, location)[1])
            return super().new_output(location)

    return Announcing(properties)


def _log(location: str, properties: dict[str, str]) -> WriteLog:
    from pyiceberg.io.pyarrow import PyArrowFileIO

    return WriteLog(*_path(PyArrowFileIO(properties), f"{location}/metadata/goqueue-writes"))


def _path(files: Any, location: str) -> tuple[FileSystem, str]:
    scheme, host, path = files.parse_location(location, files.properties)
    return files.fs_by_scheme(scheme, host), path


def _described(file: Any) -> DataFile:
    from pyiceberg.io.pyarrow import PyArrowFileIO

    path = PyArrowFileIO.parse_location(file.file_path)[2]
    return DataFile(path, file.record_count, file.file_size_in_bytes, file)

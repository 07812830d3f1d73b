"""Delta tables, by the package deltalake: it keeps the log, and the executors write the files."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from goqueue.errors import ConfigError
from goqueue.pipeline.errors import PipelineError
from goqueue.pipeline.lake.delta_features import unknown_features
from goqueue.pipeline.lake.partitioned import partition_text, write_partitioned
from goqueue.pipeline.lake.stores import table_folder
from goqueue.pipeline.lake.table import Batch, Bounds, Conflict, DataFile, FileWriter, check_columns
from goqueue.pipeline.lake.types import plain_schema
from goqueue.pipeline.lake.write_log import WriteLog, attempt_name, attempt_number
from goqueue.pipeline.paths import DELTA_SCHEMES, local_path, refuse_scheme, scheme_of

if TYPE_CHECKING:
    from deltalake import DeltaTable

# Readers of Delta tables pass over folders that begin with an underscore.
_LOG_FOLDER = "_goqueue/writes"
# Behind the name of a query: the attempt that wrote its last batch.
_ATTEMPT = ".attempt"


def delta_table(path: str, partition_by: Sequence[str] = (), options: Mapping[str, str] | None = None) -> DeltaLake:
    """A table at a path or address; it need not exist yet."""
    try:
        import deltalake  # noqa: F401 - is it there?
    except ImportError as error:
        raise ConfigError(["a Delta table needs the package deltalake: pip install 'goqueue[lake]'"]) from error
    from deltalake.exceptions import DeltaError

    refuse_scheme(path, "path", DELTA_SCHEMES)
    try:
        return DeltaLake(path, tuple(partition_by), dict(options or {}))
    except (OSError, DeltaError) as error:
        raise PipelineError(f"the table {path} cannot be opened: {' '.join(str(error).split())}") from None


class DeltaLake:
    """One Delta table."""

    def __init__(self, path: str, partition_by: tuple[str, ...], options: dict[str, str]) -> None:
        self._uri = str(local_path(path, "path")) if scheme_of(path) in (None, "file") else _s3(path)
        self._partition_by = self._wanted_partition_by = partition_by
        self._options = options
        self._table: DeltaTable | None = None
        # What tells the version that was looked at last from that of a table made anew at the same place.
        self._version_file: tuple[Any, ...] = ()
        # The columns of a table that does not exist yet: it is made with its first files, in one commit.
        self._first_schema: pa.Schema | None = None
        self.refresh()

    @property
    def schema(self) -> pa.Schema | None:
        """The columns; None if the table does not exist yet."""
        return None if self._table is None else pa.schema(self._table.schema().to_arrow())

    def refresh(self) -> None:
        """Look at the table again."""
        from deltalake import DeltaTable

        if self._table is not None and self._is_the_same():
            self._table.update_incremental()
        elif DeltaTable.is_deltatable(self._uri, self._options):
            self._table = DeltaTable(self._uri, storage_options=self._options)
        else:
            self._table, self._partition_by = None, self._wanted_partition_by
            return
        self._version_file = self._find_version_file()
        unknown = unknown_features(self._table)
        if unknown:
            raise PipelineError(f"the table {self._uri} uses {', '.join(unknown)}, which cannot be written here")
        self._partition_by = tuple(self._table.metadata().partition_columns)

    def layout(self) -> Hashable:
        """The table itself, its columns and what it is partitioned by."""
        if self._table is None:
            return None
        return self._table.metadata().id, self._table.schema().to_json(), self._partition_by

    def prepare(self, schema: pa.Schema, *, add_columns: bool) -> None:
        """Add new columns if that is wanted; raises `TableMismatch` if the rows do not fit."""
        missing = [name for name in self._partition_by if name not in schema.names]
        if missing:
            raise PipelineError(f"partition_by: the rows have no column {missing[0]!r}")
        for name in self._partition_by:
            if pa.types.is_nested(kind := schema.field(name).type) or pa.types.is_binary(kind):
                raise PipelineError(f"partition_by: column {name!r} is {kind}, by which no table can be divided")
        if set(schema.names) <= set(self._partition_by):
            raise PipelineError(
                "partition_by: all columns of the rows are named, and nothing is left to write to files"
            )
        if self._table is None or self.schema is None:
            self._first_schema = schema
            return
        for is_last in (False, True):
            fresh = check_columns(self.schema, schema, add_columns=add_columns)
            if not fresh:
                return
            from deltalake import Schema
            from deltalake.exceptions import CommitFailedError

            try:
                self._table.alter.add_columns(Schema.from_arrow(pa.schema(fresh)).fields)
            except CommitFailedError as error:
                # Another writer has changed the columns meanwhile, perhaps to these.
                if is_last:
                    raise Conflict(f"{self._uri}: {error}") from None
            self.refresh()

    def last_batch(self, query: str) -> int | None:
        """The number of the last batch of a query that is in the table."""
        return None if self._table is None else self._table.transaction_version(query)

    def last_attempt(self, query: str) -> str | None:
        """The attempt that wrote this batch."""
        number = self.last_batch(query)
        found = None if self._table is None else self._table.transaction_version(f"{query}{_ATTEMPT}")
        return None if number is None or found is None else attempt_name(Batch(query, number), found)

    def write_log(self) -> WriteLog:
        """Where files are announced before they are written."""
        return WriteLog(table_folder(self._uri, self._options), _LOG_FOLDER)

    def file_writer(self, attempt: str) -> FileWriter:
        """What executors run."""
        required = () if self.schema is None else tuple(one.name for one in self.schema if not one.nullable)
        return _Writer(self._uri, self._options, self._partition_by, required, attempt)

    def files(self, bounds: Bounds) -> Sequence[DataFile]:
        """The files that may have rows within the bounds."""
        if self._table is None:
            return []
        found = pa.table(self._table.get_add_actions(flatten=True)).to_pylist()
        return [_described(one, self._partition_by) for one in found if _may_hold(one, bounds)]

    def paths(self) -> set[str]:
        """The paths of all files."""
        if self._table is None:
            return set()
        return {unquote(path) for path in pa.table(self._table.get_add_actions())["path"].to_pylist()}

    def partition_of(self, file: DataFile) -> str:
        """The partition that a file belongs to."""
        return repr(sorted(file.entry["partition_values"].items()))

    def expire(self, keep_ms: int) -> int:
        """Remove files that no version younger than this has; only files that the log itself says are removed."""
        if self._table is None:
            return 0
        hours = -(-keep_ms // 3_600_000)
        return len(self._table.vacuum(hours, dry_run=False, enforce_retention_duration=False, full=False))

    def plain_schema(self, columns: Sequence[str] | None) -> pa.Schema:
        """The columns, all or some, as `file_reader` gives them."""
        schema = self.schema
        if schema is None:
            raise PipelineError(f"there is no table at {self._uri}")
        return plain_schema(schema if columns is None else pa.schema([schema.field(name) for name in columns]))

    def file_reader(self, columns: Sequence[str] | None) -> Callable[[DataFile], Iterator[pa.RecordBatch]]:
        """What executors run to read a file again."""
        return _Reader(self._uri, self._options, self.plain_schema(columns))

    def commit(
        self,
        batch: Batch,
        attempt: str,
        added: Sequence[DataFile],
        removed: Sequence[DataFile] = (),
        *,
        is_strict: bool = False,
        changes_rows: bool = True,
    ) -> None:
        """Add and remove files in one commit that holds the batch's number."""
        from deltalake import CommitProperties
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import RemoveAction

        if self._table is None:
            if self._first_schema is None:
                raise PipelineError(f"there is no table at {self._uri}")
            self._create(self._first_schema, batch, attempt, added)
            return
        if not self._is_the_same():
            raise Conflict(f"{self._uri}: the table was made anew")
        if removed and changes_rows and self._table.metadata().configuration.get("delta.appendOnly") == "true":
            raise PipelineError(f"the table {self._uri} takes appends only (delta.appendOnly)")
        now_ms = int(time.time() * 1000)
        actions: list[Any] = [_add(one, changes_rows=changes_rows) for one in added]
        actions += [
            RemoveAction(one.path, changes_rows, now_ms, one.bytes, one.entry["partition_values"]) for one in removed
        ]
        properties = CommitProperties(
            app_transactions=_transactions(batch, attempt),
            # What was read to decide what to remove must still be all there is.
            max_commit_retries=0 if removed or is_strict else None,
        )
        try:
            self._table.create_write_transaction(
                actions, "append", self._table.schema(), list(self._partition_by), commit_properties=properties
            )
        except CommitFailedError as error:
            raise Conflict(f"{self._uri}: {error}") from None
        self._version_file = self._find_version_file()

    def _is_the_same(self) -> bool:
        return self._find_version_file() == self._version_file

    def _find_version_file(self) -> tuple[Any, ...]:
        if self._table is None:
            return ()
        path = f"_delta_log/{self._table.version():020d}.json"
        found = table_folder(self._uri, self._options).get_file_info(path)
        return path, found.size, found.mtime_ns

    def _create(self, schema: pa.Schema, batch: Batch, attempt: str, added: Sequence[DataFile]) -> None:
        from deltalake import CommitProperties, Schema
        from deltalake.exceptions import DeltaError
        from deltalake.transaction import create_table_with_add_actions

        try:
            create_table_with_add_actions(
                self._uri,
                Schema.from_arrow(schema),
                [_add(one) for one in added],
                mode="error",
                partition_by=list(self._partition_by),
                storage_options=self._options,
                commit_properties=CommitProperties(app_transactions=_transactions(batch, attempt)),
            )
        except DeltaError as error:
            self.refresh()
            if self._table is not None:
                raise Conflict(f"{self._uri} was made by another writer meanwhile") from None
            raise PipelineError(f"the table {self._uri} cannot be made: {error}") from None


class _Writer:
    """Runs in the executors."""

    def __init__(
        self,
        uri: str,
        options: dict[str, str],
        partition_by: tuple[str, ...],
        required: tuple[str, ...],
        attempt: str,
    ) -> None:
        self._uri, self._options, self._partition_by, self._required = uri, options, partition_by, required
        self._attempt = attempt

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[DataFile]:
        files = table_folder(self._uri, self._options)
        log = WriteLog(files, _LOG_FOLDER)
        return write_partitioned(
            files,
            self._checked(rows),
            self._partition_by,
            prefix=self._attempt.rpartition("/")[2].replace(".", "-"),
            announce=lambda path: log.announce(self._attempt, path),
        )

    def _checked(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in rows:
            for name in self._required:
                if batch.num_rows and (name not in batch.schema.names or batch[name].null_count):
                    raise PipelineError(f"a row has no {name}, which the table {self._uri} says is never missing")
            yield batch


class _Reader:
    """Runs in the executors."""

    def __init__(self, uri: str, options: dict[str, str], schema: pa.Schema) -> None:
        self._uri, self._options, self._schema = uri, options, schema

    def __call__(self, file: DataFile) -> Iterator[pa.RecordBatch]:
        values: Mapping[str, str | None] = file.entry["partition_values"]
        files = table_folder(self._uri, self._options)
        with files.open_input_file(file.path) as source:
            parquet = pq.ParquetFile(source)
            stored = [name for name in self._schema.names if name in parquet.schema_arrow.names]
            for batch in parquet.iter_batches(columns=stored):
                yield pa.RecordBatch.from_arrays(
                    [_column(batch, field, values) for field in self._schema], schema=self._schema
                )


def _column(batch: pa.RecordBatch, field: pa.Field, values: Mapping[str, str | None]) -> pa.Array:
    """A column from the file, from the partition's value, or without any value if it was added later."""
    if field.name in batch.schema.names:
        return batch[field.name].cast(field.type)
    text = values.get(field.name)
    if text is None:
        return pa.nulls(batch.num_rows, field.type)
    one = pa.array([text])
    if pa.types.is_timestamp(field.type):
        one = one.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    return pa.repeat(one.cast(field.type)[0], batch.num_rows)


def _transactions(batch: Batch, attempt: str) -> list[Any]:
    """What the log keeps of a batch: its number, and which attempt at it this is. Both are whole numbers there."""
    from deltalake import Transaction

    return [Transaction(batch.query, batch.number), Transaction(f"{batch.query}{_ATTEMPT}", attempt_number(attempt))]


def _add(file: DataFile, *, changes_rows: bool = True) -> Any:
    from deltalake.transaction import AddAction

    entry = file.entry
    return AddAction(
        file.path, file.bytes, entry["partition_values"], entry["modification_time"], changes_rows, entry["stats"]
    )


def _described(action: Mapping[str, Any], partition_by: Sequence[str]) -> DataFile:
    values = {name: partition_text(action.get(f"partition.{name}")) for name in partition_by}
    rows = action.get("num_records")
    # In the log, paths are encoded as in a URL; actions and files want them as they are.
    return DataFile(
        unquote(action["path"]), -1 if rows is None else rows, action["size_bytes"], {"partition_values": values}
    )


def _may_hold(action: Mapping[str, Any], bounds: Bounds) -> bool:
    for name, (low, high) in bounds.items():
        lowest = action.get(f"min.{name}", action.get(f"partition.{name}"))
        highest = action.get(f"max.{name}", action.get(f"partition.{name}"))
        if lowest is None or highest is None or low is None:
            continue
        if isinstance(highest, dt.datetime):
            # Writers may cut the highest time off at the millisecond.
            highest += dt.timedelta(milliseconds=1)
        try:
            if highest < low or lowest > high:
                return False
        except TypeError:
            # Values that cannot be compared say nothing.
            continue
    return True


def _s3(path: str) -> str:
    """`s3a://` is Hadoop's name for the same store."""
    return path.replace("s3a://", "s3://", 1)

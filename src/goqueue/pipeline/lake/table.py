"""What the driver asks of a lake table, whichever kind it is."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from goqueue.pipeline.errors import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa

    from goqueue.pipeline.lake.write_log import WriteLog

# Lowest and highest value of a column in a batch.
Bounds = Mapping[str, tuple[Any, Any]]


class Batch(NamedTuple):
    """A micro-batch: the id of its query, which lies in the query's checkpoint, and its number."""

    query: str
    number: int


class DataFile(NamedTuple):
    """A Parquet file of a table. `entry` is how the table's own library describes it.

    `rows` is -1 for a file whose writer did not tell their number.
    """

    path: str
    rows: int
    bytes: int
    entry: Any


class Conflict(PipelineError):
    """Another writer has changed the table since it was looked at: look again, and decide again."""


class StaleBatch(PipelineError):
    """The table has a later batch of the query: the checkpoint is an old one, or another driver has it too."""

    def __init__(self, batch: Batch, last: int) -> None:
        super().__init__(
            f"batch {batch.number} of query {batch.query}: the table has batch {last} of this query already, so the "
            "checkpoint is older than the table, as a restored copy is, or another run has it too; nothing is written, "
            "since messages would be lost: restore the newest checkpoint, or begin with an empty one, at offsets of "
            "your choice"
        )


class TableMismatch(PipelineError):
    """The rows do not fit the table; says which column."""


class FileWriter(Protocol):
    """Runs in the executors: writes the rows of a task to files, and yields what it wrote."""

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[DataFile]:
        """Write all rows."""
        ...


class LakeTable(Protocol):
    """One table, looked at once; `refresh` looks again."""

    @property
    def schema(self) -> pa.Schema | None:
        """The columns; None if the table does not exist yet."""
        ...

    def refresh(self) -> None:
        """Look at the table again."""
        ...

    def layout(self) -> Hashable:
        """What the files of this table must fit: those that were written for another must not be added to it."""
        ...

    def prepare(self, schema: pa.Schema, *, add_columns: bool) -> None:
        """Make sure that rows of this schema can be written; raises `TableMismatch`."""
        ...

    def last_batch(self, query: str) -> int | None:
        """The number of the last batch of a query that is in the table."""
        ...

    def last_attempt(self, query: str) -> str | None:
        """The attempt that wrote this batch, as the write log names it; None if the table does not tell."""
        ...

    def write_log(self) -> WriteLog:
        """Where files are announced before they are written."""
        ...

    def file_writer(self, attempt: str) -> FileWriter:
        """What executors run."""
        ...

    def files(self, bounds: Bounds) -> Sequence[DataFile]:
        """The files that may have rows within the bounds, as far as statistics tell."""
        ...

    def paths(self) -> set[str]:
        """The paths of all files, as files are announced."""
        ...

    def partition_of(self, file: DataFile) -> str:
        """The partition that a file belongs to; files of one partition may become one."""
        ...

    def expire(self, keep_ms: int) -> int:
        """Forget versions that are older than this, with their files; returns how many were removed."""
        ...

    def plain_schema(self, columns: Sequence[str] | None) -> pa.Schema:
        """The columns, all or some, as `file_reader` gives them."""
        ...

    def file_reader(self, columns: Sequence[str] | None) -> Callable[[DataFile], Iterator[pa.RecordBatch]]:
        """What executors run to read a file again, with all of its columns or some."""
        ...

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
        """Add and remove files in one commit that holds the batch's number and attempt; raises `Conflict`.

        If there is no table, the files are its first ones, with the schema that `prepare` was given.
        With files to remove, and if it is strict, every change that came meanwhile is a conflict. Otherwise only what
        makes the commit impossible. `changes_rows` is False if the added files hold the rows of those removed: who
        follows the table's changes has seen them.
        """
        ...


def check_columns(table: pa.Schema, rows: pa.Schema, *, add_columns: bool) -> list[pa.Field]:
    """The columns that the table lacks; raises if they may not be added or a type differs."""
    fresh = [field for field in rows if field.name not in table.names]
    known = {name.lower(): name for name in table.names}
    for field in fresh:
        # Spark would tell the two apart no more, and could never merge into the table again.
        if field.name.lower() in known:
            raise TableMismatch(
                f"column {field.name!r} differs only in case from {known[field.name.lower()]!r} of the table: "
                "rename it in a select step"
            )
    if fresh and not add_columns:
        raise TableMismatch(
            f"the table has no column {fresh[0].name!r}: add `add_columns: true` to the sink, "
            f"or select only {', '.join(table.names)}"
        )
    for field in rows:
        if field.name in table.names and not _same(table.field(field.name).type, field.type):
            raise TableMismatch(
                f"column {field.name!r} is {table.field(field.name).type} in the table and {field.type} in the rows: "
                "cast it in a select step"
            )
    return fresh


def _same(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether two types hold the same values; libraries differ in the width of their offsets."""
    return _plain(one) == _plain(other)


def _plain(kind: pa.DataType) -> str:
    text = str(kind).replace("large_", "").replace("_view", "").replace(" not null", "")
    return text.replace("element: ", "item: ").replace("tz=+00:00", "tz=UTC").replace("tz=Etc/UTC", "tz=UTC")

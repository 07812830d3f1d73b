"""Appending a batch: executors write files, the driver commits their list with the batch's number."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING

import pyarrow as pa

from goqueue.pipeline.errors import PipelineError
from goqueue.pipeline.lake.table import Batch, Conflict, DataFile, FileWriter, LakeTable, StaleBatch
from goqueue.pipeline.spark.worker_heap import settle
from goqueue.pipeline.steps import reached

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOG = logging.getLogger("goqueue.pipeline")
# How often a commit is tried against other writers.
ATTEMPTS_MAX = 20
_RESULT = pa.schema([("file", pa.binary())])


def append(table: LakeTable, frame: DataFrame, batch: Batch, *, add_columns: bool = False) -> int:
    """Write a batch unless it is there already; returns the number of rows that were written."""
    if was_written(table, batch):
        return 0
    schema = schema_of(frame)
    for _ in range(ATTEMPTS_MAX):
        table.prepare(schema, add_columns=add_columns)
        layout = table.layout()
        attempt = table.write_log().begin(batch)
        files = write_files(frame, table.file_writer(attempt), batch)
        reached("lake-files", batch.number)
        try:
            still_fits = partial(_fits, table, layout)
            is_added = bool(files) and commit(table, batch, attempt, files, is_still_right=still_fits)
        except Conflict as conflict:
            _LOG.info("batch %d is written again, for the table as it is now: %s", batch.number, conflict)
        else:
            return sum(file.rows for file in files) if is_added else 0
    raise PipelineError(f"the table was made anew {ATTEMPTS_MAX} times in a row while a batch was written")


def _fits(table: LakeTable, layout: Hashable) -> bool:
    return table.layout() == layout


def was_written(table: LakeTable, batch: Batch) -> bool:
    """Whether the table has the batch; raises if it has a later one.

    Spark runs a batch again only while it is the last. With a checkpoint that is older than the table it plans batches
    anew: messages that were never written could have the number of a batch that is there, and would be passed over.
    """
    last = table.last_batch(batch.query)
    if last is not None and last > batch.number:
        raise StaleBatch(batch, last)
    return last == batch.number


def is_written(table: LakeTable, batch: Batch) -> bool:
    """Whether the table has the batch or a later one, so that this one cannot be committed any more."""
    last = table.last_batch(batch.query)
    return last is not None and last >= batch.number


def schema_of(frame: DataFrame) -> pa.Schema:
    """The columns of a frame in Arrow's words."""
    from pyspark.sql.pandas.types import to_arrow_schema

    check_names(frame)
    # Before 4.2 times are in UTC without being asked for.
    zone = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    schema = to_arrow_schema(frame.schema, prefers_large_types=False, **zone)
    return pa.schema([pa.field(one.name, one.type) for one in schema])


def check_names(frame: DataFrame) -> None:
    """Refuse a column that Spark cannot hand over to Python: there it takes a dot for a field of a struct."""
    for name in frame.columns:
        if "." in name:
            raise PipelineError(f"column {name!r} has a dot in its name: rename it in a select step")


def write_files(frame: DataFrame, writer: FileWriter, batch: Batch) -> list[DataFile]:
    """Have the executors write the rows; only descriptions of files come back."""
    written = frame.mapInArrow(_Task(writer, batch.number), "file binary").collect()
    return [pickle.loads(row.file) for row in written]  # noqa: S301 - from our own executors


def commit(
    table: LakeTable,
    batch: Batch,
    attempt: str,
    added: Sequence[DataFile],
    removed: Sequence[DataFile] = (),
    *,
    is_still_right: Callable[[], bool],
    is_strict: bool = False,
    changes_rows: bool = True,
) -> bool:
    """Make the files part of the table, exactly once; False if another driver has written the batch.

    After a conflict the table is looked at again. The commit is repeated if it is still right then; otherwise its files
    are removed and the conflict is raised.
    """
    log = table.write_log()
    dropped = log.drop_unused(attempt, {file.path for file in added})
    if dropped:
        _LOG.info("batch %d: %d files of tasks that ran twice were removed", batch.number, dropped)
    for _ in range(ATTEMPTS_MAX):
        # The commit holds against the table as it was last looked at, which may be after the batch was begun.
        if is_written(table, batch):
            # Another driver of the same query was first: its files are the batch.
            log.discard(attempt)
            return False
        try:
            table.commit(batch, attempt, added, removed, is_strict=is_strict, changes_rows=changes_rows)
        except Conflict:
            table.refresh()
            if _is_landed(table, batch, attempt, added):
                break
            if not is_written(table, batch) and not is_still_right():
                log.discard(attempt)
                raise
        else:
            break
    else:
        log.discard(attempt)
        raise PipelineError(
            f"the table was changed by others {ATTEMPTS_MAX} times in a row while a batch was committed"
        )
    reached("lake-written", batch.number)
    log.sweep(batch.query, batch.number, attempt, table.paths)
    return True


def sweep(table: LakeTable, query: str) -> int:
    """Remove what attempts that can no longer be committed have left; returns the number of files.

    Once a batch is in the table, no other attempt at it or at an earlier one can be committed. Attempts at later
    batches are left alone: another driver of this query may be about to commit one.
    """
    last = table.last_batch(query)
    return 0 if last is None else table.write_log().sweep(query, last, table.last_attempt(query), table.paths)


def _is_landed(table: LakeTable, batch: Batch, attempt: str, added: Sequence[DataFile]) -> bool:
    """Whether the commit is in the table although a conflict was reported.

    A store that is asked again because its answer was lost finds that the version exists: it is the one that it stored.
    """
    if not is_written(table, batch):
        return False
    # The name of the attempt is not seen if a later batch is there as well.
    return table.last_attempt(batch.query) == attempt or not table.paths().isdisjoint(file.path for file in added)


class _Task:
    """What a Spark task does with its rows."""

    def __init__(self, writer: FileWriter, number: int) -> None:
        self._writer, self._number = writer, number

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        found = []
        for file in self._writer(rows):
            found.append(pickle.dumps(file))
            reached("lake-file", self._number)
        yield pa.RecordBatch.from_arrays([pa.array(found, pa.binary())], schema=_RESULT)

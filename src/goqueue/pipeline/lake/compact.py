"""Compaction: many small files of a partition become one, in one commit that changes no row.

Executors read and write; the driver sees names and sizes. Streams may go on writing meanwhile: an append does not
concern the files that are replaced, and a merge that does is done again, as it would be for any other writer.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from goqueue.pipeline.errors import PipelineError
from goqueue.pipeline.lake.append import commit, sweep, write_files
from goqueue.pipeline.lake.merge import read_files
from goqueue.pipeline.lake.table import Batch, Conflict, DataFile, LakeTable
from goqueue.pipeline.steps import reached

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("goqueue.pipeline")
SMALL_BYTES, TARGET_BYTES = 32 * 1024 * 1024, 128 * 1024 * 1024


class Compacted(NamedTuple):
    """What was done."""

    files_before: int
    files_after: int
    rewritten: int
    rewritten_bytes: int


def compact(
    spark: SparkSession,
    table: LakeTable,
    owner: str,
    *,
    small_bytes: int = SMALL_BYTES,
    target_bytes: int = TARGET_BYTES,
) -> Compacted:
    """Replace small files by larger ones. `owner` names whoever does this; one at a time may have the name."""
    before = len(table.files({}))
    last = table.last_batch(owner)
    sweep(table, owner)
    number = -1 if last is None else last
    rewritten = size = 0
    for bin_ in bins(table, table.files({}), small_bytes, target_bytes):
        number += 1
        if _rewrite(spark, table, Batch(owner, number), bin_):
            rewritten += len(bin_)
            size += sum(file.bytes for file in bin_)
    table.refresh()
    return Compacted(before, len(table.paths()), rewritten, size)


def bins(table: LakeTable, files: Sequence[DataFile], small_bytes: int, target_bytes: int) -> Iterator[list[DataFile]]:
    """Small files of one partition, together as large as a file should be; a file alone stays as it is."""
    by_partition: dict[str, list[DataFile]] = {}
    for file in files:
        if file.bytes < small_bytes:
            by_partition.setdefault(table.partition_of(file), []).append(file)
    for some in by_partition.values():
        bin_: list[DataFile] = []
        for file in sorted(some, key=lambda one: one.bytes):
            if bin_ and sum(one.bytes for one in bin_) + file.bytes > target_bytes:
                if len(bin_) > 1:
                    yield bin_
                bin_ = []
            bin_.append(file)
        if len(bin_) > 1:
            yield bin_


def _rewrite(spark: SparkSession, table: LakeTable, batch: Batch, files: Sequence[DataFile]) -> bool:
    """Whether the files were replaced; not if another writer has replaced one of them."""
    layout = table.layout()
    attempt = table.write_log().begin(batch)
    added = write_files(read_files(spark, table, files, None).coalesce(1), table.file_writer(attempt), batch)
    reached("lake-files", batch.number)
    is_told = all(file.rows >= 0 for file in files)
    if is_told and sum(file.rows for file in added) != sum(file.rows for file in files):
        raise PipelineError("the rows that were read are not as many as the files are said to hold: nothing is changed")
    replaced = {file.path for file in files}

    def is_still_right() -> bool:
        try:
            # Not `paths`: somebody may have deleted rows of a file in a file beside it, and they would come back.
            return table.layout() == layout and replaced <= {file.path for file in table.files({})}
        except PipelineError:
            return False

    try:
        done = commit(
            table,
            batch,
            attempt,
            added,
            files,
            is_still_right=is_still_right,
            changes_rows=False,
        )
    except Conflict:
        done = False
    if not done:
        _LOG.info("files of a compaction were replaced by another writer meanwhile: they are left to the next run")
    table.refresh()
    return done

"""Rows of a task into Parquet files, one open file per partition value, as Delta tables have them."""

from __future__ import annotations

import datetime as dt
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from goqueue.pipeline.errors import PipelineError
from goqueue.pipeline.lake.statistics import delta_statistics
from goqueue.pipeline.lake.table import DataFile

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

FILE_BYTES = 128 * 1024 * 1024
_ROW_GROUP_ROWS = 128 * 1024
# A task that meets more values than this ends its largest file to begin another.
_OPEN_MAX = 32
# What all open files of a task hold back to make row groups of it: what a file of one partition would.
_WAITING_BYTES_MAX = FILE_BYTES

# No column of a table is called so.
_ROW = "\0row"

Values = tuple[str | None, ...]


class _OpenFile:
    """A file that is being written."""

    def __init__(self, files: FileSystem, path: str, schema: pa.Schema, values: Mapping[str, str | None]) -> None:
        self.path, self._schema, self._values = path, schema, values
        self._files = files
        if "/" in path and files.type_name == "subtree":
            files.create_dir(path.rpartition("/")[0], recursive=True)
        self._out = files.open_output_stream(path)
        self._footers: list[pq.FileMetaData] = []
        self._writer = pq.ParquetWriter(
            self._out, schema, compression="zstd", metadata_collector=self._footers, store_schema=False
        )
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self.waiting_bytes = 0
        self.bytes = 0

    def add(self, rows: pa.RecordBatch) -> None:
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self.waiting_bytes += rows.nbytes
        self.bytes += rows.nbytes
        if self._waiting_rows >= _ROW_GROUP_ROWS:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting), row_group_size=_ROW_GROUP_ROWS)
            self._waiting, self._waiting_rows, self.waiting_bytes = [], 0, 0

    def finish(self) -> DataFile:
        self.flush()
        self._writer.close()
        self._out.close()
        footer = self._footers[0]
        size = int(self._files.get_file_info(self.path).size)
        entry = {
            "partition_values": dict(self._values),
            "modification_time": int(time.time() * 1000),
            "stats": delta_statistics(footer, self._schema),
        }
        return DataFile(self.path, footer.num_rows, size, entry)


def write_partitioned(
    files: FileSystem,
    rows: Iterator[pa.RecordBatch],
    partition_by: Sequence[str],
    *,
    prefix: str,
    announce: Callable[[str], None],
) -> Iterator[DataFile]:
    """Write all rows; yields a file as soon as it is complete."""
    open_files: dict[Values, _OpenFile] = {}
    for batch in rows:
        for values, part in _split(batch, partition_by):
            if values not in open_files:
                if len(open_files) >= _OPEN_MAX:
                    largest = max(open_files, key=lambda one: open_files[one].bytes)
                    yield open_files.pop(largest).finish()
                named = dict(zip(partition_by, values, strict=True))
                path = f"{_folder(named)}{prefix}-{uuid.uuid4().hex[:12]}.zstd.parquet"
                announce(path)
                open_files[values] = _OpenFile(files, path, part.schema, named)
            open_files[values].add(part)
            if open_files[values].bytes >= FILE_BYTES:
                yield open_files.pop(values).finish()
            elif sum(one.waiting_bytes for one in open_files.values()) > _WAITING_BYTES_MAX:
                max(open_files.values(), key=lambda one: one.waiting_bytes).flush()
    for one in open_files.values():
        yield one.finish()


def partition_text(value: Any) -> str | None:
    """A partition value as Delta's log writes it."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case dt.datetime():
            return value.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S.%f") if value.tzinfo else str(value)
        case dt.date() | int() | float() | Decimal() | str():
            return str(value)
        case _:
            raise TypeError(f"a table cannot be partitioned by values such as {value!r}")


def _split(batch: pa.RecordBatch, partition_by: Sequence[str]) -> Iterator[tuple[Values, pa.RecordBatch]]:
    if not batch.num_rows:
        return
    if not partition_by:
        yield (), batch
        return
    body = batch.select([name for name in batch.schema.names if name not in partition_by])
    keys = pa.Table.from_batches([batch.select(list(partition_by))])
    numbered = keys.append_column(_ROW, pa.array(np.arange(batch.num_rows)))
    # Numbers of rows, and not rows that equal a value: NaN equals nothing, and -0.0 equals 0.0, which has another text.
    groups = numbered.group_by(list(partition_by)).aggregate([(_ROW, "list")])
    values = zip(*[groups[name].to_pylist() for name in partition_by], strict=True)
    for one, rows in zip(values, groups[f"{_ROW}_list"], strict=True):
        if "" in one:
            # Delta's log has one text for both. A merge would not find such a row again, and write it a second time.
            name = partition_by[one.index("")]
            raise PipelineError(
                f"partition_by: column {name!r} has an empty text, which a Delta table reads as null: "
                f"write nullif({name}, '') AS {name} in a select step"
            )
        yield tuple(map(partition_text, one)), body.take(rows.values)


def _folder(values: Mapping[str, str | None]) -> str:
    """Folders are for people: what counts is in the log. So whatever would need escaping is left out."""
    return "".join(f"{_plain(name)}={_plain(str(value))}/" for name, value in values.items())


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", text)[:60]

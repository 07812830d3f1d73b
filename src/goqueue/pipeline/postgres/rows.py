"""Rows on their way to PostgreSQL: as text that COPY reads, sent by the executors."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv as pc
from pyspark import TaskContext
from pyspark.sql import functions as sql
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from goqueue.pipeline.errors import PipelineError
from goqueue.pipeline.postgres.statements import TASK, Target, copy_rows
from goqueue.pipeline.spark.worker_heap import settle
from goqueue.pipeline.steps import reached

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_TYPES: dict[type[DataType], str] = {
    BooleanType: "boolean",
    ByteType: "smallint",
    ShortType: "smallint",
    IntegerType: "integer",
    LongType: "bigint",
    FloatType: "real",
    DoubleType: "double precision",
    DateType: "date",
    TimestampType: "timestamptz",
    TimestampNTZType: "timestamp",
    BinaryType: "bytea",
    StructType: "jsonb",
    ArrayType: "jsonb",
    MapType: "jsonb",
}
# Quotes around every text but null: so an empty text and no text differ, as COPY reads them. Numbers need none.
_WRITE = pc.WriteOptions(include_header=False, quoting_style="needed")
RESULT = "task bigint, rows bigint"
_RESULT = pa.schema([("task", pa.int64()), ("rows", pa.int64())])


def column_type(kind: DataType) -> str:
    """The type of a column that is made for values of this one."""
    if isinstance(kind, DecimalType):
        return f"numeric({kind.precision},{kind.scale})"
    return _TYPES.get(type(kind), "text")


def as_text(frame: DataFrame, name: str) -> Column:
    """A column as COPY can read it: bytes in hexadecimal, nested values as JSON, the rest as it is."""
    column = sql.col(f"`{name}`")
    kind = frame.schema[name].dataType
    if isinstance(kind, BinaryType):
        return sql.concat(sql.lit("\\x"), sql.hex(column)).alias(name)
    if isinstance(kind, StructType | ArrayType | MapType):
        return sql.to_json(column).alias(name)
    return column.alias(name)


class CopyTask:
    """Runs in the executors: sends its rows in one transaction under a number of its own, which it returns.

    A task that Spark runs again has another number; the driver takes the rows of those numbers that came back.
    """

    def __init__(self, url: str, target: Target, stage: str, columns: Sequence[str], batch: int) -> None:
        self._url, self._target, self._stage = url, target, stage
        self._columns, self._batch = tuple(columns), batch

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Send all rows; yields the task's number, and theirs."""
        import psycopg

        settle()
        # No two attempts of a Spark application share it, and no two applications a staging table.
        task = _attempt()
        try:
            count = self._send(batches, task)
        except psycopg.Error as error:
            # It names the row and the column: what a user needs of it, without the stack of a worker.
            raise PipelineError(f"PostgreSQL: {' '.join(str(error).split())}") from None
        reached("postgres-copy", self._batch)
        yield pa.RecordBatch.from_arrays([pa.array([task], pa.int64()), pa.array([count], pa.int64())], schema=_RESULT)

    def _send(self, batches: Iterator[pa.RecordBatch], task: int) -> int:
        import psycopg

        count = 0
        statement = copy_rows(self._target, self._stage, [*self._columns, TASK])
        with (
            psycopg.connect(self._url, application_name="goqueue") as connection,
            connection.cursor() as cursor,
            cursor.copy(statement.encode()) as copy,
        ):
            for batch in batches:
                if batch.num_rows:
                    numbered = batch.append_column(TASK, pa.repeat(pa.scalar(task), batch.num_rows))
                    text = io.BytesIO()
                    pc.write_csv(numbered, text, _WRITE)
                    copy.write(text.getbuffer())
                    count += batch.num_rows
        return count


def _attempt() -> int:
    context = TaskContext.get()
    return os.getpid() if context is None else int(context.taskAttemptId())

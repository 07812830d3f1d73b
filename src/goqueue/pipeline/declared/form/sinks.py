"""Where a pipeline writes: topics, files, tables of lakes and databases."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from goqueue.pipeline.declared.form.words import Form, Name, Version, text_of


class Sink(Form, kw_only=True):
    """What all sinks have."""

    name: Name | UnsetType = UNSET
    from_: Name | UnsetType = msgspec.field(name="from", default=UNSET)

    def reads(self) -> list[str]:
        """The name it reads; empty means the last step."""
        return [] if self.from_ is UNSET else [self.from_]

    def is_written_by_spark(self) -> bool:
        """Whether Spark's own writer of a stream does it, with a memory of batches that is its own."""
        return False


class TopicSink(Sink, kw_only=True):
    """A topic, exactly once unless told otherwise. Rows become JSON unless they have a `value` column.

    `update` writes the rows of a result that have changed, `complete` also a tombstone for each key that the result has
    no more: a compacted topic then holds the result. `delete_when` writes a tombstone in place of the row.

    With a `subject` of the registry, values are encoded by that schema; `register` derives it from the columns and
    registers it when the query starts. A row that does not fit is a dead letter, or fails the run if there are none.
    """

    topic: str
    key: str | UnsetType = UNSET
    value: str | UnsetType = UNSET
    subject: Annotated[str, Meta(min_length=1)] | UnsetType = UNSET
    version: Version | UnsetType = UNSET
    register: Literal["avro", "json"] | UnsetType = UNSET
    mode: Literal["append", "update", "complete"] = "append"
    delete_when: str | UnsetType = UNSET
    exactly_once: bool = True
    options: dict[str, str] = {}


class ParquetSink(Sink, kw_only=True):
    """A folder of Parquet files with Spark's own commit log."""

    path: str
    partition_by: list[str] = []

    def is_written_by_spark(self) -> bool:
        """It is."""
        return True


class TableSink(Sink, kw_only=True):
    """A table: rows are appended, or merged by keys. A batch that is replayed writes nothing.

    `upsert` inserts and updates. `merge` also deletes, by `delete_when`. `cdc` takes changes as the step `debezium`
    gives them: `_op`, `_sequence` and `_changed_ms` say what to do, and are not stored.
    """

    mode: Literal["append", "upsert", "merge", "cdc"] = "append"
    keys: list[str] = []
    # of two rows with one key, the one with the higher value is newer
    sequence: str | UnsetType = UNSET
    delete_when: str | UnsetType = UNSET
    add_columns: bool = False


class LakeSink(TableSink, kw_only=True):
    """A table of files. With `writer: spark`, Spark appends to it by the jars that its session has."""

    writer: Literal["goqueue", "spark"] = "goqueue"

    def is_written_by_spark(self) -> bool:
        """Whether it is."""
        return self.writer == "spark"


class DeltaSink(LakeSink, kw_only=True):
    """A Delta table. `options` are those of the package deltalake for the store, such as AWS_REGION.

    With `writer: spark`, delta-spark writes it, and `options` are those of its writer.
    """

    path: str
    partition_by: list[str] = []
    options: dict[str, str] = {}


class IcebergSink(LakeSink, kw_only=True):
    """An Iceberg table in a catalog that pyiceberg knows: by its `name`, or by `type`, `uri` and so on.

    `partition_by` takes columns and transforms, as in day(at) or bucket(16, id). With `writer: spark`, Iceberg's
    runtime writes the table, whose name begins with a catalog of Spark's.
    """

    table: Annotated[str, text_of(r"^[^.]+(\.[^.]+)+$", "write namespace.table, as in lake.events")]
    catalog: dict[str, str] = {}
    partition_by: list[str] = []


class PostgresSink(TableSink, kw_only=True):
    """A table of PostgreSQL 15 or newer. What the url leaves out, such as the password, libpq's variables say."""

    url: Annotated[str, text_of(r"^postgres(ql)?://", "write postgresql://user@host/database")]
    table: Annotated[str, text_of(r"^[^.]+(\.[^.]+)?$", "write table or schema.table")]


class ConsoleSink(Sink, kw_only=True):
    """Shows the first rows of every batch, to look at while one writes the pipeline."""

    rows: Annotated[int, Meta(ge=1, le=1000)] = 20


SINKS: dict[str, type[Sink]] = {
    "topic": TopicSink,
    "parquet": ParquetSink,
    "delta": DeltaSink,
    "iceberg": IcebergSink,
    "postgres": PostgresSink,
    "console": ConsoleSink,
}

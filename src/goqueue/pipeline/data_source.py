"""`format("goqueue")`: the data source that Spark finds, with its readers and writers."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from goqueue.pipeline.errors import BadOption, in_one_line
from goqueue.pipeline.queue.options import QueueOptions, is_queue, parse_queue_options
from goqueue.pipeline.queue.stream_reader import QueueStreamReader
from goqueue.pipeline.sink.sink_options import SinkOptions, check_columns, parse_sink_options
from goqueue.pipeline.sink.writers import BatchWriter, StreamWriter
from goqueue.pipeline.source.batch_reader import BatchReader, FilteringBatchReader
from goqueue.pipeline.source.options import OF_SCHEMA, SourceOptions, parse_source_options
from goqueue.pipeline.source.stream_reader import StreamReader
from goqueue.pipeline.source.table_reader import TableReader
from goqueue.pipeline.sql_tables import fields_of, is_table, options_of, sink_options_of, table_options, with_options

if TYPE_CHECKING:
    from goqueue.pipeline.typed.pinned import Pinned

_PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


class GoQueueSource(DataSource):
    """Topics of a GoQueue (or any Kafka) broker."""

    @classmethod
    def name(cls) -> str:
        """The word in `format(...)`."""
        return "goqueue"

    @in_one_line
    def schema(self) -> StructType | str:
        """The columns that the options ask for."""
        if is_queue(self.options):
            queue = parse_queue_options(self.options)
            return ", ".join(f"{name} {queue.kinds[name]}" for name in queue.columns)
        options = parse_source_options(table_options(self.options))
        kinds = {name: options.kinds[name] for name in options.columns}
        if options.schema is not None:
            from goqueue.pipeline.typed.pinned import pin, typed_fields

            pinned = pin(options)
            fields = with_options(kinds, self.options) if is_table(self.options) else fields_of(kinds)
            return fields if pinned is None else typed_fields(fields, pinned)
        if is_table(self.options):
            return with_options(kinds, self.options)
        return ", ".join(f"{name} {kind}" for name, kind in kinds.items())

    @in_one_line
    def reader(self, schema: StructType) -> BatchReader:
        """For `spark.read`."""
        if is_queue(self.options):
            raise BadOption("mode", "a queue is read as a stream: use spark.readStream")
        options = parse_source_options(self.options or options_of(schema))
        columns, pinned = _columns(options, schema), _pinned(options, schema)
        if options.as_table:
            return TableReader(options, columns, pinned)
        if options.push_filters and _may_push_filters():
            return FilteringBatchReader(options, columns, pinned)
        return BatchReader(options, columns, pinned)

    @in_one_line
    def streamReader(self, schema: StructType) -> StreamReader | QueueStreamReader:  # noqa: N802 - the name is Spark's
        """For `spark.readStream`."""
        if is_queue(self.options):
            return QueueStreamReader(_queue_options(self.options, schema))
        options = parse_source_options(self.options or options_of(schema))
        return StreamReader(options, _columns(options, schema), _pinned(options, schema))

    @in_one_line
    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:  # noqa: FBT001 - Spark's
        """For `df.write`."""
        return BatchWriter(self._sink(schema, overwrite=overwrite))

    @in_one_line
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: FBT001, N802 - Spark's
        """For `writeStream`."""
        return StreamWriter(self._sink(schema, overwrite=overwrite), schema)

    def _sink(self, schema: StructType, *, overwrite: bool) -> SinkOptions:
        options = parse_sink_options(self.options or sink_options_of(schema))
        if overwrite:
            raise BadOption("mode", "a topic is appended to, never overwritten: use mode('append')")
        check_columns(options, schema)
        if options.schema is None:
            return options
        # Imported only where a schema is asked for: it needs the extra.
        from goqueue.pipeline.typed.encoding import schema_to_write

        return replace(options, schema_id=schema_to_write(options, schema))


def _may_push_filters() -> bool:
    """Whether this process is the planner that hands filters down, which runs only when that is on."""
    return _PUSHDOWN_WORKER in sys.modules or getattr(sys.modules["__main__"].__spec__, "name", "") == _PUSHDOWN_WORKER


def _queue_options(given: Mapping[str, str], schema: StructType) -> QueueOptions:
    options = parse_queue_options(given)
    return replace(options, columns=tuple(_columns(options, schema)))


def _pinned(options: SourceOptions, schema: StructType) -> Pinned | None:
    if options.schema is None:
        return None
    from goqueue.pipeline.typed.pinned import pin

    return pin(options, schema)


def _columns(options: SourceOptions | QueueOptions, schema: StructType) -> list[str]:
    """The columns of a schema that the user gave by `.schema(...)`, which must be some of ours."""
    columns = []
    is_typed = isinstance(options, SourceOptions) and options.schema is not None
    for field in schema.fields:
        if is_typed and field.name in OF_SCHEMA:
            columns.append(field.name)
            continue
        kind: Any = options.kinds.get(field.name)
        if kind is None:
            raise BadOption("schema", f"there is no column {field.name!r}; there are {', '.join(options.kinds)}")
        if field.dataType.simpleString() != kind:
            raise BadOption("schema", f"column {field.name} is {kind}, not {field.dataType.simpleString()}")
        columns.append(field.name)
    return columns

"""Sinks: where the rows of a frame go, each as a streaming query of its own with its own checkpoint.

A sink that fails and is started again reads on from its own place; the others do not wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET
from pyspark.sql import functions as sql

from goqueue.pipeline.declared.checks.subjects import schema_named
from goqueue.pipeline.declared.form.intervals import spark_interval
from goqueue.pipeline.declared.form.sinks import (
    ConsoleSink,
    DeltaSink,
    IcebergSink,
    ParquetSink,
    PostgresSink,
    Sink,
    TopicSink,
)
from goqueue.pipeline.declared.form.spec import Pipeline
from goqueue.pipeline.declared.frames.parsing import ORIGIN
from goqueue.pipeline.declared.running.state import state_at
from goqueue.pipeline.declared.running.tables import lake_writer, of_query, postgres_writer
from goqueue.pipeline.paths import spark_address

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

DEAD_LETTERS = "dead_letters"
# The metric under which Spark reports how many rows a query wrote.
WRITTEN = "written"


def start_sink(pipeline: Pipeline, name: str, sink: Sink, frame: DataFrame) -> StreamingQuery:
    """Begin to write a frame to a sink."""
    table = sink.table if isinstance(sink, IcebergSink) and sink.is_written_by_spark() else None
    return started(pipeline, name, _writer(pipeline, name, sink, counted(frame)), table)


def counted(frame: DataFrame) -> DataFrame:
    """The same rows; Spark reports how many there were with every batch."""
    return frame.observe(WRITTEN, sql.count(sql.lit(1)).alias("rows"))


def start_dead_letters(pipeline: Pipeline, bad: DataFrame) -> StreamingQuery:
    """Begin to write bad rows to the dead-letter topic."""
    rows = dead_letter_messages(counted(bad))
    sink = TopicSink(topic=str(pipeline.dead_letters))
    return started(pipeline, DEAD_LETTERS, rows.writeStream.format("goqueue").options(**topic_options(pipeline, sink)))


def dead_letter_messages(bad: DataFrame) -> DataFrame:
    """Bad rows as messages: the bytes as they came, what is wrong as headers."""
    details = {"goqueue-error": "error", "goqueue-pipeline-step": "step"} | {
        f"goqueue-origin-{name}": name for name in ORIGIN
    }
    headers = sql.array(
        *[
            sql.struct(sql.lit(header).alias("key"), sql.col(name).cast("binary").alias("value"))
            for header, name in details.items()
        ]
    )
    return bad.select("key", "value", headers.alias("headers"))


def group_of(pipeline: Pipeline, sink: str) -> str:
    """The group under which the broker shows how far a sink has come."""
    return f"pipeline.{pipeline.name}.{sink}"


def started(pipeline: Pipeline, name: str, writer: DataStreamWriter, table: str | None = None) -> StreamingQuery:
    """Start a query, with its name and checkpoint and the pipeline's trigger; into a table of Spark's, if it is one."""
    query = f"{pipeline.name}.{name}"
    writer = writer.queryName(query).option("checkpointLocation", spark_address(checkpoint_of(pipeline, name)))
    if pipeline.trigger in ("available-now", "once"):
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=spark_interval(pipeline.trigger))
    return writer.start() if table is None else writer.toTable(table)


def checkpoint_of(pipeline: Pipeline, query: str) -> str:
    """Where a query keeps its checkpoint: the same place for this process, for Spark, and for whoever runs a batch."""
    return f"{state_at(pipeline.checkpoint_path).address}/{query}"


def _writer(pipeline: Pipeline, name: str, sink: Sink, frame: DataFrame) -> DataStreamWriter:
    match sink:
        case TopicSink():
            return messages(sink, frame).writeStream.format("goqueue").options(**topic_options(pipeline, sink))
        case ParquetSink():
            writer = frame.writeStream.format("parquet").option("path", sink.path)
            return writer.partitionBy(*sink.partition_by) if sink.partition_by else writer
        case DeltaSink() | IcebergSink() if sink.is_written_by_spark():
            return _of_spark(sink, frame)
        case DeltaSink() | IcebergSink():
            return frame.writeStream.foreachBatch(of_query(lake_writer(sink), checkpoint_of(pipeline, name)))
        case PostgresSink():
            return frame.writeStream.foreachBatch(of_query(postgres_writer(sink), checkpoint_of(pipeline, name)))
        case ConsoleSink():
            return frame.writeStream.format("console").option("numRows", str(sink.rows)).option("truncate", "false")
        case _:
            raise TypeError(f"nothing can be written to {type(sink).__name__}")


def _of_spark(sink: DeltaSink | IcebergSink, frame: DataFrame) -> DataStreamWriter:
    """By the jars of the session, which know a batch that is replayed by the query and its number."""
    if isinstance(sink, IcebergSink):
        writer = frame.writeStream.format("iceberg").option("fanout-enabled", "true")
    else:
        writer = frame.writeStream.format("delta").option("path", spark_address(sink.path)).options(**sink.options)
        writer = writer.option("mergeSchema", str(sink.add_columns).lower())
    return writer.partitionBy(*sink.partition_by) if sink.partition_by else writer


def topic_options(pipeline: Pipeline, sink: TopicSink) -> dict[str, str]:
    """How a topic is written."""
    options = {"kafka.bootstrap.servers": pipeline.broker, "topic": sink.topic}
    if not sink.exactly_once:
        options["guarantee"] = "at-least-once"
    if sink.subject is not UNSET:
        options["schemaRegistryUrl"] = pipeline.registry
        if sink.register is UNSET:
            options["schema"] = schema_named(sink)
        else:
            options |= {"schema": sink.register, "schemaSubject": sink.subject}
        if pipeline.dead_letters is not UNSET:
            options["deadLetterTopic"] = pipeline.dead_letters
    return options | sink.options


def messages(sink: TopicSink, frame: DataFrame) -> DataFrame:
    """Rows as messages: a row without a `value` of its own becomes a JSON object, one that deletes a tombstone.

    With a subject the value stays a struct, which the sink encodes; the column `key` is then not part of it.
    """
    columns: list[Column] = []
    if sink.key is not UNSET:
        columns.append(sql.expr(sink.key).cast("string").cast("binary").alias("key"))
    elif "key" in frame.columns:
        columns.append(sql.col("key").cast("binary").alias("key"))
    if sink.value is not UNSET:
        value = sql.expr(sink.value)
    elif "value" in frame.columns:
        value = sql.col("value")
    elif sink.subject is not UNSET:
        own = [name for name in frame.columns if name != "key" or sink.key is not UNSET]
        value = sql.struct(*[sql.col(f"`{name}`") for name in own])
    else:
        value = sql.to_json(sql.struct(*[sql.col(f"`{name}`") for name in frame.columns]))
    if sink.delete_when is not UNSET:
        value = sql.when(~sql.coalesce(sql.expr(sink.delete_when), sql.lit(False)), value)
    columns.append((value.cast("binary") if sink.subject is UNSET else value).alias("value"))
    return frame.select(*columns)

"""Sinks: where the rows of a frame go, each as a streaming query of its own with its own checkpoint.

A sink that fails and is started again reads on from its own place; the others do not wait for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import UNSET
from pyspark.sql import functions as sql

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
from goqueue.pipeline.declared.running.tables import lake_writer, postgres_writer

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

DEAD_LETTERS = "dead_letters"
# The metric under which Spark reports how many rows a query wrote.
WRITTEN = "written"


def start_sink(pipeline: Pipeline, name: str, sink: Sink, frame: DataFrame) -> StreamingQuery:
    """Begin to write a frame to a sink."""
    counted = frame.observe(WRITTEN, sql.count(sql.lit(1)).alias("rows"))
    return _started(pipeline, name, _writer(pipeline, sink, counted))


def start_dead_letters(pipeline: Pipeline, bad: DataFrame) -> StreamingQuery:
    """Begin to write bad rows to the dead-letter topic: the bytes as they came, what is wrong as headers."""
    details = {"goqueue-error": "error", "goqueue-pipeline-step": "step"} | {
        f"goqueue-origin-{name}": name for name in ORIGIN
    }
    headers = sql.array(
        *[
            sql.struct(sql.lit(header).alias("key"), sql.col(name).cast("binary").alias("value"))
            for header, name in details.items()
        ]
    )
    counted = bad.observe(WRITTEN, sql.count(sql.lit(1)).alias("rows"))
    rows = counted.select("key", "value", headers.alias("headers"))
    return _started(pipeline, DEAD_LETTERS, _to_topic(pipeline, rows, str(pipeline.dead_letters), exactly_once=True))


def group_of(pipeline: Pipeline, sink: str) -> str:
    """The group under which the broker shows how far a sink has come."""
    return f"pipeline.{pipeline.name}.{sink}"


def _started(pipeline: Pipeline, name: str, writer: DataStreamWriter) -> StreamingQuery:
    query = f"{pipeline.name}.{name}"
    writer = writer.queryName(query).option("checkpointLocation", str(Path(pipeline.checkpoint_path) / name))
    if pipeline.trigger in ("available-now", "once"):
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=spark_interval(pipeline.trigger)).start()


def _writer(pipeline: Pipeline, sink: Sink, frame: DataFrame) -> DataStreamWriter:
    match sink:
        case TopicSink():
            writer = _to_topic(pipeline, _messages(sink, frame), sink.topic, exactly_once=sink.exactly_once)
            return writer.options(**sink.options)
        case ParquetSink():
            writer = frame.writeStream.format("parquet").option("path", sink.path)
            return writer.partitionBy(*sink.partition_by) if sink.partition_by else writer
        case DeltaSink() | IcebergSink():
            return frame.writeStream.foreachBatch(lake_writer(sink))
        case PostgresSink():
            return frame.writeStream.foreachBatch(postgres_writer(sink))
        case ConsoleSink():
            return frame.writeStream.format("console").option("numRows", str(sink.rows)).option("truncate", "false")
        case _:
            raise TypeError(f"nothing can be written to {type(sink).__name__}")


def _to_topic(pipeline: Pipeline, rows: DataFrame, topic: str, *, exactly_once: bool) -> DataStreamWriter:
    writer = (
        rows.writeStream.format("goqueue").option("kafka.bootstrap.servers", pipeline.broker).option("topic", topic)
    )
    return writer if exactly_once else writer.option("guarantee", "at-least-once")


def _messages(sink: TopicSink, frame: DataFrame) -> DataFrame:
    """Rows as messages: a row without a `value` of its own becomes a JSON object."""
    columns: list[Column] = []
    if sink.key is not UNSET:
        columns.append(sql.expr(sink.key).cast("string").cast("binary").alias("key"))
    elif "key" in frame.columns:
        columns.append(sql.col("key").cast("binary").alias("key"))
    if sink.value is not UNSET:
        value = sql.expr(sink.value)
    elif "value" in frame.columns:
        value = sql.col("value")
    else:
        value = sql.to_json(sql.struct(*[sql.col(f"`{name}`") for name in frame.columns]))
    columns.append(value.cast("binary").alias("value"))
    return frame.select(*columns)

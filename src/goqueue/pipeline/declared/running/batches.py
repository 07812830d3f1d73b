"""Queries that take their stream batch by batch: several sinks of one read, functions over batches, output modes.

Every batch is a table. What lies behind the step at which the stream was cut is built of it, and each sink writes it
under the name of the query and of the sink, with the number of the batch: a batch that is replayed, because a later
sink failed or the driver was killed, is written by those sinks that do not have it yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from goqueue.pipeline.declared.checks.streams import QueryPlan
from goqueue.pipeline.declared.form.sinks import (
    ConsoleSink,
    DeltaSink,
    IcebergSink,
    PostgresSink,
    Sink,
    TopicSink,
)
from goqueue.pipeline.declared.form.spec import Pipeline
from goqueue.pipeline.declared.frames.build import Built
from goqueue.pipeline.declared.running.sinks import (
    checkpoint_of,
    counted,
    dead_letter_messages,
    messages,
    started,
    topic_options,
)
from goqueue.pipeline.declared.running.tables import WriteBatch, lake_writer, postgres_writer, query_of
from goqueue.pipeline.lake.table import Batch
from goqueue.pipeline.steps import reached

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

# What lies behind the cut, built of one batch.
BuildBatch = Callable[["DataFrame", int], Built]


def start_batches(pipeline: Pipeline, plan: QueryPlan, frame: DataFrame, build_batch: BuildBatch) -> StreamingQuery:
    """Begin to take batches of a frame, and to write each to all sinks of the query."""
    sinks = {name: pipeline.sinks[name] for name in plan.sinks}
    writers = {name: batch_writer(pipeline, name, sink) for name, sink in sinks.items()}
    checkpoint = checkpoint_of(pipeline, plan.name)

    def write(batch: DataFrame, number: int) -> None:
        # Read once, whatever the number of sinks: each of them would read the topic for itself.
        kept = batch.persist() if len(writers) > 1 else batch
        try:
            built = build_batch(kept, number)
            query = query_of(batch, checkpoint)
            for name, writer in writers.items():
                writer(built.frames[sinks[name].reads()[0]], Batch(f"{query}.{name}", number))
                reached(f"sink-{name}", number)
        finally:
            if kept is not batch:
                kept.unpersist()

    # A sink with another mode than append has a query of its own.
    modes = [sink.mode for sink in sinks.values() if isinstance(sink, TopicSink)] or ["append"]
    return started(pipeline, plan.name, counted(frame).writeStream.foreachBatch(write).outputMode(modes[0]))


def batch_writer(pipeline: Pipeline, name: str, sink: Sink) -> WriteBatch:
    """Writes a table to a sink, once for each name and number of a batch."""
    match sink:
        case TopicSink():
            return _topic_writer(pipeline, sink)
        case DeltaSink() | IcebergSink():
            return lake_writer(sink)
        case PostgresSink():
            return postgres_writer(sink)
        case ConsoleSink():
            return lambda frame, _batch: frame.show(sink.rows, truncate=False)
        case _:
            raise TypeError(f"{name}: batches cannot be written to {type(sink).__name__}")


def dead_letter_writer(pipeline: Pipeline) -> WriteBatch:
    """Writes bad rows to the dead-letter topic."""
    topic = str(pipeline.dead_letters)
    return lambda bad, batch: _send(pipeline, TopicSink(topic=topic), dead_letter_messages(bad), batch)


def _topic_writer(pipeline: Pipeline, sink: TopicSink) -> WriteBatch:
    def write(frame: DataFrame, batch: Batch) -> None:
        rows = messages(sink, frame)
        if sink.mode != "append":
            rows = with_keys(sink, rows)
        _send(pipeline, sink, _changed(pipeline, sink, rows) if sink.mode == "complete" else rows, batch)

    return write


def with_keys(sink: TopicSink, rows: DataFrame) -> DataFrame:
    """The same rows; one without a key fails the batch, for no later one could take its place."""
    told = (
        f"a row of the result has no key, for {sink.key} is null: filter such rows out, or give them one as in "
        f"key: coalesce({sink.key}, 'none')"
    )
    lacks_key = sql.col("key").isNull()
    return rows.filter(sql.when(lacks_key, sql.raise_error(sql.lit(told)).cast("boolean")).otherwise(sql.lit(True)))


def _send(pipeline: Pipeline, sink: TopicSink, rows: DataFrame, batch: Batch) -> None:
    options = topic_options(pipeline, sink)
    if sink.exactly_once:
        options |= {"writer": f"spark-{batch.query}", "epoch": str(batch.number)}
    rows.write.format("goqueue").options(**options).mode("append").save()


def _changed(pipeline: Pipeline, sink: TopicSink, rows: DataFrame) -> DataFrame:
    """What makes of the topic's latest values the result: rows that differ, and tombstones for keys that are gone."""
    # As the user of the sink, at the brokers of the sink.
    kafka = {name: value for name, value in sink.options.items() if name.lower().startswith("kafka.")}
    options = {"kafka.bootstrap.servers": pipeline.broker, **kafka, "subscribe": sink.topic, "as": "table"}
    known = rows.sparkSession.read.format("goqueue").options(**options).load()
    known = known.select(sql.col("key").alias("old_key"), sql.col("value").alias("old_value"))
    both = rows.join(known, rows["key"] == known["old_key"], "full_outer")
    return both.filter(~sql.col("value").eqNullSafe(sql.col("old_value"))).select(
        sql.coalesce("key", "old_key").alias("key"), "value"
    )

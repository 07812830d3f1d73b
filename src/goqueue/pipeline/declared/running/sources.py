"""Sources of a run as frames: topics as streams, topics as tables, files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import UNSET
from pyspark.sql import functions as sql

from goqueue.pipeline.declared.checks.subjects import schema_named
from goqueue.pipeline.declared.form.sources import Source
from goqueue.pipeline.declared.form.spec import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_source(spark: SparkSession, options: Mapping[str, str], pipeline: Pipeline, source: Source) -> DataFrame:
    """A source as a frame; a topic is a stream, with these options."""
    if source.topic is not UNSET:
        return spark.readStream.format("goqueue").options(**options).load()
    if source.table is not UNSET:
        return _table(spark, pipeline, source)
    reader = spark.read.format(source.format).options(**source.options)
    return (reader if source.schema is UNSET else reader.schema(source.schema)).load(str(source.files))


def _table(spark: SparkSession, pipeline: Pipeline, source: Source) -> DataFrame:
    options = {
        "kafka.bootstrap.servers": pipeline.broker,
        "subscribe": str(source.table),
        "as": "table",
        "failOnDataLoss": str(source.fail_on_data_loss).lower(),
        **_subject(pipeline, source),
    }
    rows = spark.read.format("goqueue").options(**options | source.options).load()
    if source.schema is UNSET:
        return rows
    # A value that does not fit fails the batch: a join with a row that is half there would be wrong in silence.
    opened = sql.from_json(sql.col("value").cast("string"), str(source.schema), {"mode": "FAILFAST"})
    return rows.select(opened.alias("row")).select("row.*")


def topic_options(pipeline: Pipeline, source: Source, group: str) -> dict[str, str]:
    """How a topic is read: in a group, so that its lag can be seen."""
    options = {
        "kafka.bootstrap.servers": pipeline.broker,
        "subscribe": str(source.topic),
        "failOnDataLoss": str(source.fail_on_data_loss).lower(),
        "groupId": group,
    } | _beginning(source)
    if source.max_per_batch is not UNSET:
        options["maxOffsetsPerTrigger"] = str(source.max_per_batch)
    return options | _subject(pipeline, source) | source.options


def _beginning(source: Source) -> dict[str, str]:
    if source.start_ms is None:
        return {"startingOffsets": source.start}
    # In a partition without a message as young as that, with the next one that comes.
    return {"startingTimestamp": str(source.start_ms), "startingOffsetsByTimestampStrategy": "latest"}


def _subject(pipeline: Pipeline, source: Source) -> dict[str, str]:
    """What has values decoded; those that do not decode keep their bytes unless they end the run."""
    if source.subject is UNSET:
        return {}
    fails = source.table is not UNSET or source.undecodable == "fail"
    return {
        "schema": schema_named(source),
        "schemaRegistryUrl": pipeline.registry,
        "schemaErrors": "fail" if fails else "column",
    }

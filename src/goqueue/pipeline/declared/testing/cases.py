"""The tests of a pipeline: given rows go through its steps, and what comes out is compared.

No broker: first all rows as a table, which says what comes out, then as a stream of several micro-batches.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from goqueue.pipeline.declared.checks.streams import aggregates, before
from goqueue.pipeline.declared.checks.subjects import registry_of, schema_named
from goqueue.pipeline.declared.form.sinks import TopicSink
from goqueue.pipeline.declared.form.sources import Source
from goqueue.pipeline.declared.form.spec import Case, Pipeline, Rows
from goqueue.pipeline.declared.frames.build import Built, build, make_importable
from goqueue.pipeline.declared.frames.subjects import decoded_json
from goqueue.pipeline.declared.running.sinks import DEAD_LETTERS
from goqueue.pipeline.declared.testing.streamed_cases import (
    BATCHES,
    ReadTable,
    is_stateful,
    stream_rows,
    takes_batches,
)
from goqueue.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

# A message as a source gives it; what a test leaves out is null.
MESSAGE_SCHEMA = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one test; without differences it passed."""

    case: str
    differences: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether everything was as expected."""
        return not self.differences


def run_cases(pipeline: Pipeline, spark: SparkSession, *, folder: Path | None = None) -> list[Outcome]:
    """Run every test of the pipeline; modules of its Python steps may lie in `folder`."""
    if folder is not None:
        make_importable(folder)
    kinds = _kinds(pipeline)
    return [_run(pipeline, case, spark, kinds) for case in pipeline.tests]


def _kinds(pipeline: Pipeline) -> dict[str, DataType]:
    """The types of values of sources with a subject, as the registry has them."""
    found: dict[str, DataType] = {}
    for name, source in pipeline.sources.items():
        if source.subject is not UNSET:
            from goqueue.pipeline.typed.spark_types import spark_type

            registry = registry_of(pipeline, source.options)
            found[name] = spark_type(registry.source(registry.pin(schema_named(source), "")))
    return found


def _run(pipeline: Pipeline, case: Case, spark: SparkSession, kinds: Mapping[str, DataType]) -> Outcome:
    def table(name: str, source: Source) -> DataFrame:
        return _table(spark, name, source, case.given[name], kinds.get(name))

    built = build(pipeline, table)
    differences = [
        line for name, rows in case.expect.items() for line in _compare(name, rows, _rows(pipeline, built, name))
    ]
    if not differences:
        differences = [line for name in case.expect for line in _streamed(pipeline, case, spark, name, table, kinds)]
    return Outcome(case.name, tuple(differences))


def _streamed(
    pipeline: Pipeline, case: Case, spark: SparkSession, name: str, table: ReadTable, kinds: Mapping[str, DataType]
) -> list[str]:
    read = _read_by(pipeline, name)
    if takes_batches(pipeline, read):
        return []
    messages = {
        given: _messages(given, pipeline.sources[given], rows)
        for given, rows in case.given.items()
        if pipeline.sources[given].is_stream
    }
    try:
        found = stream_rows(
            pipeline,
            spark,
            messages,
            table,
            lambda built: _frame(pipeline, built, name),
            _mode(pipeline, name, read),
            kinds,
        )
    except PipelineError as error:
        return [f"{name}: as a stream of {BATCHES} batches it fails: {error}"]
    if is_stateful(pipeline, read):
        return []
    return [f"as a stream of {BATCHES} batches, {line}" for line in _compare(name, case.expect[name], found)]


def _mode(pipeline: Pipeline, name: str, read: str) -> str:
    """The output mode of a sink, or for a step whose result changes, that of a sink behind it."""
    sink = pipeline.sinks.get(name)
    if isinstance(sink, TopicSink):
        return sink.mode
    # Mode complete is refused where nothing is added up, so a step before the first sum stays in append.
    if sink is None and any(aggregates(pipeline, step) for step in before(pipeline, read).values()):
        for one in pipeline.sinks.values():
            if isinstance(one, TopicSink) and read in before(pipeline, one.reads()[0]):
                return one.mode
    return "append"


def _table(spark: SparkSession, name: str, source: Source, rows: Rows, kind: DataType | None) -> DataFrame:
    if source.is_stream or (source.table is not UNSET and source.schema is UNSET):
        messages = spark.createDataFrame(_messages(name, source, rows), MESSAGE_SCHEMA)
        return messages if kind is None else decoded_json(messages, kind)
    text = spark.sparkContext.parallelize([json.dumps(row) for row in rows])
    reader = spark.read if source.schema is UNSET else spark.read.schema(source.schema)
    return reader.json(text)


def _messages(name: str, source: Source, rows: Rows) -> list[tuple[Any, ...]]:
    return [_message(name if source.topic is UNSET else source.topic, at, row) for at, row in enumerate(rows)]


def _message(topic: str, at: int, row: Mapping[str, Any]) -> tuple[Any, ...]:
    """A row of a test as a message: `value` may be written as JSON itself, or the row is the value."""
    body = row.get("value", row)
    meta = row if "value" in row else {}
    stamp = meta.get("timestamp", dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    stamp = dt.datetime.fromisoformat(stamp) if isinstance(stamp, str) else stamp
    return _bytes(meta.get("key")), _bytes(body), topic, meta.get("partition", 0), meta.get("offset", at), stamp


def _bytes(value: Any) -> bytearray | None:
    if value is None:
        return None
    return bytearray((value if isinstance(value, str) else json.dumps(value, default=str)).encode())


def _rows(pipeline: Pipeline, built: Built, name: str) -> Rows:
    return [row.asDict(recursive=True) for row in _frame(pipeline, built, name).collect()]


def _frame(pipeline: Pipeline, built: Built, name: str) -> DataFrame:
    return built.all_bad() if name == DEAD_LETTERS else built.frames[_read_by(pipeline, name)]


def _read_by(pipeline: Pipeline, name: str) -> str:
    """The step that a sink reads, or the step of this name itself."""
    sink = pipeline.sinks.get(name)
    return name if sink is None else sink.reads()[0]


def _compare(name: str, expected: Rows, found: Rows) -> list[str]:
    """What differs, without regard to order; only the columns that the test names are looked at."""
    missing = list(expected)
    surplus = []
    for row in found:
        match = next((one for one in missing if _fits(one, row)), None)
        if match is None:
            surplus.append(row)
        else:
            missing.remove(match)
    return [f"{name}: missing {_shown(row)}" for row in missing] + [
        f"{name}: unexpected {_shown(row)}" for row in surplus
    ]


def _fits(expected: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    return all(name in found and _plain(found[name]) == _plain(value) for name, value in expected.items())


def _plain(value: Any) -> Any:
    """A value as YAML can write it."""
    match value:
        case bytes() | bytearray():
            return bytes(value).decode(errors="replace")
        case dt.datetime():
            return value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(sep=" ")
        case dt.date():
            return value.isoformat()
        case dict():
            return {key: _plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case _:
            return value


def _shown(row: Mapping[str, Any]) -> str:
    return json.dumps({name: _plain(value) for name, value in row.items()}, default=str)

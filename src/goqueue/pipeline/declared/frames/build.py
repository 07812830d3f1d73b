"""From a pipeline to Spark's data frames: one per source and step, and one of all rows that are bad.

Where the frames of the sources come from is the caller's affair: topics and files in a run,
given rows in a test. So what is tested is what runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType

from goqueue.pipeline.declared.checks.streams import step_reads
from goqueue.pipeline.declared.checks.watermarks import delays
from goqueue.pipeline.declared.form.intervals import spark_interval
from goqueue.pipeline.declared.form.sources import Source
from goqueue.pipeline.declared.form.spec import Pipeline
from goqueue.pipeline.declared.form.steps import (
    Debezium,
    Deduplicate,
    Expect,
    Filter,
    ForeachBatch,
    Join,
    Parse,
    Python,
    Select,
    Sql,
    Step,
    Watermark,
    Window,
)
from goqueue.pipeline.declared.frames.debezium import changes
from goqueue.pipeline.declared.frames.expectations import expect
from goqueue.pipeline.declared.frames.joining import join
from goqueue.pipeline.declared.frames.parsing import parse
from goqueue.pipeline.declared.frames.subjects import opened
from goqueue.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Where Spark keeps the delay of a column with a watermark.
_DELAY = "spark.watermarkDelayMs"


@dataclass(slots=True)
class Built:
    """The frames by name; `bad` are the rows that some step could not take, as they came."""

    frames: dict[str, DataFrame] = field(default_factory=dict)
    bad: list[DataFrame] = field(default_factory=list)
    # The number of the batch that is built; a test has one batch.
    batch: int = 0

    def all_bad(self) -> DataFrame:
        """The bad rows of all steps that parse, together; there must be such a step."""
        return reduce(lambda left, right: left.unionByName(right), self.bad)


def build(
    pipeline: Pipeline,
    read: Callable[[str, Source], DataFrame],
    given: Mapping[str, DataFrame] = MappingProxyType({}),
    batch: int = 0,
) -> Built:
    """Every source and step as a frame, in the order of the file.

    Where frames are `given`, as the batches of a stream, only what lies behind them is built.
    """
    built = Built(dict(given), batch=batch)
    late = delays(pipeline)
    for name, source in pipeline.sources.items():
        if not given or not source.is_stream:
            built.frames[name] = _source(pipeline, name, source, read(name, source), built)
    for name, step in pipeline.steps.items():
        if name in given or any(one not in built.frames for one in step_reads(step)):
            continue
        inputs = [built.frames[one] for one in step_reads(step)]
        if isinstance(step, ForeachBatch) and inputs[0].isStreaming:
            # It is called with every batch, and what lies behind it is built then.
            continue
        if isinstance(step, Window | Deduplicate | Watermark) and step.time is not UNSET and name in late:
            inputs = [_with_watermark(inputs[0], step.time, late[name], name), *inputs[1:]]
        built.frames[name] = _apply(step, inputs, built, where=f"{pipeline.name}.{name}")
    return built


def _source(pipeline: Pipeline, name: str, source: Source, frame: DataFrame, built: Built) -> DataFrame:
    if source.subject is UNSET:
        return frame
    good, bad = opened(source, frame, where=f"{pipeline.name}.{name}")
    built.bad.extend([bad] if bad is not None else [])
    return good


def make_importable(folder: Path) -> None:
    """Modules of Python steps lie beside the pipeline's file."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _apply(step: Step, inputs: Sequence[DataFrame], built: Built, *, where: str) -> DataFrame:
    match step:
        case Sql():
            return _sql(step, inputs)
        case Select(columns=dict() as columns):
            return inputs[0].select(*[sql.expr(expression).alias(name) for name, expression in columns.items()])
        case Select():
            return inputs[0].selectExpr(*step.columns)
        case Filter():
            return inputs[0].filter(step.where)
        case Parse() | Debezium() | Expect():
            good, bad = _checked(step, inputs[0], where)
            built.bad.extend([bad] if bad is not None else [])
            return good
        case Window():
            return _window(step, inputs[0])
        case Deduplicate():
            return _deduplicate(step, inputs[0])
        case Watermark():
            return inputs[0]
        case Join():
            return join(step, *inputs)
        case Python():
            return _python(step, inputs[0])
        case ForeachBatch():
            return _foreach_batch(step, inputs[0], built)
        case _:
            raise TypeError(f"no frame can be made of {type(step).__name__}")


def _checked(step: Parse | Debezium | Expect, frame: DataFrame, where: str) -> tuple[DataFrame, DataFrame | None]:
    """The rows that a step takes, and those that it does not."""
    match step:
        case Parse():
            return parse(step, frame, where)
        case Debezium():
            return changes(step, frame, where)
        case Expect():
            return expect(step, frame, where)


def _sql(step: Sql, inputs: Sequence[DataFrame]) -> DataFrame:
    # Views, since that keeps the query as it was written; each session has its own.
    for name, frame in zip(step_reads(step), inputs, strict=True):
        frame.createOrReplaceTempView(name)
    return inputs[0].sparkSession.sql(step.query)


def _with_watermark(frame: DataFrame, time: str, delay: str, step: str) -> DataFrame:
    """The frame with the watermark of its stream, which is defined once."""
    if not frame.isStreaming:
        return frame
    marked = [one.name for one in frame.schema.fields if _DELAY in one.metadata]
    if not marked:
        return frame.withWatermark(time, spark_interval(delay))
    if time not in marked:
        raise PipelineError(f"step {step}: time is {time!r}, and the stream has its watermark on {marked[0]!r}")
    return frame


def _window(step: Window, frame: DataFrame) -> DataFrame:
    if step.session_gap:
        window = sql.session_window(step.time, spark_interval(step.size))
    elif step.slide is UNSET:
        window = sql.window(step.time, spark_interval(step.size))
    else:
        window = sql.window(step.time, spark_interval(step.size), spark_interval(step.slide))
    grouped = frame.groupBy(window.alias("window"), *step.by)
    totals = grouped.agg(*[sql.expr(expression).alias(name) for name, expression in step.aggregate.items()])
    bounds = [sql.col(f"window.{end}").alias(f"window_{end}") for end in ("start", "end")]
    return totals.select(*bounds, *step.by, *step.aggregate)


def _deduplicate(step: Deduplicate, frame: DataFrame) -> DataFrame:
    if step.time is UNSET or step.watermark is UNSET or not frame.isStreaming:
        # A table, as in a test, is forgotten as a whole.
        return frame.dropDuplicates(step.keys)
    return frame.dropDuplicatesWithinWatermark(step.keys)


def _foreach_batch(step: ForeachBatch, frame: DataFrame, built: Built) -> DataFrame:
    result = _function(step.function)(frame, built.batch)
    if not isinstance(result, type(frame)):
        raise PipelineError(f"step {step.name}: {step.function} returned {type(result).__name__} and not a DataFrame")
    return result


def _function(named: str) -> Any:
    module, _, name = named.partition(":")
    return getattr(import_module(module), name)


def _python(step: Python, frame: DataFrame) -> DataFrame:
    return frame.mapInArrow(_function(step.function), StructType.fromDDL(step.schema))

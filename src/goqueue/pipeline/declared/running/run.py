"""Running a pipeline: one query per sink, or per read that sinks share, watched, and started again after a failure.

The planner of a Python source is a process of its own, and its death ends the query; so does a
broker that is away for too long. A query that ended by an error is started again from its
checkpoint, ever more slowly, until it has failed too often in a row without finishing a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from pyspark.errors import AnalysisException

from goqueue.errors import GoQueueError
from goqueue.pipeline.declared.checks.streams import QueryPlan, plan_queries
from goqueue.pipeline.declared.form.sources import Source
from goqueue.pipeline.declared.form.spec import Pipeline
from goqueue.pipeline.declared.form.steps import ROWS, Expect
from goqueue.pipeline.declared.frames.build import Built, build, make_importable
from goqueue.pipeline.declared.running.batches import BuildBatch, start_batches
from goqueue.pipeline.declared.running.progress import BatchFacts, QueryProgress, progress_of
from goqueue.pipeline.declared.running.sinks import DEAD_LETTERS, group_of, start_dead_letters, start_sink
from goqueue.pipeline.declared.running.sources import read_source
from goqueue.pipeline.declared.running.starts import Starts
from goqueue.pipeline.errors import told_by_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

# Milliseconds that never run backwards.
NowMs = Callable[[], int]
# Takes the batches that a query has finished since the last look.
NoteBatches = Callable[[str, Sequence[BatchFacts]], None]

FAILURES_MAX = 5
# A planner that did not start within ten seconds, for which Spark has no setting: the machine is busy.
_BUSY, BUSY_FAILURES_MAX = "Python worker failed to connect back", 20
# Spark's name for an error in a source's own code, such as a broker that does not answer.
_SOURCE_FAILED = "PYTHON_DATA_SOURCE_ERROR"
# What is told of a registry that does not answer, which may be there again in a moment.
_UNREACHED = "option schemaRegistryUrl"
_PAUSE_MS, _PAUSE_MS_MAX = 1_000, 30_000


class PipelineFailed(GoQueueError):
    """A sink failed again and again; says with what."""


@dataclass(slots=True)
class _Sink:
    """One query and its history."""

    name: str
    start: Callable[[], StreamingQuery]
    query: StreamingQuery | None = None
    is_done: bool = False
    restarts: int = 0
    failures_in_row: int = 0
    batches_seen: int = -1
    resume_at_ms: int = 0
    last_error: str | None = None
    progress: QueryProgress = field(default_factory=QueryProgress)


class PipelineRun:
    """A pipeline that runs. Call `step` every now and then until it says that all is done."""

    def __init__(
        self,
        pipeline: Pipeline,
        spark: SparkSession,
        *,
        now_ms: NowMs,
        folder: Path | None = None,
        note: NoteBatches = lambda _sink, _batches: None,
    ) -> None:
        self._pipeline = pipeline
        self._spark = spark
        self._now_ms = now_ms
        self._note = note
        if folder is not None:
            make_importable(folder)
        self._sinks = [_Sink(plan.name, self._starter(plan)) for plan in plan_queries(pipeline)]
        if pipeline.dead_letters is not UNSET and pipeline.dead_letter_origins():
            self._sinks.append(_Sink(DEAD_LETTERS, self._dead_letters))

    def step(self) -> bool:
        """Start what should run, look at what does; True once every query has ended in order."""
        for sink in self._sinks:
            self._tend(sink)
        return all(sink.is_done for sink in self._sinks)

    def stop(self) -> None:
        """End after the batches that are being written."""
        for sink in self._sinks:
            if sink.query is not None:
                sink.query.stop()
                self._look(sink, sink.query)

    def status(self) -> list[dict[str, Any]]:
        """How every sink fares, for people and programs."""
        return [
            {
                "sink": sink.name,
                "group": group_of(self._pipeline, sink.name),
                "active": sink.query is not None and sink.query.isActive,
                **sink.progress.as_dict(),
                "restarts": sink.restarts,
                "last_error": sink.last_error,
            }
            for sink in self._sinks
        ]

    def _tend(self, sink: _Sink) -> None:
        if sink.query is None:
            if self._now_ms() >= sink.resume_at_ms:
                self._start(sink)
            return
        # In this order: what is told of a query that has ended is all there is to tell.
        is_active = sink.query.isActive
        self._look(sink, sink.query)
        if sink.progress.batch > sink.batches_seen:
            sink.batches_seen = sink.progress.batch
            sink.failures_in_row = 0
            sink.last_error = None
            self._check_shares(sink)
        if is_active:
            return
        error = sink.query.exception()
        if error is None:
            sink.is_done = True
        else:
            self._failed(sink, error)

    def _look(self, sink: _Sink, query: StreamingQuery) -> None:
        before, sink.progress = sink.progress, progress_of(query, sink.progress)
        if sink.progress is not before:
            self._note(sink.name, sink.progress.fresh)

    def _check_shares(self, sink: _Sink) -> None:
        """End the run if too many rows of a batch broke a rule; the batch itself is written."""
        for batch in sink.progress.fresh:
            for name, found in batch.expectations.items():
                step = self._pipeline.steps.get(name)
                for rule, wanted in step.rules_by_name().items() if isinstance(step, Expect) else ():
                    broken, rows = found.get(rule, 0), found.get(ROWS, 0)
                    if wanted.fail_above is not UNSET and rows and broken / rows > wanted.fail_above:
                        raise PipelineFailed(
                            f"{broken} of {rows} rows of a batch broke the rule {rule} of step {name}, more than "
                            f"fail_above {wanted.fail_above} allows"
                        )

    def _start(self, sink: _Sink) -> None:
        try:
            sink.query = sink.start()
        except Exception as error:  # noqa: BLE001 - Spark raises what it finds while planning, of many types
            self._failed(sink, error)

    def _failed(self, sink: _Sink, error: BaseException) -> None:
        sink.last_error = told_by_spark(error)
        if _is_for_good(error):
            raise PipelineFailed(f"{sink.name} cannot run: {sink.last_error}") from None
        sink.failures_in_row += 1
        if sink.failures_in_row >= (BUSY_FAILURES_MAX if _BUSY in sink.last_error else FAILURES_MAX):
            raise PipelineFailed(f"{sink.name} failed {sink.failures_in_row} times in a row: {sink.last_error}")
        sink.restarts += 1
        sink.query = None
        pause_ms = min(_PAUSE_MS * 2 ** (sink.failures_in_row - 1), _PAUSE_MS_MAX)
        sink.resume_at_ms = self._now_ms() + pause_ms

    def _starter(self, plan: QueryPlan) -> Callable[[], StreamingQuery]:
        if plan.cut is None:
            (name,) = plan.sinks
            sink = self._pipeline.sinks[name]
            return lambda: start_sink(self._pipeline, name, sink, self._built(name).frames[sink.reads()[0]])
        cut, build_batch = plan.cut, _batch_builder(self._pipeline, plan.cut)
        return lambda: start_batches(self._pipeline, plan, self._built(plan.name).frames[cut], build_batch)

    def _dead_letters(self) -> StreamingQuery:
        return start_dead_letters(self._pipeline, self._built(DEAD_LETTERS).all_bad())

    def _built(self, query: str) -> Built:
        # Anew for every query: each reads in a group of its own, from a place of its own.
        starts, group = Starts(self._pipeline, query), group_of(self._pipeline, query)

        def read(name: str, source: Source) -> DataFrame:
            options = starts.options(name, source, group) if source.is_stream else {}
            return read_source(self._spark, options, self._pipeline, source)

        return build(self._pipeline, read)


def _batch_builder(pipeline: Pipeline, cut: str) -> BuildBatch:
    """Builds what lies behind a cut. It may be sent to where batches run: it has nothing of this process in it."""

    def build_batch(frame: DataFrame, number: int) -> Built:
        # Tables and files are read by the session of the batch, anew for each.
        spark = frame.sparkSession
        return build(
            pipeline, lambda _, source: read_source(spark, {}, pipeline, source), given={cut: frame}, batch=number
        )

    return build_batch


def _is_for_good(error: BaseException) -> bool:
    """Whether it would fail in the same way again: the query is wrong, or its options are."""
    told = told_by_spark(error)
    if told.startswith("option "):
        return not told.startswith(_UNREACHED)
    return isinstance(error, AnalysisException) and error.getCondition() != _SOURCE_FAILED

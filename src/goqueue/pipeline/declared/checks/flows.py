"""What Spark would refuse about streams as they flow: joins without an end, results in the wrong mode, late state."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec import UNSET

from goqueue.pipeline.declared.checks.streams import (
    aggregates,
    before,
    is_stream,
    joins_streams,
    keeps_state,
    step_reads,
    takes_batches,
)
from goqueue.pipeline.declared.form.problems import Problem
from goqueue.pipeline.declared.form.sinks import Sink, TopicSink
from goqueue.pipeline.declared.form.spec import Pipeline
from goqueue.pipeline.declared.form.sql import ordered_in
from goqueue.pipeline.declared.form.steps import Expect, ForeachBatch, Join, Opening, Sql, Watermark


def join_problems(pipeline: Pipeline, step: Join, path: str) -> Iterator[Problem]:
    """A join that would keep rows for ever, or that no stream can make."""
    left, right = (is_stream(pipeline, name) for name in (step.reads()[0], step.with_))
    if left and right:
        if step.within is UNSET or step.time is UNSET:
            yield Problem(
                f"{path}.with",
                f"{step.with_!r} is a stream too: without a bound, every row is kept for ever",
                "add time: [column here, column there] and within:, as in 1h; or make it a table: in its source",
            )
        return
    for word in ("time", "within"):
        if getattr(step, word) is not UNSET:
            yield Problem(f"{path}.{word}", "is for two streams, and one side is a table", f"drop {word}")
    if right:
        yield Problem(f"{path}.with", f"{step.with_!r} is a stream, and the other side a table", "swap the two")
    elif left and step.how in ("right", "full"):
        yield Problem(f"{path}.how", f"{step.how}: the rows of a table never end their wait", "use inner or left")


def flow_problems(pipeline: Pipeline, known: Collection[str], places: Mapping[str, str]) -> Iterator[Problem]:
    """What is wrong with the way from the sources to each sink."""
    for name, step in pipeline.steps.items():
        if isinstance(step, Watermark) and not is_stream(pipeline, step.reads()[0]):
            yield Problem(places[f"steps.{name}"], "a table has no late rows", "drop the watermark")
        remembers = keeps_state(pipeline, step) or isinstance(step, Watermark | Expect)
        if remembers and _behind_batches(pipeline, name):
            yield Problem(
                places[f"steps.{name}"],
                "lies behind a foreach_batch step, where nothing is remembered from batch to batch",
                "do it before the foreach_batch step",
            )
        if isinstance(step, Opening) and _behind_batches(pipeline, name):
            # Dead letters have a query of their own, which ends where a stream becomes batches.
            yield Problem(
                places[f"steps.{name}"],
                "lies behind a foreach_batch step, where rows that do not fit cannot become dead letters",
                "do it before the foreach_batch step",
            )
        if isinstance(step, Sql):
            yield from _order_problems(pipeline, name, step, places[f"steps.{name}"])
    for name, sink in pipeline.sinks.items():
        if sink.reads()[0] in known:
            yield from _sink_problems(pipeline, sink, places[f"sinks.{name}"])


def _order_problems(pipeline: Pipeline, name: str, step: Sql, path: str) -> Iterator[Problem]:
    """A stream has no last row, so nothing in it is the first; behind a foreach_batch step every batch is a table."""
    if any(isinstance(one, ForeachBatch) for one in before(pipeline, name).values()):
        return
    for written, tables in ordered_in(step.query):
        streams = [one for one in tables if is_stream(pipeline, one)]
        if streams and not (written.endswith(" BY") and _is_complete(pipeline, name)):
            yield Problem(
                f"{path}.query",
                f"{written}: the rows of the stream {streams[0]!r} never have all come, so Spark orders none",
                "do it in a foreach_batch step, within each batch",
            )


def _is_complete(pipeline: Pipeline, name: str) -> bool:
    """Whether only sinks that write the whole result every time read a step."""
    sinks = [sink for sink in pipeline.sinks.values() if name in before(pipeline, sink.reads()[0])]
    return bool(sinks) and all(isinstance(sink, TopicSink) and sink.mode == "complete" for sink in sinks)


def _sink_problems(pipeline: Pipeline, sink: Sink, path: str) -> Iterator[Problem]:
    way = before(pipeline, sink.reads()[0])
    if sink.is_written_by_spark() and any(isinstance(step, ForeachBatch) for step in way.values()):
        told = "files behind a foreach_batch step would be written twice by a replay"
        yield Problem(path, told, "use delta without writer: spark")
    if isinstance(sink, TopicSink) and sink.mode == "append" and sink.delete_when is not UNSET and sink.key is UNSET:
        yield Problem(f"{path}.key", "a tombstone needs the key that it deletes", "name a column, as in key: id")
    if not takes_batches(sink):
        for name, step in way.items():
            if aggregates(pipeline, step) and not _has_watermark(pipeline, name):
                yield Problem(
                    path,
                    f"step {name} changes its result with every batch, and rows cannot be taken back here",
                    "write it to a topic with mode: update, or add a watermark and group by a window of it",
                )
        return
    yield from _mode_problems(pipeline, sink, path)


def _mode_problems(pipeline: Pipeline, sink: Sink, path: str) -> Iterator[Problem]:
    mode = sink.mode if isinstance(sink, TopicSink) else "append"
    way = before(pipeline, sink.reads()[0])
    if isinstance(sink, TopicSink) and sink.key is UNSET:
        yield Problem(f"{path}.key", f"mode {mode} needs the key of a row of the result", "as in key: city")
    state = [name for name, step in way.items() if keeps_state(pipeline, step)]
    if any(joins_streams(pipeline, step) for step in way.values()):
        yield Problem(f"{path}.mode", f"Spark joins two streams in mode append only, not {mode}", "drop mode")
    elif len(state) > 1:
        told = " and ".join(reversed(state))
        yield Problem(f"{path}.mode", f"mode {mode} takes one step that remembers rows, not {told}", "drop mode")
    elif mode == "complete" and not any(aggregates(pipeline, step) for step in way.values()):
        yield Problem(f"{path}.mode", "mode complete needs a step that adds rows up", "use mode: update")
    if any(isinstance(step, ForeachBatch) for step in way.values()):
        yield Problem(f"{path}.mode", f"mode {mode} cannot lie behind a foreach_batch step", "drop one of the two")


def _behind_batches(pipeline: Pipeline, name: str) -> bool:
    earlier = [one for one in before(pipeline, name) if one != name]
    return any(isinstance(pipeline.steps[one], ForeachBatch) for one in earlier)


def _has_watermark(pipeline: Pipeline, name: str) -> bool:
    """Whether a step, or one before it, says how late rows may come."""
    for step in before(pipeline, name).values():
        if isinstance(step, Watermark) or getattr(step, "watermark", UNSET) is not UNSET:
            return True
    return False


def reads_unknown(pipeline: Pipeline, known: Collection[str]) -> bool:
    """Whether some step reads what is not there: then nothing is said of the flow."""
    return any(read not in known for step in pipeline.steps.values() for read in step_reads(step))

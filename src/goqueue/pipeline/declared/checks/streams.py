"""How rows flow: which parts of a pipeline are streams, what lies before a sink, and where sinks can share a read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import UNSET

from goqueue.pipeline.declared.form.sinks import Sink, TopicSink
from goqueue.pipeline.declared.form.spec import Pipeline
from goqueue.pipeline.declared.form.sql import aggregated_by, joins_of, tables_of
from goqueue.pipeline.declared.form.steps import Deduplicate, Expect, ForeachBatch, Join, Sql, Step, Window


class QueryPlan(NamedTuple):
    """One streaming query: the sinks that it writes, and the step whose batches it takes, if it takes batches."""

    name: str
    sinks: tuple[str, ...]
    cut: str | None = None


def step_reads(step: Step) -> list[str]:
    """What a step reads: for SQL the tables of its query."""
    return list(tables_of(step.query)) if isinstance(step, Sql) else step.reads()


def is_stream(pipeline: Pipeline, name: str) -> bool:
    """Whether a source or step never ends."""
    # By what it reads and not by recursion: names in a file that is being checked may go in a circle.
    reads = {name, *(read for step in before(pipeline, name).values() for read in step_reads(step))}
    return any(pipeline.sources[read].is_stream for read in reads if read in pipeline.sources)


def aggregates(pipeline: Pipeline, step: Step) -> bool:
    """Whether a step adds up rows of a stream, so that its result changes with every batch."""
    if isinstance(step, Window):
        return True
    return isinstance(step, Sql) and any(is_stream(pipeline, name) for name in aggregated_by(step.query))


def joins_streams(pipeline: Pipeline, step: Step) -> bool:
    """Whether a step waits for rows of two streams to meet."""
    if isinstance(step, Join):
        return step.within is not UNSET
    return isinstance(step, Sql) and any(
        all(any(is_stream(pipeline, name) for name in side) for side in (join.left, join.right))
        for join in joins_of(step.query)
    )


def keeps_state(pipeline: Pipeline, step: Step) -> bool:
    """Whether a step remembers rows, or what they add up to, from batch to batch."""
    return isinstance(step, Deduplicate) or aggregates(pipeline, step) or joins_streams(pipeline, step)


def before(pipeline: Pipeline, name: str, *, until: str | None = None) -> dict[str, Step]:
    """The steps before a source or step, and itself, nearest first; without what lies before `until`, and that one."""
    found: dict[str, Step] = {}
    waiting = [name]
    while waiting:
        one = waiting.pop(0)
        step = pipeline.steps.get(one)
        if one == until or step is None or one in found:
            continue
        found[one] = step
        waiting += [read for read in step_reads(step) if read != one]
    return found


def takes_batches(sink: Sink) -> bool:
    """Whether a sink writes batches of its own accord, because its output mode needs it."""
    return isinstance(sink, TopicSink) and sink.mode != "append"


def plan_queries(pipeline: Pipeline) -> list[QueryPlan]:
    """The queries of a pipeline, in the order of its sinks."""
    cuts = {name: _own_cut(pipeline, sink) for name, sink in pipeline.sinks.items()}
    plans: list[QueryPlan] = []
    groups = _shared(pipeline, cuts) if pipeline.shared_reads else {}
    told: set[str] = set()
    for name in pipeline.sinks:
        if name in told:
            continue
        cut, together = groups.get(name, (cuts[name], (name,)))
        plans.append(QueryPlan(name if len(together) == 1 else f"shared_{cut}", together, cut))
        told.update(together)
    return plans


def _own_cut(pipeline: Pipeline, sink: Sink) -> str | None:
    """Where the stream of a sink must become batches: before its first function over batches, or at its end."""
    end = sink.reads()[0]
    first = [step for step in reversed(before(pipeline, end).values()) if isinstance(step, ForeachBatch)]
    if first:
        return first[0].reads()[0]
    return end if takes_batches(sink) else None


def _shared(pipeline: Pipeline, cuts: dict[str, str | None]) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Sinks that can share a read, each with the step whose batches they share."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    able = [name for name, sink in pipeline.sinks.items() if not sink.is_written_by_spark() and not takes_batches(sink)]
    while len(able) > 1:
        first, *others = able
        together, cut = [first], _common(pipeline, [first], cuts)
        for other in others:
            wider = _common(pipeline, [*together, other], cuts)
            if wider is not None:
                together, cut = [*together, other], wider
        if len(together) > 1 and cut is not None:
            found |= dict.fromkeys(together, (cut, tuple(together)))
        able = [name for name in able if name not in together]
    return found


def _common(pipeline: Pipeline, sinks: Iterable[str], cuts: dict[str, str | None]) -> str | None:
    """The last source or step that all rows of these sinks come through, with nothing behind it that keeps state."""
    for name in reversed([*pipeline.sources, *pipeline.steps]):
        if all(_can_cut(pipeline, pipeline.sinks[sink].reads()[0], name, cuts[sink]) for sink in sinks):
            return name
    return None


def _can_cut(pipeline: Pipeline, end: str, cut: str, needed: str | None) -> bool:
    """Whether all rows of a sink come through a source or step, behind which every batch can be worked on alone."""
    behind = before(pipeline, end, until=cut)
    reads = {read for step in behind.values() for read in step_reads(step)}
    if not is_stream(pipeline, cut) or (cut != end and cut not in reads):
        return False
    # Another stream that enters behind the cut is no part of its batches.
    if any(is_stream(pipeline, name) for name in reads - behind.keys() - {cut}):
        return False
    if any(keeps_state(pipeline, step) or isinstance(step, Expect) for step in behind.values()):
        return False
    # A function over batches must lie behind the cut.
    return needed is None or needed == cut or needed in behind

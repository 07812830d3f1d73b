"""Joins inside SQL steps that Spark would refuse when the pipeline starts: an outer join that could never be sure.

A row of a stream that has found nobody is told only when nobody can come any more. So the side that need not match must
end: it is a table, or a watermark and the condition say how long to wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import UNSET

from goqueue.pipeline.declared.checks.streams import before, is_stream, step_reads
from goqueue.pipeline.declared.form.problems import Problem
from goqueue.pipeline.declared.form.spec import Pipeline
from goqueue.pipeline.declared.form.sql import SqlJoin, joins_of
from goqueue.pipeline.declared.form.steps import Deduplicate, Expect, Filter, ForeachBatch, Join, Sql, Watermark, Window

_INSTEAD = "use a join step with time: and within:, or make one side a table: in its source"
# The side whose rows are told even if they match nothing.
_KEEPS = {"left": ("left",), "semi": ("left",), "anti": ("left",), "right": ("right",), "full": ("left", "right")}


def sql_join_problems(pipeline: Pipeline, step: Sql, path: str) -> Iterator[Problem]:
    """What is wrong with the joins of a step."""
    if any(isinstance(one, ForeachBatch) for one in before(pipeline, str(step.name)).values()):
        # Behind it, every batch is a table.
        return
    for join in joins_of(step.query):
        streams = [side for side in ("left", "right") if _is_stream(pipeline, getattr(join, side))]
        told = None if join.how == "inner" else _refusal(pipeline, join, streams)
        if told is not None:
            yield Problem(f"{path}.query", *told)


def _refusal(pipeline: Pipeline, join: SqlJoin, streams: Sequence[str]) -> tuple[str, str] | None:
    kept, name = _KEEPS[join.how], join.how.upper()
    if len(streams) == 1:
        (stream,) = streams
        if all(side == stream for side in kept):
            return None
        table = ", ".join(join.left if stream == "right" else join.right)
        return f"{name} join: the rows of the table {table} never end their wait for a stream", "let the stream lead"
    if len(streams) < 2:
        return None
    both = f"{', '.join(join.left)} and {', '.join(join.right)}"
    if join.how == "anti":
        return f"{both} are streams: that nothing will match is never sure", "make one a table: in its source"
    times = [_times(pipeline, one) for one in (*join.left, *join.right)]
    if None in times:
        return None
    known = {time for some in times for time in some or ()}
    if not known:
        return f"{name} join of two streams, {both}, without a watermark: a row would wait for ever", _INSTEAD
    if not join.has_range and not known & join.equal:
        return f"{name} join of two streams, {both}, with no bound of time: a row would wait for ever", _INSTEAD
    return None


def _is_stream(pipeline: Pipeline, names: Sequence[str]) -> bool:
    return any(is_stream(pipeline, name) for name in names)


def _times(pipeline: Pipeline, name: str) -> set[str] | None:
    """The columns with a watermark; None if a step behind the watermark may have renamed them."""
    step = pipeline.steps.get(name)
    if step is None:
        return set()
    if isinstance(step, Watermark | Deduplicate | Window) and step.time is not UNSET:
        return None if isinstance(step, Window) else {step.time}
    if isinstance(step, Filter | Expect | Join):
        return _times(pipeline, step_reads(step)[0])
    has_watermark = any(
        isinstance(one, Watermark | Window) or getattr(one, "watermark", UNSET) is not UNSET
        for one in before(pipeline, name).values()
    )
    return None if has_watermark else set()

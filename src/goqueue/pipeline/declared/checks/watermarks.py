"""One watermark for each stream, whatever its steps: Spark refuses to define a second one behind a stateful step.

The first step that waits for late rows defines it, with the longest delay that it or a step behind it asks for. Steps
behind it use the same one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import UNSET

from goqueue.pipeline.declared.checks.streams import step_reads
from goqueue.pipeline.declared.form.intervals import interval_ms
from goqueue.pipeline.declared.form.problems import Problem
from goqueue.pipeline.declared.form.spec import Pipeline
from goqueue.pipeline.declared.form.steps import Deduplicate, Expect, Filter, Join, Step, Watermark, Window


def waits(step: Step) -> bool:
    """Whether the step keeps state until a watermark has passed."""
    if isinstance(step, Join):
        return step.within is not UNSET
    return isinstance(step, Window) or (isinstance(step, Deduplicate) and step.watermark is not UNSET)


def delays(pipeline: Pipeline) -> dict[str, str]:
    """For each step that may define a watermark: the longest delay that it or a step behind it asks for."""
    longest: dict[str, str] = {}
    behind: dict[str, str] = {}
    for name, step in reversed(pipeline.steps.items()):
        wanted = behind.get(name)
        asked = step.delay if isinstance(step, Watermark) else getattr(step, "watermark", UNSET)
        if asked is not UNSET:
            wanted = longest[name] = _longer(asked, wanted)
        if wanted is not None:
            for read in step_reads(step):
                behind[read] = _longer(wanted, behind.get(read))
    return longest


def watermark_problems(pipeline: Pipeline, places: Mapping[str, str]) -> Iterator[Problem]:
    """Steps that would need a watermark of their own where the stream has one already, or that lack one."""
    # Behind a window, and behind a join of two streams.
    settled: dict[str, str] = {}
    marked: set[str] = set()
    # The column that has the watermark, for steps that hand it on under its name.
    column: dict[str, str] = {}
    for name, step in pipeline.steps.items():
        reads, path = step_reads(step), places[f"steps.{name}"]
        behind = next((settled[read] for read in reads if read in settled), None)
        if behind is not None:
            settled[name] = behind
            if waits(step) or isinstance(step, Watermark):
                yield Problem(
                    path,
                    f"reads the result of a {behind}, and would need a second watermark",
                    f"do it before the {behind}, or write the {behind}s to a topic and go on in another pipeline",
                )
                continue
        if isinstance(step, Join) and step.within is not UNSET and step.time is not UNSET:
            yield from _join_problems(step, path, marked, column)
            settled[name] = "join"
            continue
        known = next((column[read] for read in reads if read in column), None)
        if isinstance(step, Window) and step.watermark is UNSET and not marked.intersection(reads):
            yield Problem(f"{path}.watermark", "is missing: how late may rows come?", "as in watermark: 10m")
        if isinstance(step, Window | Deduplicate | Watermark) and step.time is not UNSET:
            if known is not None and known != step.time:
                yield Problem(f"{path}.time", f"the stream has its watermark on {known!r}", f"use {known}")
            known = step.time
            marked.add(name)
        elif marked.intersection(reads):
            marked.add(name)
        if isinstance(step, Window):
            settled[name] = "window"
        elif known is not None and isinstance(step, Filter | Join | Deduplicate | Watermark | Expect):
            column[name] = known


def _join_problems(step: Join, path: str, marked: set[str], column: Mapping[str, str]) -> Iterator[Problem]:
    """Sides of a join of two streams that never forget a row."""
    times = step.time if step.time is not UNSET else []
    for at, (read, time) in enumerate(zip(step.reads(), times, strict=True)):
        if read not in marked:
            yield Problem(
                path,
                f"{read!r} has no watermark: its rows would be kept for ever",
                f"put a step before the join: watermark: {{from: {read}, time: {time}, delay: 10m}}",
            )
        elif column.get(read, time) != time:
            yield Problem(
                f"{path}.time[{at}]", f"{read!r} has its watermark on {column[read]!r}", f"use {column[read]}"
            )


def _longer(one: str, other: str | None) -> str:
    return one if other is None or interval_ms(one) >= interval_ms(other) else other

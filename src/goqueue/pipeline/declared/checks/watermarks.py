"""One watermark for each stream, whatever its steps: Spark refuses to define a second one behind a stateful step.

The first step that waits for late rows defines it, with the longest delay that it or a step behind it asks for. Steps
behind it use the same one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import UNSET

from goqueue.pipeline.declared.form.intervals import interval_ms
from goqueue.pipeline.declared.form.problems import Problem
from goqueue.pipeline.declared.form.spec import Pipeline
from goqueue.pipeline.declared.form.sql import tables_of
from goqueue.pipeline.declared.form.steps import Deduplicate, Filter, Join, Sql, Step, Window


def step_reads(step: Step) -> list[str]:
    """What a step reads: for SQL the tables of its query."""
    return list(tables_of(step.query)) if isinstance(step, Sql) else step.reads()


def waits(step: Step) -> bool:
    """Whether the step keeps state until a watermark has passed."""
    return isinstance(step, Window) or (isinstance(step, Deduplicate) and step.watermark is not UNSET)


def delays(pipeline: Pipeline) -> dict[str, str]:
    """For each step that waits: the longest delay that it or a step behind it asks for."""
    longest: dict[str, str] = {}
    behind: dict[str, str] = {}
    for name, step in reversed(pipeline.steps.items()):
        wanted = behind.get(name)
        if isinstance(step, Window | Deduplicate) and step.watermark is not UNSET:
            wanted = longest[name] = _longer(step.watermark, wanted)
        if wanted is not None:
            for read in step_reads(step):
                behind[read] = _longer(wanted, behind.get(read))
    return longest


def watermark_problems(pipeline: Pipeline, places: Mapping[str, str]) -> Iterator[Problem]:
    """Steps that would need a watermark of their own where the stream has one already."""
    windowed: set[str] = set()
    # The column that has the watermark, for steps that hand it on under its name.
    column: dict[str, str] = {}
    for name, step in pipeline.steps.items():
        reads = step_reads(step)
        if windowed.intersection(reads):
            windowed.add(name)
            if waits(step):
                yield Problem(
                    places[f"steps.{name}"],
                    "reads the result of a window, and would need a second watermark",
                    "do it before the window, or write the windows to a topic and go on in another pipeline",
                )
                continue
        known = next((column[read] for read in reads if read in column), None)
        if isinstance(step, Window | Deduplicate) and step.time is not UNSET and waits(step):
            if known is not None and known != step.time:
                yield Problem(
                    f"{places[f'steps.{name}']}.time", f"the stream has its watermark on {known!r}", f"use {known}"
                )
            known = step.time
        if isinstance(step, Window):
            windowed.add(name)
        elif known is not None and isinstance(step, Filter | Join | Deduplicate):
            column[name] = known


def _longer(one: str, other: str | None) -> str:
    return one if other is None or interval_ms(one) >= interval_ms(other) else other

"""What the form of a pipeline does not show: names that lead nowhere, SQL that is none, state without an end.

Nothing here needs Spark, a broker or the files: `goqueue pipeline validate` answers at once.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from msgspec import UNSET

from goqueue.pipeline.declared.checks.flows import flow_problems, join_problems, reads_unknown
from goqueue.pipeline.declared.checks.parts import (
    names_of,
    options_problem,
    place_problem,
    reads_nothing,
    sql_problem,
    topic_problem,
)
from goqueue.pipeline.declared.checks.sink_checks import sink_problems
from goqueue.pipeline.declared.checks.sql_joins import sql_join_problems
from goqueue.pipeline.declared.checks.streams import step_reads
from goqueue.pipeline.declared.checks.subjects import subject_problems
from goqueue.pipeline.declared.checks.watermarks import watermark_problems
from goqueue.pipeline.declared.form.problems import Problem
from goqueue.pipeline.declared.form.sinks import TopicSink
from goqueue.pipeline.declared.form.spec import Pipeline
from goqueue.pipeline.declared.form.sql import check_expression, columns_of, tables_of
from goqueue.pipeline.declared.form.steps import (
    ROWS,
    STEERING,
    Debezium,
    Deduplicate,
    Expect,
    Filter,
    ForeachBatch,
    Join,
    Opening,
    Parse,
    Python,
    Select,
    Sql,
    Step,
    Window,
)
from goqueue.pipeline.paths import DELTA_SCHEMES, SPARK_SCHEMES

_TRIGGER = re.compile(r"^(available-now|once|\d+ ?(ms|s|m|h|seconds?|minutes?|hours?))$")


def problems_of(
    pipeline: Pipeline, *, folder: Path | None, places: Mapping[str, str], unread: Collection[str] = ()
) -> list[Problem]:
    """All that is wrong; Python modules are also looked for in `folder`.

    `places` says where in the file each step and sink stands. `unread` names parts whose form
    is wrong already: nothing more is said of them.
    """
    known = {*pipeline.sources, *unread}
    return [
        *_head(pipeline),
        *_sources(pipeline, unread),
        *_steps(pipeline, folder, known, places),
        *sink_problems(pipeline, known, places),
        *subject_problems(pipeline, places),
        *_tests(pipeline, unread),
    ]


def topics_of(pipeline: Pipeline) -> dict[str, str]:
    """Every topic that is read or written, by its place in the file."""
    named = {
        f"sources.{name}.topic": source.topic for name, source in pipeline.sources.items() if source.topic is not UNSET
    }
    named |= {
        f"sources.{name}.table": source.table for name, source in pipeline.sources.items() if source.table is not UNSET
    }
    named |= {f"sinks.{name}.topic": sink.topic for name, sink in pipeline.sinks.items() if isinstance(sink, TopicSink)}
    if pipeline.dead_letters is not UNSET:
        named["dead_letters"] = pipeline.dead_letters
    return named


def _head(pipeline: Pipeline) -> Iterator[Problem]:
    if not _TRIGGER.match(pipeline.trigger):
        yield Problem("trigger", f"{pipeline.trigger!r} is not a trigger", "write 500ms, 10s, 5m or available-now")
    for at in pipeline.broker.split(","):
        if not re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[^:\s]+):\d{1,5}", at.strip()):
            yield Problem("broker", f"{at!r} is not an address", "write host:port")
    if pipeline.checkpoint is not UNSET:
        yield from place_problem("checkpoint", pipeline.checkpoint, DELTA_SCHEMES)
    if pipeline.dead_letters is not UNSET:
        yield from topic_problem("dead_letters", pipeline.dead_letters)
    elif pipeline.dead_letter_origins():
        yield Problem("dead_letters", "rows that cannot be parsed or are quarantined must go somewhere", "name a topic")


def _sources(pipeline: Pipeline, unread: Collection[str]) -> Iterator[Problem]:
    for name, source in pipeline.sources.items():
        if source.topic is not UNSET:
            yield from topic_problem(f"sources.{name}.topic", source.topic)
        elif source.table is not UNSET:
            yield from topic_problem(f"sources.{name}.table", source.table)
            if source.max_per_batch is not UNSET:
                yield Problem(f"sources.{name}.max_per_batch", "a table is read as a whole", "drop it")
        elif source.format in ("json", "csv") and source.schema is UNSET:
            yield Problem(
                f"sources.{name}.schema", f"{source.format} files need a schema", "as in: id BIGINT, city STRING"
            )
        if source.files is not UNSET:
            yield from place_problem(f"sources.{name}.files", source.files, SPARK_SCHEMES, pipeline.settings)
        if source.schema is not UNSET:
            yield from sql_problem(f"sources.{name}.schema", columns_of, source.schema)
        if source.topic is not UNSET and source.start not in ("earliest", "latest") and source.start_ms is None:
            form = (
                "write earliest, latest, a time with its zone, as in 2026-01-31T12:00:00Z, or offsets of partitions, "
                f'as in {{"{source.topic}": {{"0": 5}}}}'
            )
            for one in options_problem(f"sources.{name}.start", {"startingOffsets": source.start}, is_sink=False):
                yield replace(one, hint=form)
        if source.options and source.files is UNSET:
            yield from options_problem(f"sources.{name}.options", source.options, is_sink=False)
    if not unread and not any(source.is_stream for source in pipeline.sources.values()):
        yield Problem("sources", "at least one source must be a topic", "use `goqueue jobs import` to bring files in")


def _steps(pipeline: Pipeline, folder: Path | None, known: set[str], places: Mapping[str, str]) -> Iterator[Problem]:
    for name, step in pipeline.steps.items():
        path = places[f"steps.{name}"]
        problems = list(_step_sql(step, path))
        yield from problems
        if not problems:
            for read in step_reads(step):
                if read not in known:
                    yield reads_nothing(path, read, known)
        if not problems and all(read in known for read in step_reads(step)):
            yield from _step_rules(pipeline, step, path, folder)
        known.add(name)
    if all(not list(_step_sql(step, "")) for step in pipeline.steps.values()) and not reads_unknown(pipeline, known):
        yield from watermark_problems(pipeline, places)
        yield from flow_problems(pipeline, known, places)


def _step_sql(step: Step, path: str) -> Iterator[Problem]:
    if isinstance(step, Sql):
        yield from sql_problem(f"{path}.query", tables_of, step.query)
    for place, text in _expressions(step):
        yield from sql_problem(f"{path}.{place}", check_expression, text)
    if isinstance(step, Parse | Debezium | Python):
        yield from sql_problem(f"{path}.schema", columns_of, step.schema)


def _expressions(step: Step) -> Iterator[tuple[str, str]]:
    """Every text of a step that must be an expression, with its place."""
    match step:
        case Filter():
            yield "where", step.where
        case Select(columns=dict() as columns):
            yield from ((f"columns.{name}", text) for name, text in columns.items())
        case Select():
            yield from ((f"columns[{at}]", text) for at, text in enumerate(step.columns))
        case Parse():
            yield from ((f"expect.{rule}", text) for rule, text in step.expect.items())
        case Expect():
            yield from ((f"rules.{name}", rule.check) for name, rule in step.rules_by_name().items())
        case Window():
            yield from ((f"aggregate.{name}", text) for name, text in step.aggregate.items())


def _step_rules(pipeline: Pipeline, step: Step, path: str, folder: Path | None) -> Iterator[Problem]:
    match step:
        case Deduplicate() if (step.time is UNSET) != (step.watermark is UNSET):
            yield Problem(path, "time and watermark belong together")
        case Deduplicate() if step.watermark is UNSET:
            yield Problem(
                path, "without a watermark every key is remembered for ever", "add time: and watermark:, as in 1h"
            )
        case Join():
            yield from join_problems(pipeline, step, path)
        case Sql():
            yield from sql_join_problems(pipeline, step, path)
        case Opening() if any(_is_table(pipeline, read) for read in step.reads()):
            yield Problem(path, "opens messages of a stream, and reads a table", "give the table's source a schema")
        case Opening() if any(_has_columns(pipeline, read) for read in step.reads()):
            yield Problem(path, "opens messages, and reads a source whose subject gives it columns", "drop the step")
        case Expect() if ROWS in step.rules:
            yield Problem(
                f"{path}.rules.{ROWS}", "is how the count of all rows is called", "give the rule another name"
            )
        case Debezium() if taken := sorted(set(columns_of(step.schema)).intersection(STEERING)):
            yield Problem(f"{path}.schema", f"the step adds a column {taken[0]!r} of its own", "leave it out")
        case Window() if step.session_gap and step.slide is not UNSET:
            yield Problem(f"{path}.slide", "sessions do not slide", "drop slide or session_gap")
        case Python() | ForeachBatch():
            module = step.function.partition(":")[0]
            if not _is_importable(module, folder):
                yield Problem(f"{path}.function", f"there is no Python module {module!r}", "put it beside the pipeline")


def _tests(pipeline: Pipeline, unread: Collection[str]) -> Iterator[Problem]:
    results = {*pipeline.sinks, *pipeline.steps, *unread}
    if pipeline.dead_letter_origins():
        results.add("dead_letters")
    for at, case in enumerate(pipeline.tests):
        for name in case.given.keys() - {*pipeline.sources, *unread}:
            yield Problem(f"tests[{at}].given.{name}", "is not a source", f"there are {names_of(pipeline.sources)}")
        for name in pipeline.sources.keys() - case.given.keys():
            yield Problem(f"tests[{at}].given", f"says nothing of the source {name!r}", "give it rows, or []")
        for name in case.expect.keys() - results:
            yield Problem(f"tests[{at}].expect.{name}", "is not a sink or step", f"there are {names_of(results)}")


def _is_table(pipeline: Pipeline, name: str) -> bool:
    return name in pipeline.sources and not pipeline.sources[name].is_stream


def _has_columns(pipeline: Pipeline, name: str) -> bool:
    return name in pipeline.sources and pipeline.sources[name].subject is not UNSET


def _is_importable(module: str, folder: Path | None) -> bool:
    if folder is not None and ((folder / f"{module.replace('.', '/')}.py").exists()):
        return True
    try:
        return module in sys.modules or importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False

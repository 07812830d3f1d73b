"""What the form of a pipeline does not show: names that lead nowhere, SQL that is none, state without an end.

Nothing here needs Spark, a broker or the files: `goqueue pipeline validate` answers at once.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from msgspec import UNSET

from goqueue.errors import InvalidRequest, InvalidTopicName
from goqueue.ids import parse_topic_name
from goqueue.pipeline.declared.problems import Problem
from goqueue.pipeline.declared.spec import (
    Deduplicate,
    DeltaSink,
    Filter,
    Join,
    ParquetSink,
    Parse,
    Pipeline,
    Python,
    Select,
    Sql,
    Step,
    TopicSink,
    Window,
)
from goqueue.pipeline.declared.sql import BadSql, check_expression, columns_of, tables_of
from goqueue.pipeline.declared.watermarks import step_reads, watermark_problems
from goqueue.pipeline.errors import BadOption
from goqueue.pipeline.places import DELTA_SCHEMES, SPARK_SCHEMES, refuse_scheme

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
        *_sinks(pipeline, known, places),
        *_tests(pipeline, unread),
    ]


def topics_of(pipeline: Pipeline) -> dict[str, str]:
    """Every topic that is read or written, by its place in the file."""
    named = {
        f"sources.{name}.topic": source.topic for name, source in pipeline.sources.items() if source.topic is not UNSET
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
        yield from _place("checkpoint", pipeline.checkpoint, {"file"})
    if pipeline.dead_letters is not UNSET:
        yield from _topic("dead_letters", pipeline.dead_letters)
    elif any(isinstance(step, Parse) for step in pipeline.steps.values()):
        yield Problem("dead_letters", "rows that cannot be parsed must go somewhere", "name a topic")


def _sources(pipeline: Pipeline, unread: Collection[str]) -> Iterator[Problem]:
    for name, source in pipeline.sources.items():
        if source.topic is not UNSET:
            yield from _topic(f"sources.{name}.topic", source.topic)
        elif source.format in ("json", "csv") and source.schema is UNSET:
            yield Problem(
                f"sources.{name}.schema", f"{source.format} files need a schema", "as in: id BIGINT, city STRING"
            )
        if source.files is not UNSET:
            yield from _place(f"sources.{name}.files", source.files, SPARK_SCHEMES, pipeline.settings)
        if source.schema is not UNSET:
            yield from _sql(f"sources.{name}.schema", columns_of, source.schema)
        if source.options and source.is_stream:
            yield from _options(f"sources.{name}.options", source.options, is_sink=False)
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
                    yield _nowhere(path, read, known)
        yield from _step_rules(pipeline, step, path, folder)
        known.add(name)
    if all(not list(_step_sql(step, "")) for step in pipeline.steps.values()):
        yield from watermark_problems(pipeline, places)


def _step_sql(step: Step, path: str) -> Iterator[Problem]:
    match step:
        case Sql():
            yield from _sql(f"{path}.query", tables_of, step.query)
        case Filter():
            yield from _sql(f"{path}.where", check_expression, step.where)
        case Select(columns=dict() as columns):
            for column, expression in columns.items():
                yield from _sql(f"{path}.columns.{column}", check_expression, expression)
        case Select():
            for at, expression in enumerate(step.columns):
                yield from _sql(f"{path}.columns[{at}]", check_expression, expression)
        case Parse():
            yield from _sql(f"{path}.schema", columns_of, step.schema)
            for rule, condition in step.expect.items():
                yield from _sql(f"{path}.expect.{rule}", check_expression, condition)
        case Window():
            for column, expression in step.aggregate.items():
                yield from _sql(f"{path}.aggregate.{column}", check_expression, expression)
        case Python():
            yield from _sql(f"{path}.schema", columns_of, step.schema)


def _step_rules(pipeline: Pipeline, step: Step, path: str, folder: Path | None) -> Iterator[Problem]:
    match step:
        case Deduplicate() if (step.time is UNSET) != (step.watermark is UNSET):
            yield Problem(path, "time and watermark belong together")
        case Deduplicate() if step.watermark is UNSET:
            yield Problem(
                path, "without a watermark every key is remembered for ever", "add time: and watermark:, as in 1h"
            )
        case Join() if step.with_ in pipeline.sources and pipeline.sources[step.with_].is_stream:
            yield Problem(f"{path}.with", f"{step.with_!r} is a topic; a stream is joined with a table of files")
        case Window() if step.session_gap and step.slide is not UNSET:
            yield Problem(f"{path}.slide", "sessions do not slide", "drop slide or session_gap")
        case Python():
            module = step.function.partition(":")[0]
            if not _is_importable(module, folder):
                yield Problem(f"{path}.function", f"there is no Python module {module!r}", "put it beside the pipeline")


def _sinks(pipeline: Pipeline, known: set[str], places: Mapping[str, str]) -> Iterator[Problem]:
    for name, sink in pipeline.sinks.items():
        path = places[f"sinks.{name}"]
        for read in sink.reads():
            if read not in known:
                yield _nowhere(path, read, known)
        if isinstance(sink, ParquetSink):
            yield from _place(f"{path}.path", sink.path, SPARK_SCHEMES, pipeline.settings)
        if isinstance(sink, DeltaSink):
            yield from _place(f"{path}.path", sink.path, DELTA_SCHEMES)
        if isinstance(sink, TopicSink):
            yield from _topic(f"{path}.topic", sink.topic)
            if sink.options:
                yield from _options(f"{path}.options", sink.options, is_sink=True)


def _tests(pipeline: Pipeline, unread: Collection[str]) -> Iterator[Problem]:
    results = {*pipeline.sinks, *pipeline.steps, *unread}
    if any(isinstance(step, Parse) for step in pipeline.steps.values()):
        results.add("dead_letters")
    for at, case in enumerate(pipeline.tests):
        for name in case.given.keys() - {*pipeline.sources, *unread}:
            yield Problem(f"tests[{at}].given.{name}", "is not a source", f"there are {_names(pipeline.sources)}")
        for name in pipeline.sources.keys() - case.given.keys():
            yield Problem(f"tests[{at}].given", f"says nothing of the source {name!r}", "give it rows, or []")
        for name in case.expect.keys() - results:
            yield Problem(f"tests[{at}].expect.{name}", "is not a sink or step", f"there are {_names(results)}")


def _nowhere(path: str, read: str, known: Collection[str]) -> Problem:
    return Problem(path, f"reads {read!r}, which is not a source or an earlier step", f"there are {_names(known)}")


def _sql(path: str, parse: Callable[[str], object], text: str) -> Iterator[Problem]:
    try:
        parse(text)
    except BadSql as error:
        yield Problem(path, f"not SQL: {error}")


def _options(path: str, options: Mapping[str, str], *, is_sink: bool) -> Iterator[Problem]:
    # Imported only if there are any: these modules take longer than all other checks.
    from goqueue.pipeline.sink.sink_options import parse_sink_options
    from goqueue.pipeline.source.options import SERVERS, parse_source_options

    given = {SERVERS: "127.0.0.1:9092", **options}
    try:
        if is_sink:
            parse_sink_options({"topic": "any", **given})
        else:
            parse_source_options({"subscribe": "any", **given})
    except BadOption as error:
        yield Problem(path, str(error))


def _place(
    path: str, given: str, known: Collection[str], settings: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Problem]:
    try:
        refuse_scheme(given, path, known, settings)
    except InvalidRequest as error:
        yield Problem(path, str(error).removeprefix(f"{path}: "), error.hint)


def _topic(path: str, name: str) -> Iterator[Problem]:
    try:
        parse_topic_name(name)
    except InvalidTopicName as error:
        yield Problem(path, str(error), error.hint)


def _is_importable(module: str, folder: Path | None) -> bool:
    if folder is not None and ((folder / f"{module.replace('.', '/')}.py").exists()):
        return True
    try:
        return module in sys.modules or importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _names(names: Collection[str]) -> str:
    return ", ".join(sorted(names))

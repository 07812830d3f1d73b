"""Checks that sources, steps and sinks share: SQL, options, addresses and names of topics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from types import MappingProxyType

from goqueue.errors import InvalidRequest, InvalidTopicName
from goqueue.ids import parse_topic_name
from goqueue.pipeline.declared.form.problems import Problem
from goqueue.pipeline.declared.form.sql import BadSql
from goqueue.pipeline.errors import BadOption
from goqueue.pipeline.paths import refuse_scheme


def reads_nothing(path: str, read: str, known: Collection[str]) -> Problem:
    """What is said of a name that leads nowhere."""
    return Problem(path, f"reads {read!r}, which is no source or earlier step", f"there are {names_of(known)}")


def sql_problem(path: str, parse: Callable[[str], object], text: str) -> Iterator[Problem]:
    """Text that should be SQL and is not."""
    try:
        parse(text)
    except BadSql as error:
        yield Problem(path, f"not SQL: {error}")


def options_problem(path: str, options: Mapping[str, str], *, is_sink: bool) -> Iterator[Problem]:
    """Options of a topic that are unknown or contradict each other."""
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


def place_problem(
    path: str, given: str, known: Collection[str], settings: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Problem]:
    """An address of a store that nothing here can open."""
    try:
        refuse_scheme(given, path, known, settings)
    except InvalidRequest as error:
        yield Problem(path, str(error).removeprefix(f"{path}: "), error.hint)


def topic_problem(path: str, name: str) -> Iterator[Problem]:
    """A name that no topic can have."""
    try:
        parse_topic_name(name)
    except InvalidTopicName as error:
        yield Problem(path, str(error), error.hint)


def names_of(names: Collection[str]) -> str:
    """Names for a hint."""
    return ", ".join(sorted(names))

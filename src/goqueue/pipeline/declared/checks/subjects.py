"""Sources and sinks that name a subject: what is wrong with them as written, and what the registry says of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

from msgspec import UNSET

from goqueue.pipeline.declared.form.problems import Problem
from goqueue.pipeline.declared.form.sinks import TopicSink
from goqueue.pipeline.declared.form.sources import Source
from goqueue.pipeline.declared.form.spec import Pipeline
from goqueue.pipeline.errors import BadOption

if TYPE_CHECKING:
    from goqueue.pipeline.typed.registry import Registry

# Columns of rows that do not decode, where they have some.
ERROR, UNDECODED = "_error", "_undecoded"


def subject_problems(pipeline: Pipeline, places: Mapping[str, str]) -> Iterator[Problem]:
    """What can be said without the registry."""
    for name, source in pipeline.sources.items():
        yield from _source(f"sources.{name}", source)
    for name, sink in pipeline.sinks.items():
        if isinstance(sink, TopicSink):
            yield from _sink(places[f"sinks.{name}"], sink)


def registry_problems(pipeline: Pipeline, places: Mapping[str, str]) -> list[Problem]:
    """Subjects and versions that the registry does not have; nobody is asked if no subject is named."""
    found: list[Problem] = []
    for path, part in _with_subject(pipeline, places).items():
        try:
            found += _unknown(registry_of(pipeline, part.options), path, part)
        except BadOption as error:
            # One that does not answer is told once.
            return [*found, Problem("registry", str(error).partition(": ")[2], "start the broker, or name another")]
    return found


def registry_of(pipeline: Pipeline, options: Mapping[str, str]) -> Registry:
    """The registry, asked as the user whom the options of a topic name."""
    from goqueue.client.wire.security import with_defaults
    from goqueue.pipeline.typed.registry import Registry

    named = {name.lower(): value for name, value in options.items()}
    kafka = {name.removeprefix("kafka."): value for name, value in named.items() if name.startswith("kafka.")}
    return Registry(pipeline.registry, with_defaults(kafka))


def schema_named(part: Source | TopicSink) -> str:
    """The subject and version, as the option `schema` takes them."""
    return f"{part.subject}:{'latest' if part.version is UNSET else part.version}"


def _source(path: str, source: Source) -> Iterator[Problem]:
    if source.subject is UNSET:
        for word in ("version", "undecodable", "keep"):
            if getattr(source, word) not in (UNSET, []):
                yield Problem(f"{path}.{word}", "is for a source with a subject", "add subject:, or drop it")
        return
    if source.files is not UNSET:
        yield Problem(f"{path}.subject", "files have no subject in the registry", "use schema:")
    if source.schema is not UNSET:
        yield Problem(f"{path}.schema", "the columns come from the subject", "drop schema: or subject:")
    if source.table is not UNSET and source.undecodable not in (UNSET, "fail"):
        yield Problem(f"{path}.undecodable", "a table with a row that does not decode fails the batch", "drop it")
    for word in ("schema", "schemaErrors", "schemaRegistryUrl", "columns"):
        if word.lower() in {name.lower() for name in source.options}:
            yield Problem(f"{path}.options.{word}", "is decided by subject", "drop it")


def _sink(path: str, sink: TopicSink) -> Iterator[Problem]:
    if sink.subject is UNSET:
        for word in ("version", "register"):
            if getattr(sink, word) is not UNSET:
                yield Problem(f"{path}.{word}", "is for a sink with a subject", "add subject:, or drop it")
        return
    if sink.register is not UNSET and sink.version is not UNSET:
        yield Problem(f"{path}.version", "what is registered becomes the latest version", "drop version: or register:")
    if sink.mode == "complete":
        yield Problem(f"{path}.mode", "complete compares values as they are written, without a schema", "use update")


def _with_subject(pipeline: Pipeline, places: Mapping[str, str]) -> dict[str, Source | TopicSink]:
    """Each part with a subject, by its place in the file."""
    parts: dict[str, Source | TopicSink] = {f"sources.{name}": one for name, one in pipeline.sources.items()}
    parts |= {places[f"sinks.{name}"]: one for name, one in pipeline.sinks.items() if isinstance(one, TopicSink)}
    return {path: part for path, part in parts.items() if part.subject is not UNSET}


def _unknown(registry: Registry, path: str, part: Source | TopicSink) -> Iterator[Problem]:
    versions = registry.versions(str(part.subject))
    if isinstance(part, TopicSink) and part.register is not UNSET:
        return
    if versions is None:
        near = get_close_matches(str(part.subject), registry.subjects(), n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"goqueue schema register {part.subject} FILE"
        if isinstance(part, TopicSink):
            hint += "; or register: avro, to derive it from the columns"
        yield Problem(f"{path}.subject", f"the registry at {registry.url} has no subject {str(part.subject)!r}", hint)
    elif part.version not in (UNSET, "latest", *versions):
        told = ", ".join(str(one) for one in versions)
        yield Problem(
            f"{path}.version", f"subject {str(part.subject)!r} has no version {part.version}", f"it has {told}"
        )
    elif isinstance(part, Source):
        yield from _taken_twice(registry, path, part)


def _taken_twice(registry: Registry, path: str, source: Source) -> Iterator[Problem]:
    """Columns of the message that the schema has too."""
    from goqueue.pipeline.typed.spark_types import spark_type

    kind = spark_type(registry.source(registry.pin(schema_named(source), "")))
    fields = set(getattr(kind, "names", ["value"]))
    for name in source.keep:
        if name in fields:
            yield Problem(f"{path}.keep", f"the schema has a column {name!r} of its own", "leave it out")
    if source.undecodable == "column" and fields & {ERROR, UNDECODED}:
        told = f"the schema has a column {min(fields & {ERROR, UNDECODED})!r} of its own"
        yield Problem(f"{path}.undecodable", told, "use dead_letters")

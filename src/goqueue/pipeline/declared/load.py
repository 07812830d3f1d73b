"""From a file, or from the same thing as Python values, to a Pipeline that is checked and whose names are resolved."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec
import yaml
from msgspec import UNSET

from goqueue.errors import InvalidRequest
from goqueue.forms import form_problem
from goqueue.pipeline.declared.checks.check import problems_of
from goqueue.pipeline.declared.form.parameters import with_parameters
from goqueue.pipeline.declared.form.problems import PipelineInvalid, Problem
from goqueue.pipeline.declared.form.sinks import SINKS, Sink
from goqueue.pipeline.declared.form.sources import Source
from goqueue.pipeline.declared.form.spec import Case, Head, Pipeline
from goqueue.pipeline.declared.form.steps import STEPS, Step
from goqueue.pipeline.declared.form.words import Form
from goqueue.pipeline.declared.form.yaml_text import line_at, parse

T = TypeVar("T", bound=Form)
# A check of a pipeline that has no other problem, with the place in the file of each step and sink.
Check = Callable[[Pipeline, Mapping[str, str]], list[Problem]]

_LISTS = ("sources", "steps", "sinks", "tests")


def load_file(
    path: str | Path,
    *,
    environment: str | None = None,
    given: Mapping[str, str] = MappingProxyType({}),
    last: Check | None = None,
) -> Pipeline:
    """Read and check a pipeline file; `PipelineInvalid` lists all that is wrong with it.

    `environment` and `given` say which values its parameters have; `last` is a further check, such as one that asks
    the registry.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise PipelineInvalid([Problem("", f"cannot read {path}: {error.strerror}")]) from error
    return load_text(text, folder=Path(path).resolve().parent, environment=environment, given=given, last=last)


def load_text(
    text: str,
    *,
    folder: Path | None = None,
    environment: str | None = None,
    given: Mapping[str, str] = MappingProxyType({}),
    last: Check | None = None,
) -> Pipeline:
    """As `load_file`, from the file's text; modules of Python steps are also looked for in `folder`."""
    try:
        raw, lines = parse(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        message = f"not YAML: {getattr(error, 'problem', None) or error}"
        raise PipelineInvalid([Problem("", message, line=mark.line + 1 if mark else None)]) from error
    return load_values(
        raw, folder=folder, line_of=lambda path: line_at(lines, path), environment=environment, given=given, last=last
    )


def load_values(
    raw: Any,
    *,
    folder: Path | None = None,
    line_of: Callable[[str], int | None] = lambda _: None,
    environment: str | None = None,
    given: Mapping[str, str] = MappingProxyType({}),
    last: Check | None = None,
) -> Pipeline:
    """A pipeline from plain dictionaries and lists, as YAML gives them or as Python code writes them."""
    raw, problems = with_parameters(raw, environment, given)
    reading = _Reading()
    pipeline = None if problems else reading.pipeline(raw)
    problems = problems + reading.problems
    if pipeline is not None:
        problems = problems + problems_of(pipeline, folder=folder, places=reading.places, unread=reading.unread)
        if not problems and last is not None:
            problems = last(pipeline, reading.places)
    if problems or pipeline is None:
        placed = [replace(one, line=line_of(one.path)) for one in problems]
        raise PipelineInvalid(sorted(placed, key=lambda one: one.line or 0))
    return pipeline


class _Reading:
    """One pass over the raw values; goes on after a problem, to find the others."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        # Parts that could not be read: whoever refers to them is not to blame.
        self.unread: set[str] = set()
        # Where each step and sink stands in the file.
        self.places: dict[str, str] = {}

    def pipeline(self, raw: Any) -> Pipeline | None:
        if not isinstance(raw, Mapping):
            self.problem("", "a pipeline is a mapping with name, sources, steps and sinks")
            return None
        head = self._head({key: value for key, value in raw.items() if key not in _LISTS})
        sources = self._sources(raw.get("sources"))
        steps = self._chain(raw.get("steps", []), last_source=next(reversed(sources), None))
        last = next(reversed(steps), next(reversed(sources), None))
        sinks = self._sinks(raw.get("sinks"), last)
        cases = [self.convert(case, Case, f"tests[{at}]") for at, case in enumerate(raw.get("tests") or [])]
        for name in steps.keys() & sources.keys():
            self.problem(f"steps.{name}", "a source has this name already")
        return Pipeline(
            **msgspec.structs.asdict(head),
            sources=sources,
            steps=steps,
            sinks=sinks,
            tests=[case for case in cases if case is not None],
        )

    def _head(self, raw: Mapping[str, Any]) -> Head:
        head = self.convert(raw, Head, "")
        if head is None:
            # Its name is missing, or none: the rest is checked under any name.
            known = len(self.problems)
            head = self.convert({**raw, "name": "unnamed"}, Head, "")
            del self.problems[known:]
        return head or Head(name="unnamed", dead_letters="unknown")

    def _sources(self, raw: Any) -> dict[str, Source]:
        if not isinstance(raw, Mapping) or not raw:
            self.problem("sources", "name at least one source, as in  orders: {topic: orders}")
            return {}
        found = {}
        for name, body in raw.items():
            source = self.convert(body, Source, f"sources.{name}")
            if source is None:
                self.unread.add(str(name))
                continue
            if sum(kind is not UNSET for kind in (source.topic, source.table, source.files)) != 1:
                self.problem(f"sources.{name}", "say either topic, table or files")
            found[str(name)] = source
        return found

    def _chain(self, raw: Any, *, last_source: str | None) -> dict[str, Step]:
        """Steps by name, each reading the one before it unless it says otherwise."""
        found: dict[str, Step] = {}
        previous = last_source
        for at, entry in enumerate(self._list(raw, "steps")):
            read = self._tagged(entry, STEPS, f"steps[{at}]")
            if read is None:
                continue
            kind, step = read
            name = f"{kind}_{at + 1}" if step.name is UNSET else step.name
            if name in found:
                self.problem(f"steps[{at}].{kind}.name", f"there is a step {name!r} already")
            if step.from_ is UNSET and previous is not None:
                step.from_ = previous
            step.name = name
            self.places[f"steps.{name}"] = f"steps[{at}].{kind}"
            found[name] = step
            previous = name
        return found

    def _sinks(self, raw: Any, last: str | None) -> dict[str, Sink]:
        found: dict[str, Sink] = {}
        entries = self._list(raw, "sinks")
        if not entries:
            self.problem("sinks", "name at least one sink, as in  - topic: {topic: clean}")
        for at, entry in enumerate(entries):
            read = self._tagged(entry, SINKS, f"sinks[{at}]")
            if read is None:
                continue
            kind, sink = read
            name = (kind if kind not in found else f"{kind}_{at + 1}") if sink.name is UNSET else sink.name
            if name in found:
                self.problem(f"sinks[{at}].{kind}.name", f"there is a sink {name!r} already")
            if sink.from_ is UNSET and last is not None:
                sink.from_ = last
            sink.name = name
            self.places[f"sinks.{name}"] = f"sinks[{at}].{kind}"
            found[name] = sink
        return found

    def _tagged(self, entry: Any, kinds: Mapping[str, type[T]], path: str) -> tuple[str, T] | None:
        """An entry such as `filter: {where: ...}`: one key that says what it is."""
        if not isinstance(entry, Mapping) or len(entry) != 1:
            self.problem(path, f"write one of {', '.join(kinds)}, with what it needs below it")
            return None
        kind, body = next(iter(entry.items()))
        if kind not in kinds:
            self.problem(path, f"there is no {kind!r}", hint=f"there are {', '.join(kinds)}")
            return None
        read = self.convert(body, kinds[kind], f"{path}.{kind}")
        if read is None:
            if isinstance(body, Mapping) and "name" in body:
                self.unread.add(str(body["name"]))
            return None
        return kind, read

    def _list(self, raw: Any, path: str) -> list[Any]:
        if raw is None:
            return []
        if not isinstance(raw, list):
            self.problem(path, "must be a list: begin each entry with '-'")
            return []
        return raw

    def convert(self, raw: Any, kind: type[T], path: str) -> T | None:
        """One part of the file, without what is wrong in it; None if too little is left of it."""
        left_out: set[str] = set()
        while True:
            try:
                return msgspec.convert(raw, kind, strict=True)
            except msgspec.ValidationError as error:
                refusal = form_problem(error, kind)
            inner = refusal.field or ""
            first = inner.split(".")[0].split("[")[0]
            if first not in left_out and not _is_meant(first, self.problems):
                self.problem(_joined(path, inner), _message(refusal, raw), hint=refusal.hint)
            if not isinstance(raw, Mapping) or first not in raw:
                return None
            # What is left may have mistakes of its own.
            left_out.add(first)
            raw = {key: value for key, value in raw.items() if key != first}

    def problem(self, path: str, message: str, *, hint: str | None = None) -> None:
        """Remember what is wrong, and where."""
        self.problems.append(Problem(path, message, hint))


def _is_meant(missing: str, told: Sequence[Problem]) -> bool:
    """Whether the last problem is that what is missing here was misspelt."""
    return bool(told) and told[-1].hint == f"did you mean {missing!r}?"


def _message(refusal: InvalidRequest, raw: Any) -> str:
    field = refusal.field or ""
    message = str(refusal).removeprefix(f"{field}: ")
    pattern = re.search(r"matching regex '(.*)'", message)
    if pattern and isinstance(raw, Mapping) and field in raw:
        # The hint says it in words. Of a mapping it is a name that does not fit.
        given = raw[field]
        unfit = [key for key in given if not re.search(pattern[1], str(key))] if isinstance(given, Mapping) else [given]
        # An address may hold a password.
        return re.sub(r"://[^/]*@", "://...@", f"{', '.join(map(repr, unfit))} does not fit")
    return message


def _joined(path: str, inner: str) -> str:
    return f"{path}.{inner}" if path and inner else path or inner

"""Parameters of a pipeline file: `${name}` in any text, with values per environment.

    parameters: {town: Bonn, least: 10}
    environments:
      production: {least: 100}

What is given when the pipeline is loaded goes before the environment, and that before the parameters. `${env:NAME}` is
a variable of the process, also in the values of parameters; `$${` is written for a plain `${`. A text that is nothing
but `${name}` becomes the value itself, so that numbers stay numbers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from goqueue.pipeline.declared.form.problems import Problem

PARAMETERS, ENVIRONMENTS = "parameters", "environments"
_PLACE = re.compile(r"\$(\$\{)|\$\{([^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN = (str, int, float, bool)


def with_parameters(raw: Any, environment: str | None, given: Mapping[str, str]) -> tuple[Any, list[Problem]]:
    """The file's values with every parameter in its place, and what is wrong with them."""
    if not isinstance(raw, Mapping):
        return raw, []
    body = {key: value for key, value in raw.items() if key not in (PARAMETERS, ENVIRONMENTS)}
    found = _Values()
    known = found.declared(raw, environment, given)
    filled = found.fill(body, known, "")
    return filled, found.problems


class _Values:
    """One pass; goes on after a problem, to find the others."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def declared(self, raw: Mapping[str, Any], environment: str | None, given: Mapping[str, str]) -> dict[str, Any]:
        """The value of every parameter."""
        known = self._mapping(raw.get(PARAMETERS), PARAMETERS)
        places = dict.fromkeys(known, PARAMETERS)
        environments = raw.get(ENVIRONMENTS) or {}
        if not isinstance(environments, Mapping):
            self._problem(ENVIRONMENTS, "must be a mapping of names to parameters")
            environments = {}
        for name, values in environments.items():
            own = self._mapping(values, f"{ENVIRONMENTS}.{name}")
            for one in own.keys() - known.keys():
                self._problem(f"{ENVIRONMENTS}.{name}.{one}", "is not a parameter", f"there are {_names(known)}")
            if name == environment:
                known = {**known, **{one: value for one, value in own.items() if one in known}}
                places |= {one: f"{ENVIRONMENTS}.{name}" for one in own if one in known}
        if environment is not None and environment not in environments:
            self._problem(ENVIRONMENTS, f"there is no environment {environment!r}", f"there are {_names(environments)}")
        for one in given.keys() - known.keys():
            self._problem(PARAMETERS, f"there is no parameter {one!r} to set", f"there are {_names(known)}")
        return {
            name: _as_kind(given[name], value) if name in given else self._variables(value, f"{places[name]}.{name}")
            for name, value in known.items()
        }

    def _variables(self, value: Any, path: str) -> Any:
        """The value of a parameter with variables of the process in their places; it takes no other parameters."""
        for plain, name in _PLACE.findall(value) if isinstance(value, str) else ():
            if not plain and not name.startswith("env:"):
                self._problem(path, f"takes ${{env:NAME}} only, not ${{{name}}}", "write $${ for a plain ${")
                return value
        return self.fill(value, {}, path)

    def fill(self, value: Any, known: Mapping[str, Any], path: str) -> Any:
        """A value with every parameter in its place."""
        if isinstance(value, Mapping):
            return {key: self.fill(one, known, f"{path}.{key}" if path else str(key)) for key, one in value.items()}
        if isinstance(value, list):
            return [self.fill(one, known, f"{path}[{at}]") for at, one in enumerate(value)]
        if not isinstance(value, str) or "${" not in value:
            return value
        alone = re.fullmatch(r"\$\{([^}]*)\}", value)
        if alone is not None:
            return self._value(alone[1], known, path)
        return _PLACE.sub(lambda one: "${" if one[1] else str(self._value(one[2], known, path)), value)

    def _value(self, name: str, known: Mapping[str, Any], path: str) -> Any:
        kind, _, variable = name.partition(":")
        if kind == "env" and variable:
            if variable not in os.environ:
                self._problem(path, f"the variable {variable} is not set in this process")
            return os.environ.get(variable, "")
        if name not in known:
            self._problem(
                path, f"there is no parameter {name!r}", f"there are {_names(known)}; write $${{ for a plain ${{"
            )
        return known.get(name, "")

    def _mapping(self, raw: Any, path: str) -> dict[str, Any]:
        if raw is None:
            return {}
        if not isinstance(raw, Mapping):
            self._problem(path, "must be a mapping of names to values")
            return {}
        return dict(self._plain(raw, path))

    def _plain(self, raw: Mapping[Any, Any], path: str) -> Iterator[tuple[str, Any]]:
        for name, value in raw.items():
            if not _NAME.fullmatch(str(name)):
                self._problem(f"{path}.{name}", "is not a name", "use letters, digits and underscores")
            elif not isinstance(value, _PLAIN):
                self._problem(f"{path}.{name}", "must be a text, a number, true or false")
            else:
                yield str(name), value

    def _problem(self, path: str, message: str, hint: str | None = None) -> None:
        self.problems.append(Problem(path, message, hint))


def _as_kind(text: str, like: Any) -> Any:
    """A value from the command line, as the file's own is: a number for a number."""
    if isinstance(like, bool):
        return {"true": True, "false": False}.get(text.lower(), text)
    if isinstance(like, int | float):
        try:
            return type(like)(text)
        except ValueError:
            return text
    return text


def _names(names: Any) -> str:
    return ", ".join(sorted(map(str, names))) or "none"

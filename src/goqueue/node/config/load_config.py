"""Settings from all their sources: defaults < file < GOQUEUE_* variables < command line.

Every problem of every source is reported at once, named by where it stands. A setting
that nobody knows is a problem too: silently ignored settings are how a broker ends up
running with values that nobody chose.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, fields, replace
from pathlib import Path
from typing import Any

from goqueue.config import Config, documented_settings
from goqueue.errors import ConfigError
from goqueue.node.config.check_config import problems_of

PREFIX = "GOQUEUE_"
# These configure the command line's client side; the broker leaves them alone.
CLIENT_VARIABLES = frozenset(
    {
        "GOQUEUE_SERVER",
        "GOQUEUE_CONTEXT",
        "GOQUEUE_API_KEY",
        "GOQUEUE_USER",
        "GOQUEUE_PASSWORD",
        "GOQUEUE_NEW_PASSWORD",
        "GOQUEUE_CA",
        "GOQUEUE_CERTIFICATE",
        "GOQUEUE_TIMEOUT",
        "GOQUEUE_ADMIN_SERVER",
        "GOQUEUE_ADMIN_API_KEY",
    }
)
# Kubernetes injects these into every pod of a namespace that has a Service named `goqueue` or `goqueue-...`.
_SERVICE_LINK = re.compile(
    r"GOQUEUE_(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)"
)
_SERVICE_ADDRESS = re.compile(r"(?:tcp|udp|sctp)://")
_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})


def load(config_file: str | None, environ: Mapping[str, str], flags: Mapping[str, str]) -> Config:
    """Read all settings; raises `ConfigError` with every problem.

    `flags` maps a setting's path (`log.segment_bytes`) to the text given for it.
    """
    problems: list[str] = []
    given: dict[str, _Given] = {}
    if config_file is not None:
        given |= _from_file(config_file, problems)
    given |= _from_environment(environ, problems)
    given |= _from_flags(flags, problems)
    values: dict[str, object] = {}
    for path, one in given.items():
        try:
            values[path] = _parse(one.value, _SETTINGS[path])
        except ValueError as error:
            problems.append(f"{one.source}: {error}")
    config = _assemble(values)
    # A value that could not be read was replaced by its default, which has no problems.
    problems += problems_of(config, {path: one.source for path, one in given.items()})
    if problems:
        raise ConfigError(problems)
    return config


@dataclass(frozen=True, slots=True)
class _Given:
    value: object
    source: str


def _from_file(config_file: str, problems: list[str]) -> dict[str, _Given]:
    try:
        content = read_settings_file(Path(config_file))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        problems.append(f"{config_file}: {reason}")
        return {}
    given: dict[str, _Given] = {}
    for section, settings in content.items():
        if section not in _SECTIONS:
            problems.append(f"{config_file}: unknown section {section!r}{_did_you_mean(str(section), _SECTIONS)}")
        elif not isinstance(settings, Mapping):
            problems.append(f"{config_file}: {section} holds settings by name, not one value")
        else:
            for name, value in settings.items():
                path = f"{section}.{name}"
                if path in _SETTINGS:
                    given[path] = _Given(value, f"{config_file}: {path}")
                else:
                    problems.append(f"{config_file}: unknown setting {path!r}{_did_you_mean(path, _SETTINGS)}")
    return given


def read_settings_file(path: Path) -> Mapping[Any, Any]:
    """The sections of a TOML or YAML file; raises OSError or ValueError."""
    # Each parser is imported only by who has such a file: a start without one need not wait for them.
    if path.suffix == ".toml":
        import tomllib

        return tomllib.loads(path.read_text(encoding="utf-8"))
    if path.suffix in {".yaml", ".yml"}:
        import yaml

        try:
            content = yaml.safe_load(path.read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            raise ValueError(" ".join(str(error).split())) from None
        if content is None:
            return {}
        if not isinstance(content, Mapping):
            raise ValueError("the file must hold sections by name")
        return content
    raise ValueError("a settings file ends in .toml, .yaml or .yml")


def _from_environment(environ: Mapping[str, str], problems: list[str]) -> dict[str, _Given]:
    given: dict[str, _Given] = {}
    for variable in sorted(environ):
        if not variable.startswith(PREFIX) or variable in CLIENT_VARIABLES:
            continue
        path = _VARIABLES.get(variable)
        if path is None and _is_service_link(variable, environ[variable]):
            continue
        if path is None:
            problems.append(f"{variable}: unknown setting{_did_you_mean(variable, _VARIABLES)}")
        else:
            given[path] = _Given(environ[variable], variable)
    return given


def _is_service_link(variable: str, value: str) -> bool:
    """Whether Kubernetes made this variable: it describes a Service and is no setting of the broker."""
    is_address = variable.endswith("_PORT") and _SERVICE_ADDRESS.match(value) is not None
    return is_address or _SERVICE_LINK.fullmatch(variable) is not None


def _from_flags(flags: Mapping[str, str], problems: list[str]) -> dict[str, _Given]:
    given: dict[str, _Given] = {}
    for path, value in flags.items():
        if path in _SETTINGS:
            flag = _SETTINGS[path].metadata.get("flag", f"--set {path}")
            given[path] = _Given(value, flag)
        else:
            problems.append(f"--set {path}: unknown setting{_did_you_mean(path, _SETTINGS)}")
    return given


def _parse(value: object, setting: Field[Any]) -> object:
    kind: type = type(setting.default)
    separator = str(setting.metadata.get("separator", ","))
    parsed = _parse_text(value, kind, separator) if isinstance(value, str) else value
    if kind is tuple and isinstance(parsed, list) and all(isinstance(one, str) for one in parsed):
        parsed = tuple(parsed)
    if kind is float and type(parsed) is int:
        parsed = float(parsed)
    # bool is an int to Python, and must not be one to us.
    if type(parsed) is not kind:
        raise ValueError(f"{value!r} is not {_KIND_NAMES[kind]}")
    minimum, maximum, choices = (setting.metadata.get(key) for key in ("minimum", "maximum", "choices"))
    if minimum is not None and parsed < minimum:
        raise ValueError(f"{value} is less than {minimum}")
    if maximum is not None and parsed > maximum:
        raise ValueError(f"{value} is more than {maximum}")
    if choices is not None and parsed not in choices:
        raise ValueError(f"{value!r} is not one of {', '.join(map(str, choices))}")
    return parsed


def _parse_text(text: str, kind: type, separator: str) -> object:
    if kind is str:
        return text
    if kind is tuple:
        return tuple(part.strip() for part in text.split(separator) if part.strip())
    word = text.strip().lower()
    if kind is bool:
        return True if word in _TRUE else False if word in _FALSE else text
    try:
        return kind(word)
    except ValueError:
        return text


def _assemble(values: Mapping[str, object]) -> Config:
    sections: dict[str, Any] = {}
    for section in fields(Config):
        prefix = f"{section.name}."
        changed = {path.removeprefix(prefix): value for path, value in values.items() if path.startswith(prefix)}
        sections[section.name] = replace(section.default, **changed)  # type: ignore[type-var]
    return Config(**sections)


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.7)
    return f"; did you mean {close[0]!r}?" if close else ""


_KIND_NAMES = {int: "an integer", float: "a number", bool: "true or false", str: "text", tuple: "a list of texts"}
_SECTIONS = {section.name: section for section in fields(Config)}
_SETTINGS: dict[str, Field[Any]] = {
    f"{section.name}.{one.name}": one
    for section in fields(Config)
    for one in fields(section.default)  # type: ignore[arg-type]
}
_VARIABLES = {variable: f"{section}.{name}" for section, name, _, variable, _ in documented_settings()}

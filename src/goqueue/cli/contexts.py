"""Which broker the command line talks to: contexts in ~/.goqueue/config.yaml.

A flag goes before the environment, the environment before the current context, and that
before the default.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from goqueue.errors import ConfigError

DEFAULT_SERVER = "http://127.0.0.1:8080"
DEFAULT_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class Context:
    """One broker we know."""

    server: str = DEFAULT_SERVER
    api_key: str | None = None
    timeout_s: int = DEFAULT_TIMEOUT_S


@dataclass(slots=True)
class Contexts:
    """All brokers we know, and the one we mean when nothing else is said."""

    current: str = "local"
    known: dict[str, Context] = field(default_factory=lambda: {"local": Context()})


def config_path() -> Path:
    """Where contexts are kept."""
    return Path.home() / ".goqueue" / "config.yaml"


def load() -> Contexts:
    """The stored contexts, or the one that everybody has."""
    path = config_path()
    if not path.exists():
        return Contexts()
    try:
        stored = yaml.safe_load(path.read_text()) or {}
        known = {
            name: Context(str(row["server"]), row.get("api-key"), int(row.get("timeout", DEFAULT_TIMEOUT_S)))
            for name, row in (stored.get("contexts") or {}).items()
        }
        return Contexts(str(stored.get("current-context", "local")), known or {"local": Context()})
    except (yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError) as problem:
        raise ConfigError([f"{path} cannot be read as contexts: {problem!r}"]) from problem


def save(contexts: Contexts) -> None:
    """Store the contexts where only their owner can read them: they may hold keys."""
    path = config_path()
    path.parent.mkdir(mode=0o700, exist_ok=True)
    stored: dict[str, Any] = {"current-context": contexts.current, "contexts": {}}
    for name, context in contexts.known.items():
        row: dict[str, Any] = {"server": context.server, "timeout": context.timeout_s}
        if context.api_key:
            row["api-key"] = context.api_key
        stored["contexts"][name] = row
    fresh = path.with_suffix(".new")
    fresh.touch(mode=0o600)
    fresh.write_text(yaml.safe_dump(stored, sort_keys=False))
    fresh.replace(path)


def resolve(server: str | None, context: str | None) -> Context:
    """The broker meant by the flags, the environment and the stored contexts, in that order."""
    contexts = load()
    name = context or os.environ.get("GOQUEUE_CONTEXT") or contexts.current
    chosen = contexts.known.get(name)
    if chosen is None:
        if context or os.environ.get("GOQUEUE_CONTEXT"):
            raise ConfigError([f"there is no context {name!r}; known: {', '.join(sorted(contexts.known))}"])
        chosen = Context()
    address = server or os.environ.get("GOQUEUE_SERVER") or chosen.server
    key = os.environ.get("GOQUEUE_API_KEY") or chosen.api_key
    timeout = os.environ.get("GOQUEUE_TIMEOUT")
    if timeout is not None and not timeout.isdigit():
        raise ConfigError([f"GOQUEUE_TIMEOUT={timeout!r} is not a number of seconds"])
    if "://" not in address:
        address = f"http://{address}"
    return Context(address, key, int(timeout) if timeout else chosen.timeout_s)

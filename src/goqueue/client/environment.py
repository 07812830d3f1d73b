"""Which broker is meant when a program does not say: the environment, then the stored contexts, then the default.

Contexts are kept in ~/.goqueue/config.yaml and written by `goqueue config`. GOQUEUE_SERVER has the address, or several
separated by commas; GOQUEUE_CONTEXT, GOQUEUE_TIMEOUT and the variables of `credentials` are read too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from goqueue.client.credentials import Credentials, from_environment
from goqueue.client.durations import seconds_of
from goqueue.client.errors import InvalidArgument
from goqueue.errors import ConfigError

DEFAULT_SERVER = "http://127.0.0.1:8080"
DEFAULT_TIMEOUT_S = 30
# Fields of a stored context besides its address, key and timeout.
STORED_CREDENTIALS = ("user", "password", "ca", "certificate")


@dataclass(frozen=True, slots=True)
class Context:
    """One broker we know."""

    server: str = DEFAULT_SERVER
    api_key: str | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S
    user: str | None = None
    password: str | None = None
    ca: str | None = None
    certificate: str | None = None

    @property
    def credentials(self) -> Credentials:
        """What to show to this broker."""
        return Credentials(self.api_key, self.user, self.password, self.ca, self.certificate)


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
    # Not above: most programs have no contexts, and the import takes a while.
    import yaml

    try:
        stored = yaml.safe_load(path.read_text()) or {}
        known = {
            name: Context(
                str(row["server"]),
                row.get("api-key"),
                float(row.get("timeout", DEFAULT_TIMEOUT_S)),
                *(row.get(field) for field in STORED_CREDENTIALS),
            )
            for name, row in (stored.get("contexts") or {}).items()
        }
        return Contexts(str(stored.get("current-context", "local")), known or {"local": Context()})
    except (yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError) as problem:
        raise ConfigError([f"{path} cannot be read as contexts: {problem!r}"]) from problem


def resolve(server: str | None = None, context: str | None = None) -> Context:
    """The broker that is meant by what was given, the environment and the stored contexts, in that order."""
    contexts = load()
    name = context or os.environ.get("GOQUEUE_CONTEXT") or contexts.current
    chosen = contexts.known.get(name)
    if chosen is None:
        if context or os.environ.get("GOQUEUE_CONTEXT"):
            raise ConfigError([f"there is no context {name!r}; known: {', '.join(sorted(contexts.known))}"])
        chosen = Context()
    # A context that was asked for by name is meant more than an address that the environment happens to have.
    address = server or (None if context else os.environ.get("GOQUEUE_SERVER")) or chosen.server
    shown = from_environment().over(chosen.credentials)
    return Context(
        address,
        shown.api_key,
        environment_timeout_s() or chosen.timeout_s,
        shown.user,
        shown.password,
        shown.ca,
        shown.certificate,
    )


def environment_timeout_s() -> float | None:
    """What GOQUEUE_TIMEOUT says: seconds, or text such as 500ms."""
    text = os.environ.get("GOQUEUE_TIMEOUT")
    if text is None:
        return None
    try:
        return seconds_of(float(text) if text.isdigit() else text, "GOQUEUE_TIMEOUT")
    except InvalidArgument as problem:
        raise ConfigError([str(problem)]) from None

"""Which broker the command line talks to: contexts in ~/.goqueue/config.yaml, which the Python client reads too.

A flag goes before the environment, the environment before the current context, and that
before the default.
"""

from __future__ import annotations

from typing import Any

import yaml

from goqueue.client.environment import (
    DEFAULT_SERVER,
    DEFAULT_TIMEOUT_S,
    STORED_CREDENTIALS,
    Context,
    Contexts,
    config_path,
    load,
    resolve,
)

__all__ = ["DEFAULT_SERVER", "DEFAULT_TIMEOUT_S", "Context", "Contexts", "config_path", "load", "resolve", "save"]


def save(contexts: Contexts) -> None:
    """Store the contexts where only their owner can read them: they may hold keys."""
    path = config_path()
    path.parent.mkdir(mode=0o700, exist_ok=True)
    stored: dict[str, Any] = {"current-context": contexts.current, "contexts": {}}
    for name, context in contexts.known.items():
        row: dict[str, Any] = {"server": context.server, "timeout": context.timeout_s}
        if context.api_key:
            row["api-key"] = context.api_key
        row |= {name: value for name in STORED_CREDENTIALS if (value := getattr(context, name))}
        stored["contexts"][name] = row
    fresh = path.with_suffix(".new")
    fresh.touch(mode=0o600)
    fresh.write_text(yaml.safe_dump(stored, sort_keys=False))
    fresh.replace(path)

"""How a setting is declared: a field that carries its documentation."""

from __future__ import annotations

from dataclasses import field
from typing import Any

MIB = 1024 * 1024


def setting(default: Any, doc: str, **extra: Any) -> Any:
    """A documented field. `extra` may name `env`, `flag`, `minimum`, `maximum`, `choices`."""
    return field(default=default, metadata={"doc": doc, **extra})

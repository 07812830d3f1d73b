"""The version of the installed package: the one in pyproject.toml, written nowhere twice."""

from __future__ import annotations

from importlib import metadata


def version() -> str:
    """As in `0.1.0`."""
    return metadata.version("goqueue")

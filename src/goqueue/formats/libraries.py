"""The libraries of the extra, imported when first used, with an error that names the extra if they are missing."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from goqueue.errors import SchemasNotInstalled

_NEEDED = ("jsonschema_rs", "fastavro", "google.protobuf", "grpc_tools")


def library(name: str) -> Any:
    """The module, or `SchemasNotInstalled`."""
    try:
        return import_module(name)
    except ImportError as error:
        raise SchemasNotInstalled(error.name or name) from error


def missing_library() -> str | None:
    """The first package of the extra that is not installed. Nothing is imported."""
    for name in _NEEDED:
        try:
            found = find_spec(name) is not None
        except ModuleNotFoundError:
            found = False
        if not found:
            return name
    return None

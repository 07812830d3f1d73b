"""Which types of values a JSON Schema may allow."""

from __future__ import annotations

from typing import Any

ALL_TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
# As Python has them; booleans before integers, which they are in Python.
_NAMES: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    (list, "array"),
    (dict, "object"),
)


def types_of(schema: dict[str, Any]) -> frozenset[str]:
    """The types that `type`, `const` and `enum` leave. A number is an integer too."""
    declared = schema.get("type")
    types = ALL_TYPES if declared is None else frozenset([declared] if isinstance(declared, str) else declared)
    listed = [schema["const"]] if "const" in schema else schema.get("enum")
    if listed is not None:
        found = frozenset(_name(value) for value in listed)
        both = types & found
        types = both | {"integer"} if "number" in types and "integer" in found else both
    return types


def _name(value: Any) -> str:
    return next((name for kind, name in _NAMES if isinstance(value, kind)), "null")

"""What is wrong with the form of what somebody wrote, said so that they can mend it.

msgspec finds the problem and ends its message with the path, as in "Expected `int`, got
`str` - at `$.messages[3].key`". Here it becomes an error that names the field and, where
the type knows them, the values or names that are allowed.
"""

from __future__ import annotations

import difflib
import re
from typing import Any

import msgspec
from msgspec import inspect

from goqueue.errors import InvalidRequest


def form_problem(problem: msgspec.ValidationError, kind: Any) -> InvalidRequest:
    """The error to answer, for a request that was to be of type `kind`."""
    message, _, path = str(problem).partition(" - at `")
    path = path.rstrip("`").removeprefix("$").removeprefix(".")
    if unknown := re.search(r"unknown field `(.*)`", message):
        return _unknown_field(unknown[1], path, kind)
    if missing := re.search(r"missing required field `(.*)`", message):
        return InvalidRequest(f"{missing[1]!r} is missing", field=_joined(path, missing[1]))
    allowed = _choices(_type_at(kind, path))
    hint = f"use {', '.join(allowed)}" if allowed else None
    return InvalidRequest(f"{path}: {message}" if path else message, field=path or None, hint=hint)


def _unknown_field(name: str, path: str, kind: Any) -> InvalidRequest:
    known = [one.encode_name for one in getattr(_type_at(kind, path), "fields", ())]
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}" if known else None
    return InvalidRequest(f"there is no field {name!r}", field=_joined(path, name), hint=hint)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _type_at(kind: Any, path: str) -> inspect.Type | None:
    """The type that a path leads to, as far as it can be told."""
    found: inspect.Type | None = _bare(inspect.type_info(kind))
    for step in re.findall(r"\[[^\]]*\]|[^.\[\]]+", path):
        if isinstance(found, inspect.StructType):
            following = next((one.type for one in found.fields if one.encode_name == step), None)
        elif isinstance(found, inspect.ListType):
            following = found.item_type
        elif isinstance(found, inspect.DictType):
            following = found.value_type
        else:
            return None
        found = None if following is None else _bare(following)
    return found


def _bare(kind: inspect.Type) -> inspect.Type:
    """Without what says only that a value may be left out."""
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    if isinstance(kind, inspect.UnionType):
        some = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
        if len(some) == 1:
            return _bare(some[0])
    return kind


def _choices(kind: inspect.Type | None) -> list[str]:
    return [str(one) for one in kind.values] if isinstance(kind, inspect.LiteralType) else []

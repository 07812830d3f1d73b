"""What is wrong with the form of what somebody wrote, said so that they can mend it.

msgspec finds the problem and ends its message with the path, as in "Expected `int`, got
`str` - at `$.messages[3].key`". Here it becomes an error that names the field and, where
the type knows them, the values or names that are allowed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect

from goqueue.errors import InvalidRequest


def form_problem(problem: msgspec.ValidationError, kind: Any) -> InvalidRequest:
    """The error to answer, for a request that was to be of type `kind`."""
    message, _, path = str(problem).partition(" - at `")
    # The name of an entry is told as in "at `key` in `$.rules`".
    is_of_key = path.startswith("key` in `")
    path = path.removeprefix("key` in `").rstrip("`").removeprefix("$").removeprefix(".")
    if unknown := re.search(r"unknown field `(.*)`", message):
        return _unknown_field(unknown[1], path, kind)
    if missing := re.search(r"missing required field `(.*)`", message):
        return InvalidRequest(f"{missing[1]!r} is missing", field=_joined(path, missing[1]))
    wanted = _type_at(kind, path)
    if is_of_key:
        holder = wanted and _bare(wanted)
        wanted = holder.key_type if isinstance(holder, inspect.DictType) else None
    allowed = _choices(wanted)
    hint = f"use {', '.join(allowed)}" if allowed else _own_hint(wanted)
    return InvalidRequest(f"{path}: {message}" if path else message, field=path or None, hint=hint)


def _unknown_field(name: str, path: str, kind: Any) -> InvalidRequest:
    holder = _type_at(kind, path)
    known = [one.encode_name for one in getattr(holder and _bare(holder), "fields", ())]
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}" if known else None
    return InvalidRequest(f"there is no field {name!r}", field=_joined(path, name), hint=hint)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _type_at(kind: Any, path: str) -> inspect.Type | None:
    """The type that a path leads to, as far as it can be told."""
    found: inspect.Type = inspect.type_info(kind)
    for step in re.findall(r"\[[^\]]*\]|[^.\[\]]+", path):
        found = _bare(found)
        following: inspect.Type | None = None
        if isinstance(found, inspect.StructType):
            following = next((one.type for one in found.fields if one.encode_name == step), None)
        elif isinstance(found, inspect.ListType):
            following = found.item_type
        elif isinstance(found, inspect.DictType):
            following = found.value_type
        if following is None:
            return None
        found = following
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
    """The words that are allowed, also where a number would do."""
    return [str(word) for one in _parts(kind) if isinstance(one, inspect.LiteralType) for word in one.values]


def _own_hint(kind: inspect.Type | None) -> str | None:
    """What the type itself says: `Meta(extra={"hint": ...})`."""
    hints = (one.extra.get("hint") for one in _parts(kind) if isinstance(one, inspect.Metadata) and one.extra)
    return next((hint for hint in hints if hint), None)


def _parts(kind: inspect.Type | None) -> Iterator[inspect.Type]:
    """A type with what it is made of: what is annotated, and the sides of a union."""
    if kind is None:
        return
    yield kind
    if isinstance(kind, inspect.Metadata):
        yield from _parts(kind.type)
    elif isinstance(kind, inspect.UnionType):
        for one in kind.types:
            yield from _parts(one)

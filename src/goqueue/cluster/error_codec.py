"""Errors of our tree as they travel between nodes: by class name and fields, never as code.

A node of another version may not know the class: the names of its ancestors go along, and the nearest one that is
known stands in. The message and the fields are kept in any case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from goqueue import errors
from goqueue.errors import GoQueueError

_PLAIN = (type(None), bool, int, float, str, bytes)


class SentError(msgspec.Struct, frozen=True, array_like=True):
    """One error: the names of its class and of that class's ancestors, its message and its fields."""

    kinds: tuple[str, ...]
    message: str
    fields: dict[str, Any]


def sent_error(error: GoQueueError) -> SentError:
    """The error as a value that can be written."""
    kinds = tuple(one.__name__ for one in type(error).__mro__ if issubclass(one, GoQueueError))
    fields = {name: _plain(value) for name, value in vars(error).items() if not name.startswith("_")}
    return SentError(kinds, str(error), fields)


def received_error(sent: SentError) -> GoQueueError:
    """The error that a peer raised. Its `__init__` is not run: message and fields are as they were there."""
    kind = next((known for name in sent.kinds if (known := _known(name)) is not None), GoQueueError)
    error = kind.__new__(kind)
    error.args = (sent.message,)
    for name, value in sent.fields.items():
        setattr(error, name, _frozen(value))
    return error


def _known(name: str) -> type[GoQueueError] | None:
    found = getattr(errors, name, None)
    return found if isinstance(found, type) and issubclass(found, GoQueueError) else None


def _plain(value: object) -> Any:
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, Mapping):
        return {_plain(key): _plain(one) for key, one in value.items()}
    if isinstance(value, Sequence | set | frozenset):
        return [_plain(one) for one in value]
    return str(value)


def _frozen(value: Any) -> Any:
    """Lists as tuples, as the classes of errors have them."""
    if isinstance(value, list):
        return tuple(_frozen(one) for one in value)
    if isinstance(value, dict):
        return {_frozen(key): _frozen(one) for key, one in value.items()}
    return value

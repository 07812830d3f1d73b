"""Kinds of homes: an operation is answered here, by the node that keeps its subject, or by all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from goqueue.servers.operations import Call


class Here(msgspec.Struct, frozen=True):
    """Any node answers: from the metadata, from what is its own, or through services that ask the leaders."""


class AtLeader(msgspec.Struct, frozen=True):
    """The leader of a partition. `place` says which; what is wrong with it the operation itself says."""

    place: Callable[[Call], tuple[str, int]]


class AtCoordinator(msgspec.Struct, frozen=True):
    """The coordinator of a key in an internal topic. `key` is None if the request does not say: then all are asked."""

    topic: str
    key: Callable[[Call], str | None]


class Everywhere(msgspec.Struct, frozen=True):
    """Every node answers for its own; one reply is made of theirs.

    Numbers are added up, but of those named in `largest` the largest counts. `rows` names the list that the reply is
    about, which is sorted by fields of its rows; if it `is_paged`, each node gives its first `skip + limit` rows, and
    the reply has `limit` of them.
    """

    largest: frozenset[str] = frozenset()
    rows: str | None = None
    order: tuple[str, ...] = ()
    is_descending: bool = False
    is_paged: bool = False


Home = Here | AtLeader | AtCoordinator | Everywhere
HERE = Here()


def in_path(name: str) -> Callable[[Call], str]:
    """A part of the path."""
    return lambda call: str(call.path[name])


def in_body(name: str) -> Callable[[Call], Any]:
    """A field of the body."""
    return lambda call: getattr(call.body, name)

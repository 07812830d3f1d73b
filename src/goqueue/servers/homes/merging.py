"""One reply of several nodes': what each says of its own is added up, joined and sorted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from goqueue.servers.homes.kinds import Everywhere


def merged(replies: Sequence[Any], home: Everywhere, *, skip: int, limit: int | None) -> Any:
    """The reply for all nodes, as the builtin values that JSON has. The first is of the node that was asked."""
    whole = _joined([msgspec.to_builtins(one) for one in replies], home.largest)
    if home.rows is not None:
        rows = whole[home.rows]
        rows.sort(key=lambda row: tuple(row[name] for name in home.order), reverse=home.is_descending)
        if home.is_paged:
            rows = rows[skip:] if limit is None else rows[skip : skip + limit]
        whole[home.rows] = rows
        for name in ("count", "total"):
            if name in whole:
                whole[name] = len(rows)
        if home.is_paged:
            whole |= {name: value for name, value in (("skip", skip), ("limit", limit)) if name in whole}
    return whole


def _joined(values: Sequence[Any], largest: frozenset[str], name: str = "") -> Any:
    first = values[0]
    if isinstance(first, dict):
        names = list(dict.fromkeys(key for one in values for key in one))
        return {key: _joined([one[key] for one in values if key in one], largest, key) for key in names}
    if isinstance(first, list):
        return [row for one in values for row in one]
    if isinstance(first, int | float) and not isinstance(first, bool):
        numbers = [one for one in values if isinstance(one, int | float)]
        return max(numbers) if name in largest else sum(numbers)
    # A word that nodes agree on, or that only some have.
    return next((one for one in values if one is not None), None)

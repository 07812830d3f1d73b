"""Data for the examples: the same seed gives the same rows, and a share of them is bad on purpose."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from random import Random

_START = dt.datetime(2026, 1, 1, 8, tzinfo=dt.UTC)


def generate(example: str, count: int, *, bad_share: float = 0.02, seed: int = 1) -> Iterator[dict[str, str]]:
    """`count` messages, as `goqueue produce -f` takes them."""
    rng = Random(seed)  # noqa: S311 - made-up data
    make = _ROWS[example]
    for number in range(count):
        row = make(rng, number)
        is_bad = rng.random() < bad_share
        yield {"key": str(next(iter(row.values()))), "value": "{cut off" if is_bad else json.dumps(row)}


def _order(rng: Random, number: int) -> dict[str, object]:
    return {
        "id": number,
        "customer": rng.choice(["ada", "ben", "cyd", "dan", "eve"]),
        "amount": round(rng.uniform(1, 300), 2),
        "currency": rng.choice(["EUR", "EUR", "USD"]),
        "at": _text(_START + dt.timedelta(seconds=number)),
    }


def _click(rng: Random, number: int) -> dict[str, object]:
    late_s = rng.choice([0, 0, 0, 0, 1200])
    return {
        "click_id": f"c{number}",
        "visitor": f"visitor-{rng.randrange(50)}",
        "page": rng.choice(["/home", "/search", "/item", "/buy"]),
        "at": _text(_START + dt.timedelta(seconds=10 * number - late_s)),
    }


def _event(rng: Random, number: int) -> dict[str, object]:
    return {
        "id": number,
        "kind": rng.choice(["made", "changed", "gone"]),
        "at": _text(_START + dt.timedelta(seconds=number)),
    }


def _text(at: dt.datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S")


_ROWS: dict[str, Callable[[Random, int], dict[str, object]]] = {"orders": _order, "clicks": _click, "lake": _event}

"""Durations and starting points as people write them in a query."""

from __future__ import annotations

import re

from goqueue.errors import InvalidRequest

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_BARE = re.compile(r"[0-9]{1,12}")
_DURATION = re.compile(r"0+|(?:[0-9]{1,12}(?:ms|s|m|h|d))+")
_PART = re.compile(r"([0-9]+)(ms|s|m|h|d)?")
# SQS's longest; whoever needs more asks for more while it works.
_VISIBILITY_MS_MAX = 12 * 3_600_000


def parse_duration_ms(text: str, field: str, *, maximum_ms: int) -> int:
    """`250ms`, `5s`, `1h30m`, or `0`, which needs no unit. Any other bare number would be a guess."""
    stripped = text.strip()
    found = _DURATION.fullmatch(stripped)
    if found is None and _BARE.fullmatch(stripped):
        raise InvalidRequest(
            f"{field}={text!r} has no unit",
            field=field,
            hint=f"write {stripped}s for seconds, {stripped}ms for milliseconds",
        )
    if found is None:
        raise InvalidRequest(f"{field}={text!r} is not a duration", field=field, hint="write it as 250ms, 5s or 2m")
    milliseconds = sum(int(part[1]) * _UNITS_MS[part[2] or "ms"] for part in _PART.finditer(found[0]))
    if milliseconds > maximum_ms:
        raise InvalidRequest(f"{field}={text!r} is longer than {maximum_ms} ms", field=field)
    return milliseconds


def parse_visibility_ms(text: str | None) -> int | None:
    """How long messages stay with whoever took them; None where the policy decides."""
    return None if text is None else parse_duration_ms(text, "visibility", maximum_ms=_VISIBILITY_MS_MAX)

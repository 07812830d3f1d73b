"""Lengths of time as people write them (`500ms`, `5m`), as Spark wants them (`5 minutes`)."""

from __future__ import annotations

_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def spark_interval(text: str) -> str:
    """`5m` as `5 minutes`; what is written out already stays."""
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text[len(number) :].strip()
    return f"{number} {_UNITS.get(unit, unit)}"

"""Lengths of time as people write them (`500ms`, `5m`), as Spark wants them (`5 minutes`)."""

from __future__ import annotations

_MS = {"milliseconds": 1, "seconds": 1000, "minutes": 60_000, "hours": 3_600_000, "days": 86_400_000}
_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def spark_interval(text: str) -> str:
    """`5m` as `5 minutes`; what is written out already stays."""
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text[len(number) :].strip()
    return f"{number} {_UNITS.get(unit, unit)}"


def interval_ms(text: str) -> int:
    """The length in milliseconds."""
    number, unit = spark_interval(text).split()
    return int(number) * _MS[unit if unit.endswith("s") else f"{unit}s"]

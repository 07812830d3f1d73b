"""How rows are divided into partitions of an Iceberg table: `day(at)`, `bucket(16, id)`, or a column by its values."""

from __future__ import annotations

import re

_FORM = re.compile(r"(?:(year|month|day|hour)\s*\(\s*(\w+)\s*\)|(bucket|truncate)\s*\(\s*(\d+)\s*,\s*(\w+)\s*\)|(\w+))")


class BadTransform(ValueError):
    """Neither a column nor a transform."""


def partition_field(text: str) -> tuple[str, str]:
    """The column, and the transform in Iceberg's words."""
    found = _FORM.fullmatch(text.strip())
    if found is None or (found[4] is not None and int(found[4]) == 0):
        raise BadTransform(f"{text!r} is neither a column nor year, month, day, hour, bucket or truncate of one")
    part, of_time, shape, number, of_value, plain = found.groups()
    if plain:
        return plain, "identity"
    return (of_time, part) if part else (of_value, f"{shape}[{number}]")

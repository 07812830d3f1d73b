"""Bounds of numbers, texts, arrays and objects: a reader's must not be tighter than the writer's."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from goqueue.formats.source import Problem

KEYWORDS = frozenset({
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems",
    "maxItems", "minProperties", "maxProperties",
})  # fmt: skip
_Schema = dict[str, Any]


def numbers(reader: _Schema, writer: _Schema, path: str) -> Iterator[Problem]:
    """Limits and multiples."""
    for sign, keyword in ((1, "minimum"), (-1, "maximum")):
        new, old = _limit(reader, keyword, sign), _limit(writer, keyword, sign)
        if new is not None and (old is None or new > old):
            change = "ADDED" if old is None else "INCREASED" if sign == 1 else "DECREASED"
            yield Problem(f"{keyword.upper()}_{change}", f"{path}/{keyword}", f"{keyword} is tighter than before")
    new_multiple, old_multiple = reader.get("multipleOf"), writer.get("multipleOf")
    if new_multiple is not None:
        at = f"{path}/multipleOf"
        if old_multiple is None:
            yield Problem("MULTIPLE_OF_ADDED", at, "multipleOf was added")
        elif Fraction(str(old_multiple)) % Fraction(str(new_multiple)):
            yield Problem("MULTIPLE_OF_CHANGED", at, f"multiples of {old_multiple} are not all of {new_multiple}")


def strings(reader: _Schema, writer: _Schema, path: str) -> Iterator[Problem]:
    """Lengths, patterns and formats. Whether one pattern contains another is not decided here."""
    yield from sizes(reader, writer, path, ("minLength", "maxLength"))
    for keyword in ("pattern", "format"):
        new, old = reader.get(keyword), writer.get(keyword)
        if new is not None and new != old:
            change = "ADDED" if old is None else "CHANGED"
            yield Problem(f"{keyword.upper()}_{change}", f"{path}/{keyword}", f"{keyword} was {change.lower()}")


def sizes(reader: _Schema, writer: _Schema, path: str, keywords: tuple[str, str]) -> Iterator[Problem]:
    """A least and a greatest size."""
    least, greatest = keywords
    new, old = reader.get(least, 0), writer.get(least, 0)
    if new > old:
        yield Problem(f"{_upper(least)}_INCREASED", f"{path}/{least}", f"{least} was {old} and is {new}")
    limit, old_limit = reader.get(greatest), writer.get(greatest)
    if limit is not None and (old_limit is None or limit < old_limit):
        was = "absent" if old_limit is None else old_limit
        yield Problem(f"{_upper(greatest)}_DECREASED", f"{path}/{greatest}", f"{greatest} was {was} and is {limit}")


def _limit(schema: _Schema, keyword: str, sign: int) -> tuple[Fraction, bool] | None:
    """The tighter of a limit and its exclusive form, so that a greater one is tighter."""
    found: list[tuple[Fraction, bool]] = []
    exclusive = schema.get(f"exclusive{keyword.capitalize()}")
    if keyword in schema:
        # In draft 4 the exclusive form is a switch.
        found.append((sign * Fraction(str(schema[keyword])), exclusive is True))
    if exclusive is not None and not isinstance(exclusive, bool):
        found.append((sign * Fraction(str(exclusive)), True))
    return max(found, default=None)


def _upper(keyword: str) -> str:
    return "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in keyword).upper()

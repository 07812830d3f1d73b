"""Shapes of Kafka's messages, read from `messages.txt`, and of our own beside them, from `private_messages.txt`.

A message is a tree of fields, each with the versions that know it. `decode` and `encode`
turn one version of that tree into functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

MESSAGES_FILE = Path(__file__).with_name("messages.txt")
PRIVATE_FILE = Path(__file__).with_name("private_messages.txt")

Kind = Literal["request", "response"]


class Span(NamedTuple):
    """Versions from `first` to `last`, both included."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


@dataclass(frozen=True, slots=True)
class FieldShape:
    """One field of a message or of a struct inside it."""

    name: str
    type: str
    is_array: bool
    versions: Span
    nullable: Span | None
    tag: int | None
    default: object
    children: tuple[FieldShape, ...]

    def is_nullable(self, version: int) -> bool:
        """Whether this version can say null here."""
        return self.nullable is not None and version in self.nullable


@dataclass(frozen=True, slots=True)
class MessageShape:
    """The request or the response of one API, in all its versions."""

    name: str
    api_key: int
    kind: str
    versions: Span
    flexible_from: int
    fields: tuple[FieldShape, ...]

    def is_flexible(self, version: int) -> bool:
        """Whether this version has compact lengths and tagged fields."""
        return version >= self.flexible_from


def message_shape(api_key: int, kind: Kind) -> MessageShape:
    """The shape of one message; KeyError for an API we do not speak."""
    return _all_shapes()[api_key, kind]


@cache
def _all_shapes() -> Mapping[tuple[int, str], MessageShape]:
    lines = [
        (len(line) - len(line.lstrip()), line.split())
        for file in (MESSAGES_FILE, PRIVATE_FILE)
        for line in file.read_text(encoding="utf-8").splitlines()
        if line.strip() and not line.startswith("#")
    ]
    shapes = {}
    at = 0
    while at < len(lines):
        name, key, kind, versions, flexible_from = lines[at][1]
        span = _span(versions, Span(0, 0))
        fields, at = _parse_fields(lines, at + 1, 2, span)
        shapes[int(key), kind] = MessageShape(name, int(key), kind, span, int(flexible_from), fields)
    return shapes


def _parse_fields(
    lines: list[tuple[int, list[str]]], at: int, indent: int, around: Span
) -> tuple[tuple[FieldShape, ...], int]:
    """The fields at this indent, and the line behind them."""
    fields = []
    while at < len(lines) and lines[at][0] == indent:
        name, kind, versions, *rest = lines[at][1]
        options = dict(word.split("=", 1) for word in rest)
        span = _span(versions, around)
        children, at = _parse_fields(lines, at + 1, indent + 2, span)
        is_array = kind.startswith("[")
        nullable = _span(options["nullable"], span) if "nullable" in options else None
        fields.append(
            FieldShape(
                name=name,
                type=kind.strip("[]"),
                is_array=is_array,
                versions=span,
                nullable=nullable,
                tag=int(options["tag"]) if "tag" in options else None,
                default=_default(kind, options.get("default"), is_nullable=nullable is not None),
                children=children,
            )
        )
    return tuple(fields), at


def _span(text: str, around: Span) -> Span:
    if text == "*":
        return around
    first, last = text.split("-")
    return Span(int(first), int(last))


def _default(kind: str, text: str | None, *, is_nullable: bool) -> object:
    """Kafka's rule: what the schema says, else null where it may be, else the type's zero."""
    if kind.startswith("["):
        return None if is_nullable else ()
    if text is None:
        return None if is_nullable else _ZEROS[kind]
    if kind in {"string", "bytes"}:
        return text
    return text == "true" if kind == "bool" else float(text) if kind == "float64" else int(text)


_ZEROS: Mapping[str, object] = {
    **dict.fromkeys(("int8", "int16", "uint16", "int32", "int64", "ms32", "ms64", "error"), 0),
    "bool": False,
    "float64": 0.0,
    "string": "",
    "bytes": b"",
    "records": (),
    "uuid": None,
    "struct": None,
}

"""What `goqueue schema infer` proposes: a JSON Schema learned from some messages and tested on others."""

from __future__ import annotations

from typing import Any

import msgspec

from goqueue.client import Client
from goqueue.client.transport import quoted

_READ = 1000
_EXAMPLES_MAX = 5
# More properties than this, and an object is a map from names that are data.
_PROPERTIES_MAX = 200


async def propose(client: Client, topic: str, limit: int, *, closed: bool) -> dict[str, Any]:
    """A schema learned from three of four messages, and how the fourth ones fare."""
    from goqueue.formats.source import SchemaType, Source
    from goqueue.formats.work import check_values, compiled

    values = await _values(client, topic, limit)
    documents: list[tuple[bytes, Any]] = []
    not_json = 0
    for value in values:
        try:
            documents.append((value, msgspec.json.decode(value)))
        except (msgspec.DecodeError, UnicodeDecodeError):
            not_json += 1
    held_out = documents[3::4] if len(documents) >= 8 else []
    learned = [one for index, one in enumerate(documents) if not held_out or index % 4 != 3]
    schema: dict[str, Any] = {"$schema": "http://json-schema.org/draft-07/schema#", "title": topic}
    shape = Shape()
    for _, document in learned:
        shape.add(document)
    schema |= shape.schema(closed=closed)
    source = Source(SchemaType.JSON, msgspec.json.encode(schema).decode())
    verdicts = check_values(compiled(source), [value for value, _ in held_out])
    failures = [verdict for verdict in verdicts if verdict]
    return {
        "schema": schema,
        "seen": len(values),
        "learned": len(learned),
        "tested": len(held_out),
        "failed": len(failures),
        "not_json": not_json,
        "examples": failures[:_EXAMPLES_MAX],
    }


async def _values(client: Client, topic: str, limit: int) -> list[bytes]:
    found: list[bytes] = []
    for row in (await client.get(f"/topics/{quoted(topic)}/partitions"))["partitions"]:
        start, left = max(row["earliest"], 0), limit
        while left > 0 and start < row["latest"]:
            messages, following = await client.read(topic, row["partition"], offset=start, limit=min(left, _READ))
            found += [one.value for one in messages if one.value]
            left -= len(messages)
            if following <= start:
                break
            start = following
    return found


class Shape:
    """What values have in common."""

    def __init__(self) -> None:
        self._types: set[str] = set()
        self._objects = 0
        self._properties: dict[str, Shape] = {}
        self._counts: dict[str, int] = {}
        self._items: Shape | None = None

    def add(self, value: Any) -> None:
        """Take one more value into account."""
        kind = _type(value)
        self._types.add(kind)
        if isinstance(value, dict):
            self._objects += 1
            for name, one in value.items():
                self._counts[name] = self._counts.get(name, 0) + 1
                self._properties.setdefault(name, Shape()).add(one)
        elif isinstance(value, list):
            self._items = self._items or Shape()
            for one in value:
                self._items.add(one)

    def schema(self, *, closed: bool) -> dict[str, Any]:
        """The schema of all values so far. A property that all objects had is required."""
        types = self._types - {"integer"} if "number" in self._types else self._types
        if not types:
            return {}
        schema: dict[str, Any] = {"type": min(types) if len(types) == 1 else sorted(types)}
        if self._objects and len(self._properties) > _PROPERTIES_MAX:
            merged = Shape()
            for one in self._properties.values():
                merged.merge(one)
            schema["additionalProperties"] = merged.schema(closed=closed)
        elif self._objects:
            schema["properties"] = {name: one.schema(closed=closed) for name, one in self._properties.items()}
            required = [name for name, count in self._counts.items() if count == self._objects]
            if required:
                schema["required"] = required
            if closed:
                schema["additionalProperties"] = False
        if self._items is not None and (items := self._items.schema(closed=closed)):
            schema["items"] = items
        return schema

    def merge(self, other: Shape) -> None:
        """Take all that another shape has seen into account."""
        self._types |= other._types
        self._objects += other._objects
        for name, shape in other._properties.items():
            self._counts[name] = self._counts.get(name, 0) + other._counts[name]
            self._properties.setdefault(name, Shape()).merge(shape)
        if other._items is not None:
            self._items = self._items or Shape()
            self._items.merge(other._items)


def _type(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"

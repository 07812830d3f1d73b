"""The differ of JSON Schemas: each keyword that makes a schema narrower is a rule with a name.

`compare(reader, writer)` lists what the reader refuses and the writer allows. A keyword that the differ does not know
must be the same in both. References are followed on both sides, recursive ones once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any
from urllib.parse import unquote

import msgspec

from goqueue.formats.compatibility import json_bounds
from goqueue.formats.compatibility.json_types import ALL_TYPES, types_of
from goqueue.formats.source import Problem

# Keywords that say nothing about which values are allowed.
_ANNOTATIONS = frozenset({
    "$schema", "$id", "id", "$comment", "$anchor", "$defs", "$vocabulary", "definitions", "title", "description",
    "default", "examples", "deprecated", "readOnly", "writeOnly", "contentEncoding", "contentMediaType",
    "contentSchema",
})  # fmt: skip
_COMPARED = frozenset({
    "type", "enum", "const", "properties", "required", "additionalProperties", "patternProperties", "items",
    "prefixItems", "additionalItems", "uniqueItems", "allOf", "anyOf", "oneOf", "pattern", "format", "$ref",
    *json_bounds.KEYWORDS,
})  # fmt: skip
_Schema = Any


class Document:
    """A schema and its imports, in which references are looked up."""

    def __init__(self, root: _Schema, imports: Mapping[str, _Schema]) -> None:
        self._root = root
        self._imports = imports

    def find(self, reference: str, root: _Schema) -> tuple[_Schema, _Schema]:
        """What a reference stands for, and the document it lies in; raises KeyError if it is not found here."""
        name, _, fragment = reference.partition("#")
        if name:
            own = self._root.get("$id") if isinstance(self._root, dict) else None
            root = self._root if name == own else self._imports[name]
        at: Any = root
        if fragment and not fragment.startswith("/"):
            raise KeyError(fragment)
        for part in fragment.split("/")[1:]:
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            at = at[int(key)] if isinstance(at, list) else at[key]
        return at, root


class Differ:
    """Compares a reader's schema with a writer's."""

    def __init__(self, reader: Document, writer: Document) -> None:
        self._reader = reader
        self._writer = writer
        self._reader_root = reader._root  # noqa: SLF001
        self._writer_root = writer._root  # noqa: SLF001
        # Pairs that are being compared: recursive schemas come back to them.
        self._under_way: set[tuple[int, int]] = set()

    def compare(self, reader: _Schema, writer: _Schema, path: str) -> list[Problem]:
        """What the writer allows and the reader refuses."""
        roots = self._reader_root, self._writer_root
        try:
            reader, self._reader_root = _resolved(self._reader, reader, self._reader_root)
            writer, self._writer_root = _resolved(self._writer, writer, self._writer_root)
        except (KeyError, IndexError, TypeError, ValueError):
            self._reader_root, self._writer_root = roots
            return [Problem("REFERENCE_UNKNOWN", path, "a $ref cannot be followed")]
        pair = (id(reader), id(writer))
        is_new = pair not in self._under_way
        try:
            self._under_way.add(pair)
            return list(self._differences(reader, writer, path)) if is_new else []
        finally:
            self._reader_root, self._writer_root = roots
            if is_new:
                self._under_way.discard(pair)

    def _differences(self, reader: _Schema, writer: _Schema, path: str) -> Iterator[Problem]:
        if reader is True or writer is False or identical(reader, writer):
            return
        if reader is False:
            yield Problem("SCHEMA_REMOVED", path, "nothing is allowed any more")
            return
        writer = {} if writer is True else writer
        branches = _alternatives(writer)
        if len(branches) > 1 or branches[0] is not writer:
            kind = "anyOf" if "anyOf" in writer else "oneOf"
            for index, branch in enumerate(branches):
                yield from self.compare(reader, branch, f"{path}/{kind}/{index}")
            return
        writer = _conjunction(writer)
        yield from self._combined(reader, writer, path)
        yield from self._values(reader, writer, path)
        types = types_of(writer)
        if types & {"integer", "number"}:
            yield from json_bounds.numbers(reader, writer, path)
        if "string" in types:
            yield from json_bounds.strings(reader, writer, path)
        if "array" in types:
            yield from self._arrays(reader, writer, path)
        if "object" in types:
            yield from self._objects(reader, writer, path)
        for keyword in sorted(reader.keys() - _ANNOTATIONS - _COMPARED):
            if keyword not in writer or not identical(reader[keyword], writer[keyword]):
                yield Problem("KEYWORD_CHANGED", f"{path}/{keyword}", f"{keyword!r} was added or changed")

    def _combined(self, reader: _Schema, writer: _Schema, path: str) -> Iterator[Problem]:
        for index, branch in enumerate(reader.get("allOf", ())):
            yield from self.compare(branch, writer, f"{path}/allOf/{index}")
        for keyword in ("anyOf", "oneOf"):
            branches = reader.get(keyword)
            if branches is None:
                continue
            fits = any(not self.compare(branch, writer, path) for branch in branches)
            # A value may match only one branch of a oneOf, so branches must not share values.
            if not fits or (keyword == "oneOf" and _overlap(branches)):
                message = f"no branch of {keyword} allows all that was allowed here"
                yield Problem("COMBINED_TYPE_SUBSCHEMAS_CHANGED", f"{path}/{keyword}", message)

    def _values(self, reader: _Schema, writer: _Schema, path: str) -> Iterator[Problem]:
        missing = types_of(writer) - types_of(reader)
        if "number" in types_of(reader):
            missing -= {"integer"}
        if missing:
            rule = "TYPE_NARROWED" if types_of(reader) & types_of(writer) else "TYPE_CHANGED"
            yield Problem(rule, f"{path}/type", f"{_listed(missing)} is not allowed any more")
        allowed = _enumerated(reader)
        if allowed is None:
            return
        known = _enumerated(writer)
        if known is None:
            yield Problem("ENUM_ADDED", f"{path}/enum", "only listed values are allowed now")
            return
        gone = [value for value in known if not any(_same(value, one) for one in allowed)]
        if gone:
            yield Problem("ENUM_ARRAY_NARROWED", f"{path}/enum", f"{gone[0]!r} is not listed any more")

    def _arrays(self, reader: _Schema, writer: _Schema, path: str) -> Iterator[Problem]:
        yield from json_bounds.sizes(reader, writer, path, ("minItems", "maxItems"))
        if reader.get("uniqueItems") and not writer.get("uniqueItems"):
            yield Problem("UNIQUE_ITEMS_ADDED", f"{path}/uniqueItems", "items must be unique now")
        places, rest = _items(reader)
        old_places, old_rest = _items(writer)
        for index in range(max(len(places), len(old_places))):
            new = places[index] if index < len(places) else rest
            old = old_places[index] if index < len(old_places) else old_rest
            yield from self.compare(new, old, f"{path}/items/{index}")
        yield from self.compare(rest, old_rest, f"{path}/items")

    def _objects(self, reader: _Schema, writer: _Schema, path: str) -> Iterator[Problem]:
        yield from json_bounds.sizes(reader, writer, path, ("minProperties", "maxProperties"))
        required = set(writer.get("required", ()))
        for name in reader.get("required", ()):
            if name not in required:
                at = f"{path}/required/{name}"
                yield Problem("REQUIRED_ATTRIBUTE_ADDED", at, f"property {name!r} is required and was optional")
        if not identical(reader.get("patternProperties", {}), writer.get("patternProperties", {})):
            at = f"{path}/patternProperties"
            yield Problem("PATTERN_PROPERTIES_CHANGED", at, "patternProperties were changed")
        new, old = reader.get("properties", {}), writer.get("properties", {})
        new_rest, old_rest = reader.get("additionalProperties", True), writer.get("additionalProperties", True)
        for name, schema in new.items():
            at = f"{path}/properties/{name}"
            if name in old:
                yield from self.compare(schema, old[name], at)
            elif self.compare(schema, old_rest, at):
                message = f"property {name!r} could have any value before, since additionalProperties were allowed"
                yield Problem("PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", at, message)
        for name in old.keys() - new.keys():
            at = f"{path}/properties/{name}"
            if new_rest is False and old[name] is not False:
                message = f"property {name!r} was removed, and additionalProperties are not allowed"
                yield Problem("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", at, message)
            elif new_rest is not False:
                yield from self.compare(new_rest, old[name], at)
        yield from self._additional(new_rest, old_rest, path)

    def _additional(self, new: _Schema, old: _Schema, path: str) -> Iterator[Problem]:
        at = f"{path}/additionalProperties"
        if new is False and old is not False:
            yield Problem("ADDITIONAL_PROPERTIES_REMOVED", at, "properties that are not listed are refused now")
        elif self.compare(new, old, at):
            yield Problem("ADDITIONAL_PROPERTIES_NARROWED", at, "properties that are not listed may be less now")


def identical(one: _Schema, other: _Schema) -> bool:
    """Whether two schemas are the same, wherever they stand: what a reference stands for may differ."""
    text = msgspec.json.encode(one, order="deterministic")
    return text == msgspec.json.encode(other, order="deterministic") and b'Ref":' not in text and b'"$ref":' not in text


def _resolved(document: Document, schema: _Schema, root: _Schema) -> tuple[_Schema, _Schema]:
    seen = 0
    while isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
        seen += 1
        if seen > 100:
            raise ValueError("references are circular")
        target, root = document.find(schema["$ref"], root)
        beside = {key: value for key, value in schema.items() if key != "$ref" and key not in _ANNOTATIONS}
        # From draft 2019-09 on, keywords beside a reference count too.
        schema = {**beside, "allOf": [*beside.get("allOf", ()), target]} if beside else target
    return schema, root


def _alternatives(writer: _Schema) -> list[_Schema]:
    """The branches of which a value matches at least one, each with what is written beside them."""
    for keyword in ("anyOf", "oneOf"):
        if keyword in writer:
            beside = {key: value for key, value in writer.items() if key != keyword and key not in _ANNOTATIONS}
            if not beside:
                return list(writer[keyword])
            return [{**beside, "allOf": [*beside.get("allOf", ()), one]} for one in writer[keyword]]
    return [writer]


def _conjunction(writer: _Schema) -> _Schema:
    """The writer with the keywords of `allOf` written beside the rest.

    Where two schemas have a keyword, the first one counts, which allows more than both together.
    """
    merged = {key: value for key, value in writer.items() if key != "allOf"}
    for branch in writer.get("allOf", ()):
        if isinstance(branch, dict):
            for key, value in _conjunction(branch).items():
                if key == "required":
                    merged[key] = [*merged.get(key, ()), *value]
                elif key == "properties":
                    merged[key] = {**value, **merged.get(key, {})}
                else:
                    merged.setdefault(key, value)
    return merged


def _items(schema: _Schema) -> tuple[list[_Schema], _Schema]:
    """The schemas of the first items, one each, and the schema of all others."""
    if "prefixItems" in schema:
        return schema["prefixItems"], schema.get("items", True)
    items = schema.get("items", True)
    if isinstance(items, list):
        return items, schema.get("additionalItems", True)
    return [], items


def _enumerated(schema: _Schema) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    listed: list[Any] | None = schema.get("enum")
    return listed


def _overlap(branches: list[_Schema]) -> bool:
    """Whether branches may share values: they do not if they differ in type, or in the values that they list."""
    for index, one in enumerate(branches):
        for other in branches[index + 1 :]:
            if not isinstance(one, dict) or not isinstance(other, dict):
                return True
            listed, also = _enumerated(one), _enumerated(other)
            if listed is not None and also is not None and not any(_same(a, b) for a in listed for b in also):
                continue
            common = _widened(types_of(one)) & _widened(types_of(other))
            if common or "$ref" in one or "$ref" in other:
                return True
    return False


def _widened(types: frozenset[str]) -> frozenset[str]:
    return types | {"integer"} if "number" in types else types


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return Fraction(one) == Fraction(other)
    return type(one) is type(other) and one == other


def _listed(types: frozenset[str]) -> str:
    return "a value of any type" if types == ALL_TYPES else " or ".join(sorted(types))

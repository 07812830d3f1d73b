"""Avro's schema resolution, as the specification has it.

A reader reads what a writer wrote if
- both are the same primitive, or the writer's is promoted: int to long, float or double; long to float or double;
  float to double; string to bytes and back;
- both are arrays or maps, and the reader reads the items or values;
- both are enums of one name, and the reader knows every symbol or has a default;
- both are fixed of one name and size;
- both are records of one name, the reader reads every field that both have (by name, or by an alias of the reader's),
  and has a default for every field that the writer lacks;
- the writer is a union and the reader reads every branch;
- the reader is a union and one of its branches reads the writer.
Names are compared without namespaces, and by the reader's aliases.
"""

from __future__ import annotations

from typing import Any

from goqueue.formats.avro import PRIMITIVES, full_name, namespace_of, self_contained
from goqueue.formats.source import Problem, Source

_PROMOTIONS = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}
_NAMED = frozenset({"record", "error", "enum", "fixed"})


def problems_of(reader: Source, writer: Source) -> list[Problem]:
    """Why the reader cannot read all that the writer writes."""
    resolver = _Resolver(_Schema(self_contained(reader)), _Schema(self_contained(writer)))
    return resolver.compare(resolver.reader.root, resolver.writer.root, "")


class _Schema:
    """A schema whose named types are found by name, each knowing the namespace it was defined in."""

    def __init__(self, document: Any) -> None:
        self.named: dict[str, Any] = {}
        self.root = self._located(document, "")

    def _located(self, document: Any, namespace: str) -> Any:
        if isinstance(document, list):
            return [self._located(branch, namespace) for branch in document]
        if isinstance(document, str):
            return document if document in PRIMITIVES or "." in document or not namespace else f"{namespace}.{document}"
        kind = document["type"]
        if kind in _NAMED:
            name = full_name(document, namespace)
            located = dict(document, name=name)
            self.named[name] = located
            if "fields" in document:
                located["fields"] = [
                    dict(field, type=self._located(field["type"], namespace_of(name))) for field in document["fields"]
                ]
            return name
        if kind == "array":
            return {"type": "array", "items": self._located(document["items"], namespace)}
        if kind == "map":
            return {"type": "map", "values": self._located(document["values"], namespace)}
        return self._located(kind, namespace)

    def definition(self, document: Any) -> Any:
        """What a name stands for."""
        if isinstance(document, str) and document not in PRIMITIVES:
            return self.named.get(document) or self.named[document.rpartition(".")[2]]
        return document


class _Resolver:
    def __init__(self, reader: _Schema, writer: _Schema) -> None:
        self.reader = reader
        self.writer = writer
        # Pairs of named types that are being compared: recursive types come back to them.
        self._under_way: set[tuple[str, str]] = set()

    def compare(self, reader: Any, writer: Any, path: str) -> list[Problem]:
        reader, writer = self.reader.definition(reader), self.writer.definition(writer)
        if isinstance(writer, list):
            return [
                problem
                for index, branch in enumerate(writer)
                for problem in self._branch(reader, branch, f"{path}/{index}")
            ]
        if isinstance(reader, list):
            return self._into_union(reader, writer, path)
        kind, written = _kind(reader), _kind(writer)
        if kind != written:
            if written in _PROMOTIONS and kind in _PROMOTIONS[written]:
                return []
            return [Problem("TYPE_MISMATCH", path or "/", f"reader type {kind} cannot read writer type {written}")]
        if kind == "array":
            return self.compare(reader["items"], writer["items"], f"{path}/items")
        if kind == "map":
            return self.compare(reader["values"], writer["values"], f"{path}/values")
        if kind in _NAMED:
            return self._named(reader, writer, path)
        return []

    def _branch(self, reader: Any, branch: Any, path: str) -> list[Problem]:
        """One branch of the writer's union."""
        found = self.compare(reader, branch, path)
        if found and isinstance(reader, list):
            name = _name(self.writer.definition(branch))
            return [Problem("MISSING_UNION_BRANCH", path, f"no branch of the reader's union reads {name}")]
        return found

    def _into_union(self, reader: list[Any], writer: Any, path: str) -> list[Problem]:
        nearest: list[Problem] = []
        for branch in reader:
            found = self.compare(branch, writer, path)
            if not found:
                return []
            if _kind(self.reader.definition(branch)) == _kind(writer):
                nearest = found
        message = f"no branch of the reader's union reads {_name(writer)}"
        return nearest or [Problem("MISSING_UNION_BRANCH", path or "/", message)]

    def _named(self, reader: Any, writer: Any, path: str) -> list[Problem]:
        if not _same_name(reader, writer):
            message = f"the writer's {writer['type']} {writer['name']} is named {reader['name']} in the reader"
            return [Problem("NAME_MISMATCH", f"{path}/name", message)]
        pair = (reader["name"], writer["name"])
        if pair in self._under_way:
            return []
        self._under_way.add(pair)
        try:
            if reader["type"] == "fixed":
                return _fixed(reader, writer, path)
            if reader["type"] == "enum":
                return _enum(reader, writer, path)
            return self._record(reader, writer, path)
        finally:
            self._under_way.discard(pair)

    def _record(self, reader: Any, writer: Any, path: str) -> list[Problem]:
        written = {field["name"]: field for field in writer["fields"]}
        found: list[Problem] = []
        for index, field in enumerate(reader["fields"]):
            name = field["name"]
            match = next((written[one] for one in (name, *field.get("aliases", ())) if one in written), None)
            at = f"{path}/fields/{index}"
            if match is not None:
                found += self.compare(field["type"], match["type"], f"{at}/type")
            elif "default" not in field:
                message = f"field {name!r} of {reader['name']} has no default and the writer does not write it"
                found.append(Problem("READER_FIELD_MISSING_DEFAULT_VALUE", at, message))
        return found


def _kind(document: Any) -> str:
    kind = document if isinstance(document, str) else document["type"] if isinstance(document, dict) else "union"
    return "record" if kind == "error" else str(kind)


def _name(document: Any) -> str:
    return str(document.get("name", document["type"])) if isinstance(document, dict) else str(document)


def _same_name(reader: Any, writer: Any) -> bool:
    names = {name.rpartition(".")[2] for name in (reader["name"], *reader.get("aliases", ()))}
    return writer["name"].rpartition(".")[2] in names


def _fixed(reader: Any, writer: Any, path: str) -> list[Problem]:
    if reader["size"] == writer["size"]:
        return []
    message = f"the writer's fixed {writer['name']} has {writer['size']} bytes, the reader's has {reader['size']}"
    return [Problem("FIXED_SIZE_MISMATCH", f"{path}/size", message)]


def _enum(reader: Any, writer: Any, path: str) -> list[Problem]:
    missing = [symbol for symbol in writer["symbols"] if symbol not in reader["symbols"]]
    if not missing or "default" in reader:
        return []
    message = f"enum {reader['name']} of the reader lacks {', '.join(missing)} and has no default"
    return [Problem("MISSING_ENUM_SYMBOLS", f"{path}/symbols", message)]

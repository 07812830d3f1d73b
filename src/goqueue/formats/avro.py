"""Avro, by fastavro. A schema is checked here for what the specification asks and the library lets pass."""

from __future__ import annotations

import copy
import re
from io import BytesIO
from typing import Any

import msgspec

from goqueue.errors import InvalidSchema, InvalidValue
from goqueue.formats.libraries import library
from goqueue.formats.source import Checked, Source

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_decode = msgspec.json.Decoder().decode


class AvroSchema:
    """A parsed Avro schema."""

    def __init__(self, source: Source) -> None:
        fastavro = library("fastavro")
        self.document = self_contained(source)
        self.names = _check(self.document)
        try:
            # The library marks what it has parsed, so it gets a copy.
            self.parsed = fastavro.parse_schema(copy.deepcopy(self.document))
        except fastavro.schema.UnknownType as error:
            message = f"type {error.name!r} is not defined: define it, or list it under references"
            raise InvalidSchema(message, field="schema") from error
        except fastavro.schema.SchemaParseException as error:
            raise InvalidSchema(str(error), field="schema") from error
        except RecursionError:
            raise InvalidSchema("the schema is nested too deeply", field="schema") from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidSchema(f"the schema is not valid Avro: {error!r}", field="schema") from error
        self._read = fastavro.schemaless_reader

    def check(self, value: bytes) -> None:
        """Raise `InvalidValue` unless the bytes are exactly one value of the schema."""
        self.decode(value)

    def decode(self, value: bytes) -> Any:
        """The value as Python has it."""
        stream = BytesIO(value)
        try:
            decoded = self._read(stream, self.parsed, None)
        except EOFError:
            raise InvalidValue("the value ends too early for its Avro schema") from None
        except Exception as error:
            raise InvalidValue(f"the value does not fit its Avro schema: {error!r}") from error
        if stream.tell() != len(value):
            raise InvalidValue(f"{len(value) - stream.tell()} bytes are left over behind the Avro value")
        return decoded


def parse_document(text: str) -> Any:
    """The schema as a JSON value. A bare name of a type, without quotes, is taken as well."""
    if text.strip() in PRIMITIVES:
        return text.strip()
    try:
        return _decode(text)
    except msgspec.DecodeError as error:
        raise InvalidSchema(f"the schema is not valid JSON: {error}", field="schema") from error
    except RecursionError:
        raise InvalidSchema("the schema is nested too deeply", field="schema") from None


def self_contained(source: Source) -> Any:
    """The schema with every referenced type written out where it is first used."""
    document = parse_document(source.text)
    known: dict[str, Any] = {}
    for one in source.imports:
        _collect(parse_document(one.text), "", known)
    if not known:
        return document
    return _written_out(document, "", known, set())


def check(source: Source, *, normalize: bool) -> Checked:
    """Check a schema and find its canonical form: all of it, since defaults and aliases have a meaning too."""
    schema = AvroSchema(source)
    document = parse_document(source.text)
    canonical = msgspec.json.encode(_simple(document, "") if normalize else document, order="deterministic")
    text = canonical.decode() if normalize else source.text
    return Checked(text=text, canonical=canonical, names=schema.names)


def full_name(document: dict[str, Any], namespace: str) -> str:
    """The name of a record, enum or fixed, with its namespace."""
    name = document.get("name")
    if not isinstance(name, str):
        kind = document.get("type")
        raise InvalidSchema(f"a {kind} has no name", field="schema")
    if "." in name:
        return name
    space = document.get("namespace", namespace)
    return f"{space}.{name}" if space else name


def namespace_of(name: str) -> str:
    """The part before the last dot."""
    return name.rpartition(".")[0]


def _check(document: Any) -> tuple[str, ...]:
    """What fastavro lets pass: bad names, missing fields, unions of equal types. Returns the names of records."""
    names: list[str] = []
    _check_type(document, "", names)
    return tuple(names)


def _check_type(document: Any, namespace: str, names: list[str]) -> None:
    if isinstance(document, list):
        _check_union(document, namespace, names)
        return
    if isinstance(document, str):
        return
    if not isinstance(document, dict):
        raise InvalidSchema(f"{document!r} is not an Avro type", field="schema")
    kind = document.get("type")
    if kind in {"record", "error"}:
        name = _checked_name(document, namespace)
        names.append(name)
        _check_fields(document, name, names)
    elif kind in {"enum", "fixed"}:
        _checked_name(document, namespace)
        if kind == "enum":
            _check_symbols(document)
    elif kind in {"array", "map"}:
        part = "items" if kind == "array" else "values"
        if part not in document:
            raise InvalidSchema(f"a {kind} needs {part!r}", field="schema")
        _check_type(document[part], namespace, names)
    elif kind is None:
        raise InvalidSchema("an object of the schema has no 'type'", field="schema")
    else:
        _check_type(kind, namespace, names)


def _check_union(branches: list[Any], namespace: str, names: list[str]) -> None:
    seen: set[str] = set()
    for branch in branches:
        if isinstance(branch, list):
            raise InvalidSchema("a union is directly inside a union", field="schema")
        _check_type(branch, namespace, names)
        kind = branch if isinstance(branch, str) else branch["type"]
        if isinstance(branch, dict) and kind in {"record", "error", "enum", "fixed"}:
            kind = full_name(branch, namespace)
        if isinstance(kind, str):
            if kind in seen:
                raise InvalidSchema(f"a union lists {kind!r} twice", field="schema")
            seen.add(kind)


def _check_fields(document: dict[str, Any], name: str, names: list[str]) -> None:
    fields = document.get("fields")
    if not isinstance(fields, list):
        raise InvalidSchema(f"record {name!r} needs a list of 'fields'", field="schema")
    seen: set[str] = set()
    for field in fields:
        own = field.get("name") if isinstance(field, dict) else None
        if not isinstance(own, str) or not _NAME.fullmatch(own):
            raise InvalidSchema(f"a field of record {name!r} has the name {own!r}", field="schema")
        if own in seen:
            raise InvalidSchema(f"record {name!r} has two fields {own!r}", field="schema")
        if "type" not in field:
            raise InvalidSchema(f"field {own!r} of record {name!r} has no type", field="schema")
        seen.add(own)
        _check_type(field["type"], namespace_of(name), names)


def _check_symbols(document: dict[str, Any]) -> None:
    symbols = document.get("symbols")
    if not isinstance(symbols, list) or not all(isinstance(one, str) and _NAME.fullmatch(one) for one in symbols):
        raise InvalidSchema(f"enum {document.get('name')!r} needs a list of 'symbols' that are names", field="schema")
    if "default" in document and document["default"] not in symbols:
        raise InvalidSchema(f"the default of enum {document.get('name')!r} is not a symbol of it", field="schema")


def _checked_name(document: dict[str, Any], namespace: str) -> str:
    name = full_name(document, namespace)
    if not all(_NAME.fullmatch(part) for part in name.split(".")):
        raise InvalidSchema(f"{name!r} is not an Avro name", field="schema", hint="use A-Z a-z 0-9 _")
    return name


def _collect(document: Any, namespace: str, known: dict[str, Any]) -> None:
    """Every named type of an import, by its full name."""
    if isinstance(document, list):
        for branch in document:
            _collect(branch, namespace, known)
    elif isinstance(document, dict):
        kind = document.get("type")
        if kind in {"record", "error", "enum", "fixed"}:
            name = full_name(document, namespace)
            known[name] = {**document, "name": name}
            for field in document.get("fields") or ():
                if isinstance(field, dict):
                    _collect(field.get("type"), namespace_of(name), known)
        else:
            for part in ("items", "values", "type"):
                _collect(document.get(part), namespace, known)


def _written_out(document: Any, namespace: str, known: dict[str, Any], defined: set[str]) -> Any:
    if isinstance(document, str):
        for name in (document if "." in document else f"{namespace}.{document}".lstrip("."), document):
            if name in known and name not in defined and document not in PRIMITIVES:
                return _written_out(known[name], "", known, defined)
        return document
    if isinstance(document, list):
        return [_written_out(branch, namespace, known, defined) for branch in document]
    if not isinstance(document, dict):
        return document
    kind = document.get("type")
    if kind in {"record", "error", "enum", "fixed"}:
        name = full_name(document, namespace)
        if name in defined and name in known:
            return name
        defined.add(name)
        fields = document.get("fields")
        if not isinstance(fields, list):
            return document
        return {**document, "fields": [_field_written_out(one, namespace_of(name), known, defined) for one in fields]}
    parts = {
        part: _written_out(document[part], namespace, known, defined)
        for part in ("items", "values", "type")
        if part in document
    }
    return {**document, **parts}


def _field_written_out(field: Any, namespace: str, known: dict[str, Any], defined: set[str]) -> Any:
    if not isinstance(field, dict) or "type" not in field:
        return field
    return {**field, "type": _written_out(field["type"], namespace, known, defined)}


def _simple(document: Any, namespace: str) -> Any:
    """One spelling for all equal schemas: full names, and no objects around bare types."""
    if isinstance(document, list):
        return [_simple(branch, namespace) for branch in document]
    if isinstance(document, str):
        return document if document in PRIMITIVES or "." in document or not namespace else f"{namespace}.{document}"
    kind = document.get("type")
    if kind in {"record", "error", "enum", "fixed"}:
        name = full_name(document, namespace)
        rest = {key: value for key, value in document.items() if key != "namespace"}
        rest["name"] = name
        if "fields" in rest:
            rest["fields"] = [{**one, "type": _simple(one["type"], namespace_of(name))} for one in rest["fields"]]
        return rest
    if len(document) == 1:
        return _simple(kind, namespace)
    parts = {part: _simple(document[part], namespace) for part in ("items", "values") if part in document}
    if not isinstance(kind, str):
        parts["type"] = _simple(kind, namespace)
    return {**document, **parts}

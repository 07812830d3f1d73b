"""JSON Schema: drafts 4 to 2020-12, by jsonschema-rs.

References resolve among the imports alone; nothing is ever fetched. Patterns run on a regular expression engine
whose time is linear in the text. Without `$schema`, a schema is of draft 7.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urljoin

import msgspec

from goqueue.errors import InvalidSchema, InvalidValue
from goqueue.formats.libraries import library
from goqueue.formats.source import Checked, Source

# Where schemas without an `$id` lie, so that relative references have something to be relative to.
_BASE = "http://registry.invalid/"
_REGEX_BYTES_MAX = 2 * 1024 * 1024
_DRAFTS = {
    "draft-04": "Draft4",
    "draft-06": "Draft6",
    "draft-07": "Draft7",
    "2019-09": "Draft201909",
    "2020-12": "Draft202012",
}
_decode = msgspec.json.Decoder().decode


def parse_document(text: str) -> Any:
    """The schema as a JSON value."""
    try:
        document = _decode(text)
    except msgspec.DecodeError as error:
        raise InvalidSchema(f"the schema is not valid JSON: {error}", field="schema") from error
    except RecursionError:
        raise InvalidSchema("the schema is nested too deeply", field="schema") from None
    if not isinstance(document, dict | bool):
        raise InvalidSchema("a JSON Schema is an object, true or false", field="schema")
    return document


def draft_of(document: Any) -> str:
    """The name of the draft that a schema declares."""
    declared = document.get("$schema") if isinstance(document, dict) else None
    if declared is None:
        return "Draft7"
    for part, draft in _DRAFTS.items():
        if isinstance(declared, str) and part in declared:
            return draft
    raise InvalidSchema(
        f"$schema {declared!r} is not a known draft", field="schema", hint="use draft 4, 6, 7, 2019-09 or 2020-12"
    )


class JsonSchema:
    """A compiled JSON Schema."""

    def __init__(self, source: Source) -> None:
        rs = library("jsonschema_rs")
        self.document = parse_document(source.text)
        self.draft = draft_of(self.document)
        self.imports = {one.name: parse_document(one.text) for one in source.imports}
        base = self.document.get("$id") if isinstance(self.document, dict) else None
        self.base_uri = urljoin(_BASE, base) if isinstance(base, str) else _BASE
        self.options: dict[str, Any] = {
            "offline": True,
            "base_uri": self.base_uri,
            "pattern_options": rs.RegexOptions(size_limit=_REGEX_BYTES_MAX),
        }
        if self.imports:
            draft = getattr(rs, self.draft)
            located = {urljoin(self.base_uri, name): one for name, one in self.imports.items()}
            located |= {urljoin(_BASE, name): one for name, one in self.imports.items()}
            self.options["registry"] = rs.Registry(list(located.items()), draft=draft)
        try:
            self._validator = getattr(rs, f"{self.draft}Validator")(self.document, **self.options)
        except (rs.ValidationError, rs.ReferencingError, ValueError) as error:
            raise InvalidSchema(_reason(error), field="schema") from error

    def check(self, value: bytes) -> None:
        """Raise `InvalidValue` unless the bytes are JSON that the schema allows."""
        document = parse_value(value)
        if not self._validator.is_valid(document):
            first = next(self._validator.iter_errors(document))
            raise InvalidValue(_brief(str(first.message)), path=_pointer(first.instance_path))

    def decode(self, value: bytes) -> Any:
        """The value, checked."""
        self.check(value)
        return parse_value(value)


def parse_value(value: bytes) -> Any:
    """The JSON value that the bytes spell."""
    try:
        return _decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidValue(f"the value is not valid JSON: {error}") from error
    except RecursionError:
        raise InvalidValue("the value is nested too deeply") from None


def check(source: Source, *, normalize: bool) -> Checked:
    """Check a schema and find its canonical form: the order of keys has no meaning in JSON."""
    schema = JsonSchema(source)
    canonical = msgspec.json.encode(schema.document, order="deterministic")
    title = schema.document.get("title") if isinstance(schema.document, dict) else None
    return Checked(
        text=canonical.decode() if normalize else source.text,
        canonical=canonical,
        names=(title,) if isinstance(title, str) else (),
    )


def _pointer(path: list[str | int]) -> str:
    return "".join(f"/{part}" for part in path) or "/"


def _brief(message: str, chars_max: int = 500) -> str:
    """Messages quote the value, which may be long."""
    if len(message) <= chars_max:
        return message
    return f"{message[: chars_max // 2]} ... {message[-chars_max // 2 :]}"


def _reason(error: Exception) -> str:
    message = _brief(str(getattr(error, "message", error)))
    path = getattr(error, "instance_path", None)
    if "is not present in a registry" in message:
        name = message.split("'")[1].removeprefix(_BASE)
        return f"$ref {name!r} cannot be resolved: list it under references"
    if 'is not a "regex"' in message:
        message += " (look-around and back-references are not supported: patterns run in linear time)"
    return f"{message} at {_pointer(path)}" if path else message

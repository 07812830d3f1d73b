"""What `goqueue schema diff` and `lint` find out."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from goqueue.cli.schemas.schema_files import TypeChoice, pretty, read_schema
from goqueue.cli.session import USAGE, fail
from goqueue.client import Client
from goqueue.errors import InvalidSchema
from goqueue.formats.source import Problem, SchemaType, Source


async def differences(
    client: Client, subject: str, old: str, new: str, type_name: TypeChoice | None
) -> dict[str, list[str]]:
    """The lines that changed, and what speaks against reading the one with the other."""
    from goqueue.formats.compatibility.compare import problems_of

    before = await client.schemas.version(subject, _version(old))
    old_source = await client.schemas.source(before)
    if new == "latest" or new.isdigit():
        after = await client.schemas.version(subject, _version(new))
        new_source, text, name = await client.schemas.source(after), after.text, f"version {after.version}"
    else:
        text, kind = read_schema(Path(new), type_name)
        # A file is taken to reference what the version before it does.
        new_source, name = Source(kind, text, old_source.imports), new
    lines = list(
        difflib.unified_diff(
            pretty(before.text, before.type).splitlines(),
            pretty(text, new_source.type).splitlines(),
            f"{subject} version {before.version}",
            f"{subject} {name}",
            lineterm="",
        )
    )
    return {
        "diff": lines,
        "backward": [_sentence(one) for one in problems_of(new_source, old_source)],
        "forward": [_sentence(one) for one in problems_of(old_source, new_source)],
    }


def findings(text: str, kind: SchemaType) -> tuple[str | None, list[str]]:
    """What is wrong with a schema, and what will make it hard to change."""
    from goqueue.formats.work import check_schema

    source = Source(kind, text)
    try:
        check_schema(source)
    except InvalidSchema as problem:
        return str(problem), []
    if kind is SchemaType.AVRO:
        from goqueue.formats.avro import parse_document

        return None, list(_avro_advice(parse_document(text), ""))
    if kind is SchemaType.PROTOBUF:
        return None, list(_protobuf_advice(source))
    from goqueue.formats.json_schema import parse_document as parse_json

    return None, list(_json_advice(parse_json(text)))


def _version(text: str) -> int | str:
    if text == "latest":
        return text
    if not text.isdigit():
        raise fail(f"{text!r} is not a version: give a number, or latest", USAGE)
    return int(text)


def _sentence(problem: Problem) -> str:
    return f"{problem.rule} at {problem.path}: {problem.message}"


def _json_advice(document: Any) -> Iterator[str]:
    if document is True or document == {}:
        yield "the schema allows everything"
        return
    if "$schema" not in document:
        yield "there is no $schema: draft 7 is assumed"
    if "title" not in document:
        yield "there is no title: the record name strategy takes the subject from it"
    properties = document.get("properties")
    if isinstance(properties, dict):
        if document.get("additionalProperties") is not False:
            yield (
                "additionalProperties are allowed: under BACKWARD no property can be added later, since old messages "
                "may have anything there; say additionalProperties: false"
            )
        if not document.get("required"):
            yield "no property is required: an empty object is valid"


def _avro_advice(document: Any, path: str) -> Iterator[str]:
    if isinstance(document, list):
        for branch in document:
            yield from _avro_advice(branch, path)
    if not isinstance(document, dict):
        return
    if document.get("type") == "record":
        if not path and "." not in document["name"] and not document.get("namespace"):
            yield f"record {document['name']} has no namespace"
        for field in document["fields"]:
            at = f"{path}/{field['name']}"
            if "default" not in field:
                yield f"field {at} has no default: under FORWARD it can never be removed"
            yield from _avro_advice(field["type"], at)
    elif document.get("type") == "enum" and "default" not in document:
        yield f"enum {document['name']} has no default: readers that lack a new symbol will fail"
    for part in ("items", "values"):
        yield from _avro_advice(document.get(part), path)


def _protobuf_advice(source: Source) -> Iterator[str]:
    from goqueue.formats.protobuf import ProtobufSchema

    file = ProtobufSchema(source).file
    if not file.package:
        yield "there is no package: messages of other files may have the same names"
    for message in file.message_type:
        for field in message.field:
            if field.label == field.LABEL_REQUIRED:
                yield f"field {message.name}.{field.name} is required: it can never be removed"
    for enum in file.enum_type:
        if not enum.value[0].name.upper().endswith(("UNSPECIFIED", "UNKNOWN")):
            yield f"enum {enum.name}: its first value {enum.value[0].name} is what unknown values look like"

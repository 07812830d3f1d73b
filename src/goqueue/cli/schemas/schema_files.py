"""Schemas in files: which format they are, what they reference, how they are shown."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from goqueue.cli.session import USAGE, fail
from goqueue.client.schemas.registry import SchemaReference, parse_reference
from goqueue.formats.source import SchemaType

_SUFFIXES = {".avsc": SchemaType.AVRO, ".proto": SchemaType.PROTOBUF, ".json": SchemaType.JSON}


class TypeChoice(StrEnum):
    """What `--type` takes."""

    json = "json"
    avro = "avro"
    protobuf = "protobuf"


SchemaFile = Annotated[
    Path, typer.Argument(help="A .json, .avsc or .proto file; - reads standard input.", allow_dash=True)
]
TypeName = Annotated[
    TypeChoice | None, typer.Option("--type", "-t", help="json, avro or protobuf; by the file's name without it.")
]


def read_schema(file: Path, type_name: TypeChoice | None) -> tuple[str, SchemaType]:
    """The text of a schema, and its format."""
    kind = SchemaType(type_name.upper()) if type_name is not None else _SUFFIXES.get(file.suffix)
    if kind is None:
        raise fail(f"the format of {file} is not clear from its name: say --type json, avro or protobuf", USAGE)
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise fail(f"{file} cannot be read: {problem}", USAGE) from None
    return text, kind


def parse_references(texts: list[str] | None) -> list[SchemaReference]:
    """References as options have them."""
    try:
        return [parse_reference(one) for one in texts or ()]
    except ValueError as problem:
        raise fail(f"--reference {problem}", USAGE) from None


def pretty(text: str, kind: SchemaType) -> str:
    """A schema, indented."""
    if kind is SchemaType.PROTOBUF:
        return text.strip()
    try:
        return msgspec.json.format(text, indent=2)
    except msgspec.DecodeError:
        return text

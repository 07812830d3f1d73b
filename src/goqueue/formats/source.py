"""A schema with all that it references, and what was found out about it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from goqueue.errors import InvalidSchema


class SchemaType(StrEnum):
    """The formats, as the registry's API spells them."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


def parse_type(name: str | None) -> SchemaType:
    """The format of that name; Avro where a request does not say."""
    if not name:
        return SchemaType.AVRO
    try:
        return SchemaType(name.upper())
    except ValueError:
        known = ", ".join(SchemaType)
        raise InvalidSchema(
            f"schemaType {name!r} is not known", field="schemaType", hint=f"use one of {known}"
        ) from None


class Import(msgspec.Struct, frozen=True, array_like=True):
    """One schema that another references, by the name that the other uses for it."""

    name: str
    text: str


class Source(msgspec.Struct, frozen=True, array_like=True):
    """All that is needed to use a schema. Every import comes after those that it needs itself.

    A Protobuf text is either `.proto` source or a FileDescriptorProto in base64.
    """

    type: SchemaType
    text: str
    imports: tuple[Import, ...] = ()


class Checked(msgspec.Struct, frozen=True, array_like=True):
    """A schema that was found to be valid."""

    # As it is shown: what was sent, or one spelling for all equal schemas if normalization was asked for.
    text: str
    # Equal for equal schemas, however they are spelled.
    canonical: bytes
    # Protobuf only: the FileDescriptorProto.
    serialized: bytes = b""
    # The names of the records or messages in it, the first one first; a JSON Schema's title.
    names: tuple[str, ...] = ()


class Problem(msgspec.Struct, frozen=True, array_like=True):
    """Why a reader cannot read what a writer wrote: the rule, the place in the schema, and a sentence."""

    rule: str
    path: str
    message: str

    def __str__(self) -> str:
        return f"{{errorType:'{self.rule}', description:'{self.message}', path:'{self.path}'}}"


Problems = Sequence[Problem]

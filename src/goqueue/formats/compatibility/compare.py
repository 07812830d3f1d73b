"""The comparison that a compatibility level asks for."""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.formats.compatibility import avro, json_schema, protobuf
from goqueue.formats.compatibility.levels import Level
from goqueue.formats.source import Problem, SchemaType, Source


def problems_of(reader: Source, writer: Source) -> Sequence[Problem]:
    """Why data of the writer cannot all be read by the reader; empty if it can."""
    if reader.type is not writer.type:
        message = f"a {reader.type} schema cannot follow a {writer.type} schema"
        return [Problem("SCHEMA_TYPE_CHANGED", "/", message)]
    if reader.type is SchemaType.AVRO:
        return avro.problems_of(reader, writer)
    if reader.type is SchemaType.PROTOBUF:
        return protobuf.problems_of(reader, writer)
    return json_schema.problems_of(reader, writer)


def compare(level: Level, new: Source, old: Source) -> list[Problem]:
    """What keeps a new version from following an old one under a level."""
    found: list[Problem] = []
    if level.reads_old:
        found += problems_of(new, old)
    if level.is_read_by_old:
        found += problems_of(old, new)
    return found

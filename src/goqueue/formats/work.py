"""What the formats do: check a schema, compare two, check values, decode one.

The schema worker does this for the broker; whoever has the libraries in its own process calls it there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from goqueue.errors import InvalidValue
from goqueue.formats import avro, json_schema, protobuf
from goqueue.formats.avro import AvroSchema
from goqueue.formats.compatibility.compare import compare
from goqueue.formats.compatibility.levels import Level
from goqueue.formats.json_schema import JsonSchema
from goqueue.formats.protobuf import ProtobufSchema
from goqueue.formats.readable import readable_json
from goqueue.formats.source import Checked, Problem, SchemaType, Source

Compiled = JsonSchema | AvroSchema | ProtobufSchema


def compiled(source: Source) -> Compiled:
    """A schema that is ready to check and decode values."""
    if source.type is SchemaType.AVRO:
        return AvroSchema(source)
    if source.type is SchemaType.PROTOBUF:
        return ProtobufSchema(source)
    return JsonSchema(source)


def check_schema(source: Source, *, normalize: bool = False) -> Checked:
    """Check a schema and find its canonical form."""
    if source.type is SchemaType.AVRO:
        return avro.check(source, normalize=normalize)
    if source.type is SchemaType.PROTOBUF:
        return protobuf.check(source, normalize=normalize)
    return json_schema.check(source, normalize=normalize)


def compare_schemas(level: Level, new: Source, old: Sequence[Source]) -> list[list[Problem]]:
    """What keeps a schema from following each of the others."""
    return [compare(level, new, one) for one in old]


def check_values(schema: Compiled, values: Sequence[bytes], indexes: Sequence[tuple[int, ...]] = ()) -> list[str]:
    """Why each value is refused; empty for those that are allowed."""
    found: list[str] = []
    for position, value in enumerate(values):
        try:
            if isinstance(schema, ProtobufSchema):
                schema.check(value, indexes[position] if indexes else (0,))
            else:
                schema.check(value)
        except InvalidValue as problem:
            found.append(str(problem))
        else:
            found.append("")
    return found


def decode_values(
    schema: Compiled, values: Sequence[bytes], indexes: Sequence[tuple[int, ...]] = ()
) -> list[tuple[str, str]]:
    """The JSON of each value, and for those that cannot be decoded an empty text and the reason."""
    found: list[tuple[str, str]] = []
    for position, value in enumerate(values):
        try:
            decoded = decode_value(schema, value, indexes[position] if indexes else (0,))
            found.append((readable_json(decoded), ""))
        except InvalidValue as problem:
            found.append(("", str(problem)))
    return found


def decode_value(schema: Compiled, value: bytes, indexes: Sequence[int] = (0,)) -> Any:
    """The value as JSON could have it."""
    if isinstance(schema, ProtobufSchema):
        return schema.decode(value, indexes)
    return schema.decode(value)

"""Spark's types as schemas, for a sink that registers what it writes."""

from __future__ import annotations

import json
import re
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from goqueue.formats.source import SchemaType
from goqueue.pipeline.errors import BadOption

_AVRO: dict[type[DataType], Any] = {
    BooleanType: "boolean", ByteType: "int", ShortType: "int", IntegerType: "int", LongType: "long",
    FloatType: "float", DoubleType: "double", BinaryType: "bytes", StringType: "string",
    DateType: {"type": "int", "logicalType": "date"},
    TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
}  # fmt: skip
_JSON: dict[type[DataType], dict[str, Any]] = {
    BooleanType: {"type": "boolean"}, ByteType: {"type": "integer"}, ShortType: {"type": "integer"},
    IntegerType: {"type": "integer"}, LongType: {"type": "integer"}, FloatType: {"type": "number"},
    DoubleType: {"type": "number"}, StringType: {"type": "string"},
    BinaryType: {"type": "string", "contentEncoding": "base64"},
    DateType: {"type": "string", "format": "date"}, TimestampType: {"type": "string", "format": "date-time"},
}  # fmt: skip
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def derived_schema(kind: DataType, schema_type: SchemaType, topic: str) -> str:
    """The text of a schema whose values are rows of this type."""
    if not isinstance(kind, StructType):
        raise BadOption("columns", f"column value is {kind.simpleString()}; to have a schema it must be a struct")
    name = re.sub(r"\W", "_", topic, flags=re.ASCII)
    name = name if _NAME.fullmatch(name) else f"_{name}"
    made = _avro(kind, name) if schema_type is SchemaType.AVRO else _json(kind) | {"title": name}
    return json.dumps(made, separators=(",", ":"))


def _avro(kind: DataType, name: str) -> Any:
    if isinstance(kind, StructType):
        fields = []
        for one in kind.fields:
            if _NAME.fullmatch(one.name) is None:
                raise BadOption("columns", f"{one.name!r} is not a name that Avro takes: rename the column")
            # A name is used once in a schema, so those of inner records hold their path.
            fields.append({"name": one.name, **_avro_field(one.dataType, f"{name}_{one.name}", nullable=one.nullable)})
        return {"type": "record", "name": name, "fields": fields}
    if isinstance(kind, ArrayType):
        return {"type": "array", "items": _avro_or_null(kind.elementType, name, nullable=kind.containsNull)}
    if isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
        return {"type": "map", "values": _avro_or_null(kind.valueType, name, nullable=kind.valueContainsNull)}
    if isinstance(kind, DecimalType):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    return _known(_AVRO, kind)


def _avro_field(kind: DataType, name: str, *, nullable: bool) -> dict[str, Any]:
    found = _avro_or_null(kind, name, nullable=nullable)
    return {"type": found, "default": None} if nullable else {"type": found}


def _avro_or_null(kind: DataType, name: str, *, nullable: bool) -> Any:
    found = _avro(kind, name)
    return ["null", found] if nullable else found


def _json(kind: DataType) -> dict[str, Any]:
    if isinstance(kind, StructType):
        made: dict[str, Any] = {
            "type": "object",
            "properties": {one.name: _json(one.dataType) for one in kind.fields},
            "additionalProperties": False,
        }
        # What is null is left out of the document.
        required = [one.name for one in kind.fields if not one.nullable]
        return made | {"required": required} if required else made
    if isinstance(kind, ArrayType):
        items = _json(kind.elementType)
        return {"type": "array", "items": {"anyOf": [items, {"type": "null"}]} if kind.containsNull else items}
    if isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
        return {"type": "object", "additionalProperties": _json(kind.valueType)}
    if isinstance(kind, DecimalType):
        return {"type": "string"}
    return dict(_known(_JSON, kind))


def _known(table: dict[type[DataType], Any], kind: DataType) -> Any:
    found = table.get(type(kind))
    if found is None:
        raise BadOption("columns", f"there is no schema for a column of type {kind.simpleString()}: cast it")
    return found

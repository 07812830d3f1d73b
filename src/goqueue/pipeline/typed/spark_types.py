"""Schemas as Spark's types. What Spark has no type for, such as a union of several, is a text of JSON."""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from goqueue.formats.avro import PRIMITIVES, full_name, namespace_of, self_contained
from goqueue.formats.json_schema import parse_document
from goqueue.formats.protobuf import ProtobufSchema
from goqueue.formats.source import SchemaType, Source

_AVRO = {
    "boolean": BooleanType(), "int": IntegerType(), "long": LongType(), "float": FloatType(), "double": DoubleType(),
    "bytes": BinaryType(), "string": StringType(), "null": StringType(),
}  # fmt: skip
_AVRO_LOGICAL = {
    "date": DateType(), "timestamp-millis": TimestampType(), "timestamp-micros": TimestampType(),
    "uuid": StringType(),
}  # fmt: skip
_JSON = {"string": StringType(), "integer": LongType(), "number": DoubleType(), "boolean": BooleanType()}
# By the numbers of Protobuf's types.
_PROTOBUF = {
    1: DoubleType(), 2: FloatType(), 3: LongType(), 4: DecimalType(20, 0), 5: IntegerType(), 6: DecimalType(20, 0),
    7: LongType(), 8: BooleanType(), 9: StringType(), 12: BinaryType(), 13: LongType(), 14: StringType(),
    15: IntegerType(), 16: LongType(), 17: IntegerType(), 18: LongType(),
}  # fmt: skip
_DEPTH_MAX = 20


def spark_type(source: Source) -> DataType:
    """The type of a schema's values."""
    if source.type is SchemaType.AVRO:
        return _avro(self_contained(source), "", {}, ())
    if source.type is SchemaType.PROTOBUF:
        schema = ProtobufSchema(source)
        return _message(schema.pool.FindMessageTypeByName(schema.message_name((0,))), ())
    root = parse_document(source.text)
    return _json(root, root, {one.name: parse_document(one.text) for one in source.imports}, 0)


def _avro(document: Any, namespace: str, named: dict[str, Any], path: tuple[str, ...]) -> DataType:
    if isinstance(document, list):
        others = [one for one in document if one != "null"]
        return _avro(others[0], namespace, named, path) if len(others) == 1 else StringType()
    if isinstance(document, str):
        if document in PRIMITIVES:
            return _AVRO[document]
        name = document if "." in document or not namespace else f"{namespace}.{document}"
        # A type within itself has no end as columns.
        return StringType() if name in path or name not in named else _avro(named[name], "", named, path)
    kind = document["type"]
    if kind in {"record", "error"}:
        name = full_name(document, namespace)
        named[name] = {**document, "name": name}
        inner = namespace_of(name)
        return StructType(
            [StructField(one["name"], _avro(one["type"], inner, named, (*path, name))) for one in document["fields"]]
        )
    if kind == "enum":
        named[full_name(document, namespace)] = "string"
        return StringType()
    if document.get("logicalType") == "decimal":
        return DecimalType(document.get("precision", 38), document.get("scale", 0))
    if kind == "fixed":
        named[full_name(document, namespace)] = "bytes"
        return BinaryType()
    if kind == "array":
        return ArrayType(_avro(document["items"], namespace, named, path))
    if kind == "map":
        return MapType(StringType(), _avro(document["values"], namespace, named, path))
    return _AVRO_LOGICAL.get(document.get("logicalType", "")) or _avro(kind, namespace, named, path)


def _json(schema: Any, root: Any, imports: dict[str, Any], depth: int) -> DataType:
    if not isinstance(schema, dict) or depth > _DEPTH_MAX:
        return StringType()
    if "$ref" in schema:
        found = _referenced(schema["$ref"], root, imports)
        return StringType() if found is None else _json(found[0], found[1], imports, depth + 1)
    kind = schema.get("type")
    if isinstance(kind, list):
        others = [one for one in kind if one != "null"]
        kind = others[0] if len(others) == 1 else None
    for keyword in ("anyOf", "oneOf"):
        others = [one for one in schema.get(keyword, ()) if one != {"type": "null"}]
        if kind is None and len(others) == 1:
            return _json(others[0], root, imports, depth + 1)
    if kind == "object":
        if schema.get("properties"):
            fields = schema["properties"].items()
            return StructType([StructField(name, _json(one, root, imports, depth + 1)) for name, one in fields])
        rest = schema.get("additionalProperties")
        return MapType(StringType(), _json(rest, root, imports, depth + 1)) if isinstance(rest, dict) else StringType()
    if kind == "array":
        return ArrayType(_json(schema.get("items"), root, imports, depth + 1))
    return _JSON.get(kind or "", StringType())


def _referenced(reference: str, root: Any, imports: dict[str, Any]) -> tuple[Any, Any] | None:
    name, _, fragment = reference.partition("#")
    at: Any = imports.get(name) if name else root
    root = at
    try:
        for part in fragment.split("/")[1:]:
            at = at[part.replace("~1", "/").replace("~0", "~")]
    except (KeyError, TypeError):
        return None
    return None if at is None else (at, root)


def _message(descriptor: Any, path: tuple[str, ...]) -> DataType:
    if descriptor.full_name == "google.protobuf.Timestamp":
        return TimestampType()
    if descriptor.full_name in path:
        return StringType()
    inner = (*path, descriptor.full_name)
    return StructType([StructField(field.name, _field(field, inner)) for field in descriptor.fields])


def _field(field: Any, path: tuple[str, ...]) -> DataType:
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        key, value = entry.fields_by_name["key"], entry.fields_by_name["value"]
        return MapType(_field(key, path), _field(value, path))
    one = _message(entry, path) if entry is not None else _PROTOBUF[field.type]
    return ArrayType(one) if field.is_repeated else one

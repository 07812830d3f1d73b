"""Decoded values as Arrow arrays of Spark's types."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from goqueue.formats.readable import readable_json

_ARROW = {
    "boolean": pa.bool_(), "int": pa.int32(), "bigint": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "string": pa.string(), "binary": pa.binary(), "date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"),
}  # fmt: skip
Convert = Callable[[Any], Any]


def arrow_type(kind: DataType) -> pa.DataType:
    """The Arrow type that Spark expects for one of its own."""
    if isinstance(kind, StructType):
        return pa.struct([pa.field(one.name, arrow_type(one.dataType)) for one in kind.fields])
    if isinstance(kind, ArrayType):
        return pa.list_(pa.field("element", arrow_type(kind.elementType)))
    if isinstance(kind, MapType):
        return pa.map_(arrow_type(kind.keyType), arrow_type(kind.valueType))
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    return _ARROW[kind.simpleString()]


def converter(kind: DataType) -> Convert:
    """What makes of a decoded value one that Arrow takes for the type."""
    if isinstance(kind, StructType):
        parts = [(one.name, _or_none(converter(one.dataType))) for one in kind.fields]
        return lambda value: {name: convert(value.get(name)) for name, convert in parts}
    if isinstance(kind, ArrayType):
        item = _or_none(converter(kind.elementType))
        return lambda value: [item(one) for one in value]
    if isinstance(kind, MapType):
        key, item = converter(kind.keyType), _or_none(converter(kind.valueType))
        return lambda value: [(key(name), item(one)) for name, one in value.items()]
    if isinstance(kind, StringType):
        return lambda value: value if isinstance(value, str) else readable_json(value)
    if isinstance(kind, DecimalType):
        return lambda value: value if isinstance(value, Decimal) else Decimal(value)
    if isinstance(kind, DoubleType | FloatType):
        return float
    if isinstance(kind, TimestampType):
        return _time
    return lambda value: value


def _or_none(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _time(value: Any) -> Any:
    # Protobuf's own class has a method for it.
    return value.ToDatetime() if hasattr(value, "ToDatetime") else value

"""Types of Arrow as Spark takes them: without large types and views, times in UTC, nothing that must not be null."""

from __future__ import annotations

import pyarrow as pa


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The same columns, of types that Spark takes."""
    return pa.schema([_plain_field(one) for one in schema])


def _plain_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _plain(field.type))


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain_field(kind.value_field))
    if pa.types.is_struct(kind):
        return pa.struct([_plain_field(one) for one in kind])
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain_field(kind.item_field))
    return kind

"""Rows to values of a schema: what the sink registers when a query starts, and how its tasks encode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.types import StructType

from goqueue.client.schemas.registry import RegisteredSchema
from goqueue.client.schemas.serde import encode_document
from goqueue.errors import InvalidValue
from goqueue.formats.source import SchemaType
from goqueue.formats.work import compiled
from goqueue.pipeline.errors import BadOption
from goqueue.pipeline.sink.sink_options import SinkOptions
from goqueue.pipeline.typed.derived import derived_schema
from goqueue.pipeline.typed.registry import Registry

_DERIVED = {"avro": SchemaType.AVRO, "json": SchemaType.JSON}


def schema_to_write(options: SinkOptions, rows: StructType) -> int:
    """The id of the schema that the option means: `avro` and `json` derive one from the rows, and register it."""
    wanted, topic = options.schema or "", options.topic
    if options.schema_registry_url is None:
        raise BadOption("schemaRegistryUrl", "is missing: write the broker's HTTP address, as http://127.0.0.1:8080")
    if topic is None:
        raise BadOption("topic", "is missing: values with a schema go to the topic of its subject")
    registry = Registry(options.schema_registry_url, options.kafka)
    schema_type = _DERIVED.get(wanted.lower())
    if schema_type is None:
        return registry.pin(wanted, topic)
    derived = derived_schema(rows["value"].dataType, schema_type, topic)
    return registry.register(options.schema_subject or f"{topic}-value", schema_type, derived)


class ValueEncoder:
    """Encodes values. One per task."""

    def __init__(self, url: str, kafka: Mapping[str, str], schema_id: int) -> None:
        source = Registry(url, kafka).source(schema_id)
        self._schema = RegisteredSchema(source.text, source.type, schema_id)
        self._compiled = compiled(source)
        # Avro has a place for every field; elsewhere what is null is left out.
        self._keeps_nulls = source.type is SchemaType.AVRO

    def encode(self, values: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        """The values as bytes. Those that do not fit are as JSON there, and why they do not is told by position."""
        encoded: list[bytes | None] = []
        problems: dict[int, str] = {}
        rows, with_maps = values.to_pylist(), _with_maps(values.type)
        for position, row in enumerate(rows if with_maps is None else map(with_maps, rows)):
            try:
                encoded.append(None if row is None else self._encoded(row))
            except InvalidValue as problem:
                problems[position] = f"the value of a row does not fit schema {self._schema.id}: {problem}"
                encoded.append(msgspec.json.encode(row))
        return pa.array(encoded, pa.binary()), problems

    def _encoded(self, row: Any) -> bytes:
        document = row if self._keeps_nulls else _without_nulls(row)
        if self._schema.type is SchemaType.PROTOBUF:
            document = msgspec.to_builtins(document)
        return encode_document(self._schema, self._compiled, document)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    return value


def _with_maps(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """What makes dictionaries of the lists of pairs that Arrow gives for maps; None where there are no maps.

    Arrow does so itself from version 19 on.
    """
    if pa.types.is_map(kind):
        item = _with_maps(kind.item_type) or _same
        return lambda value: None if value is None else {key: item(one) for key, one in value}
    if pa.types.is_struct(kind):
        parts = {field.name: convert for field in kind if (convert := _with_maps(field.type)) is not None}
        if not parts:
            return None
        return lambda value: (
            None if value is None else {name: parts.get(name, _same)(one) for name, one in value.items()}
        )
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        part = _with_maps(kind.value_type)
        return None if part is None else lambda value: None if value is None else [part(one) for one in value]
    return None


def _same(value: Any) -> Any:
    return value

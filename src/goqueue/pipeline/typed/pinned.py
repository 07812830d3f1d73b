"""The schema that a query reads with, pinned when the query is planned and noted at the column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

from goqueue.pipeline.errors import BadOption
from goqueue.pipeline.source.options import SourceOptions
from goqueue.pipeline.typed.registry import Registry
from goqueue.pipeline.typed.spark_types import spark_type

_NOTE = "goqueue.schema.id"
# Of a value that does not decode: why, and its bytes.
ERROR, UNDECODED = "error", "undecoded"


class Pinned:
    """A schema by its id, and the type of its values. Tasks get a copy."""

    def __init__(
        self, url: str, schema_id: int, kind: DataType, *, keeps_errors: bool, kafka: Mapping[str, str]
    ) -> None:
        self.url = url
        # May hold passwords: never shown.
        self.kafka = kafka
        self.schema_id = schema_id
        self.kind = kind
        self.keeps_errors = keeps_errors


def pin(options: SourceOptions, schema: StructType | None = None) -> Pinned | None:
    """What the options mean now; once it is noted at the columns, what it meant then."""
    if options.schema is None:
        return None
    registry = Registry(_url(options), options.kafka)
    noted = _noted(schema)
    schema_id = registry.pin(options.schema, _topic(options)) if noted is None else noted
    kind = spark_type(registry.source(schema_id))
    keeps_errors = options.schema_errors == "column"
    return Pinned(registry.url, schema_id, kind, keeps_errors=keeps_errors, kafka=options.kafka)


def typed_fields(fields: StructType, pinned: Pinned) -> StructType:
    """The columns, with the values' own type, and columns for what does not decode if it is kept."""
    note: dict[str, Any] = {_NOTE: pinned.schema_id}
    found = [
        StructField("value", pinned.kind, True, {**(one.metadata or {}), **note}) if one.name == "value" else one
        for one in fields.fields
    ]
    if pinned.keeps_errors:
        found += [StructField(ERROR, StringType()), StructField(UNDECODED, BinaryType())]
    return StructType(found)


def _noted(schema: StructType | None) -> int | None:
    for field in schema.fields if schema is not None else ():
        if _NOTE in (field.metadata or {}):
            return int(field.metadata[_NOTE])
    return None


def _url(options: SourceOptions) -> str:
    if options.schema_registry_url is None:
        raise BadOption("schemaRegistryUrl", "is missing: write the broker's HTTP address, as http://127.0.0.1:8080")
    return options.schema_registry_url


def _topic(options: SourceOptions) -> str:
    topics = sorted({*options.subscribe, *(one.topic for one in options.assign)})
    if len(topics) != 1:
        raise BadOption("schema", "registry means the schema of one topic: name a subject, or subscribe to one topic")
    return topics[0]

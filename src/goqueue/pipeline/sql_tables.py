"""`CREATE TABLE ... USING goqueue OPTIONS (...)`: where a table of SQL keeps its options.

Spark stores the options with the table and shows them to a Python source once, when the table is created: readers and
writers of the table get none (`PythonDataSourceV2.getTable` drops them, up to Spark 4.3). They do get the table's
columns, with what is noted there. So the options are noted at the columns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from goqueue.pipeline.decoding.columns import RECORD_COLUMNS
from goqueue.pipeline.errors import BadOption
from goqueue.pipeline.sink.sink_options import SINK_OPTIONS
from goqueue.pipeline.source.options import SOURCE_OPTIONS

_NOTE = "goqueue.options"
# By hand: a planner has no JVM to ask what a type's name means.
_TYPES: Mapping[str, DataType] = MappingProxyType(
    {
        "binary": BinaryType(),
        "string": StringType(),
        "int": IntegerType(),
        "bigint": LongType(),
        "boolean": BooleanType(),
        "timestamp": TimestampType(),
        RECORD_COLUMNS["headers"]: ArrayType(
            StructType([StructField("key", StringType()), StructField("value", BinaryType())])
        ),
    }
)
# What Spark notes itself at a table; `provider` is there whenever it is one.
_PROVIDER = "provider"
_OF_SPARK = frozenset({_PROVIDER, "owner", "location", "external", "is_managed_location", "comment", "collation"})
_COPY = "option."
_SECRETS = frozenset(
    f"kafka.{name}"
    for name in (
        *("sasl.password", "sasl.jaas.config", "sasl.oauthbearer.token"),
        *("ssl.key.password", "ssl.keystore.password", "ssl.truststore.password", "ssl.keystore.key"),
    )
)
_OF_SINK = frozenset(name.lower() for name in SINK_OPTIONS) - {name.lower() for name in SOURCE_OPTIONS}
_OF_SOURCE = frozenset(name.lower() for name in SOURCE_OPTIONS) - {name.lower() for name in SINK_OPTIONS}


def is_table(given: Mapping[str, str]) -> bool:
    """Whether the options are those of a table that is being created."""
    return _PROVIDER in {name.lower() for name in given}


def table_options(given: Mapping[str, str]) -> dict[str, str]:
    """What of them concerns a reader."""
    return {name: value for name, value in _own(given).items() if name not in _OF_SINK}


def fields_of(kinds: Mapping[str, str]) -> StructType:
    """The columns, and nothing noted."""
    return StructType([StructField(name, _TYPES[kind]) for name, kind in kinds.items()])


def refuse_secrets(given: Mapping[str, str]) -> None:
    """Raise for a secret: what is noted at columns is in the metastore, and in Parquet files written from them."""
    for name in given:
        if name.lower() in _SECRETS:
            raise BadOption(
                name,
                "would be kept in clear with the table and in files that are written from it: leave it out, and name a "
                "file of options of security in the environment variable GOQUEUE_KAFKA_CONFIG",
            )


def with_options(kinds: Mapping[str, str], given: Mapping[str, str]) -> StructType:
    """The columns, with the table's options noted at each of them."""
    refuse_secrets(_own(given))
    note = {_NOTE: json.dumps(_own(given))}
    return StructType([StructField(name, _TYPES[kind], True, note) for name, kind in kinds.items()])


def options_of(schema: StructType) -> dict[str, str]:
    """The options that were noted for a reader; none if this is no table."""
    return {name: value for name, value in _noted(schema).items() if name not in _OF_SINK}


def sink_options_of(schema: StructType) -> dict[str, str]:
    """The options that were noted for a writer: it writes to the topic that is read, unless another is named."""
    noted = _noted(schema)
    if "subscribe" in noted and "," not in noted["subscribe"]:
        noted.setdefault("topic", noted["subscribe"])
    return {name: value for name, value in noted.items() if name not in _OF_SOURCE and name != "path"}


def _noted(schema: StructType) -> dict[str, str]:
    for field in schema.fields:
        if _NOTE in (field.metadata or {}):
            found: dict[str, str] = json.loads(field.metadata[_NOTE])
            return found
    return {}


def _own(given: Mapping[str, str]) -> dict[str, str]:
    return {
        name.lower(): value
        for name, value in given.items()
        if name.lower() not in _OF_SPARK and not name.lower().startswith(_COPY)
    }

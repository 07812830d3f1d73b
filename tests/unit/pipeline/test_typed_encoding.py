"""Schemas derived from Spark's types, and rows encoded by them."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs goqueue[spark]")

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    YearMonthIntervalType,
)

from goqueue.formats.source import SchemaType, Source
from goqueue.formats.work import compiled, decode_value
from goqueue.pipeline.errors import BadOption
from goqueue.pipeline.typed import encoding
from goqueue.pipeline.typed.arrow import arrow_type
from goqueue.pipeline.typed.derived import derived_schema
from goqueue.pipeline.typed.spark_types import spark_type

HOME = StructType([StructField("zip", StringType())])
KIND = StructType(
    [
        StructField("id", LongType(), nullable=False),
        StructField("name", StringType()),
        StructField("tags", ArrayType(StringType())),
        StructField("home", HOME),
        StructField("away", HOME),
        StructField("seen", TimestampType()),
        StructField("day", DateType()),
        StructField("price", DecimalType(9, 2)),
        StructField("counts", MapType(StringType(), IntegerType(), valueContainsNull=False)),
    ]
)
FULL = {
    "id": 7,
    "name": "ada",
    "tags": ["a", None],
    "home": {"zip": "N1"},
    "away": {"zip": None},
    "seen": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    "day": date(2026, 1, 2),
    "price": Decimal("1.50"),
    "counts": {"x": 1},
}
EMPTY = dict.fromkeys(FULL) | {"id": 8}


class StubRegistry:
    """Has one schema."""

    source_text: Source

    def __init__(self, *_: object) -> None:
        pass

    def source(self, _schema_id: int) -> Source:
        return self.source_text


@pytest.fixture
def encoder(monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(schema_type: SchemaType, text: str) -> encoding.ValueEncoder:
        monkeypatch.setattr(StubRegistry, "source_text", Source(schema_type, text), raising=False)
        monkeypatch.setattr(encoding, "Registry", StubRegistry)
        return encoding.ValueEncoder("http://unused", {}, 5)

    return make


@pytest.mark.parametrize("schema_type", [SchemaType.AVRO, SchemaType.JSON])
def test_rows_are_encoded_by_the_schema_that_is_derived_from_their_type(encoder: Any, schema_type: SchemaType) -> None:
    text = derived_schema(KIND, schema_type, "orders.v1")
    values, problems = encoder(schema_type, text).encode(pa.array([FULL, EMPTY, None]))
    assert problems == {}
    first, second, third = values.to_pylist()
    assert third is None
    assert first[:5] == second[:5] == b"\0\0\0\0\5"
    schema = compiled(Source(schema_type, text))
    decoded = decode_value(schema, first[5:])
    assert (decoded["id"], decoded["name"], decoded["tags"], decoded["home"]) == (7, "ada", ["a", None], {"zip": "N1"})
    assert decode_value(schema, second[5:])["id"] == 8


@pytest.mark.parametrize("schema_type", [SchemaType.AVRO, SchemaType.JSON])
def test_maps_are_encoded_as_spark_hands_them_over_at_every_depth(encoder: Any, schema_type: SchemaType) -> None:
    counts = MapType(StringType(), IntegerType())
    inner = StructType([StructField("by_day", MapType(StringType(), StructType([StructField("counts", counts)])))])
    kind = StructType([StructField("counts", counts), StructField("rows", ArrayType(inner))])
    rows = [
        {"counts": {"x": 1, "y": None}, "rows": [{"by_day": {"mon": {"counts": {"z": 2}}}}]},
        {"counts": None, "rows": None},
    ]
    text = derived_schema(kind, schema_type, "orders")

    values, problems = encoder(schema_type, text).encode(pa.array(rows, arrow_type(kind)))

    assert problems == {}
    decoded = decode_value(compiled(Source(schema_type, text)), values.to_pylist()[0][5:])
    assert decoded["counts"]["x"] == 1
    assert decoded["rows"] == rows[0]["rows"]


def test_a_derived_schema_of_avro_reads_back_as_the_same_columns() -> None:
    text = derived_schema(KIND, SchemaType.AVRO, "orders.v1")
    assert json.loads(text)["name"] == "orders_v1"
    back = spark_type(Source(SchemaType.AVRO, text))
    assert [(one.name, one.dataType.typeName()) for one in back.fields] == [
        (one.name, one.dataType.typeName()) for one in KIND.fields
    ]


def test_a_row_that_does_not_fit_is_told_and_kept_readable(encoder: Any) -> None:
    text = json.dumps({"type": "record", "name": "O", "fields": [{"name": "id", "type": "long"}]})
    values, problems = encoder(SchemaType.AVRO, text).encode(pa.array([{"id": 1}, {"id": None}]))
    assert list(problems) == [1]
    assert "does not fit schema 5" in problems[1]
    assert values.to_pylist()[1] == b'{"id":null}'


def test_protobuf_messages_are_encoded_by_the_registered_schema(encoder: Any) -> None:
    text = 'syntax = "proto3"; message Ping { string text = 1; int64 n = 2; }'
    values, problems = encoder(SchemaType.PROTOBUF, text).encode(pa.array([{"text": "hi", "n": None}]))
    assert (values.to_pylist(), problems) == ([b"\0\0\0\0\5\0\x0a\x02hi"], {})


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (StringType(), "must be a struct"),
        (StructType([StructField("a b", StringType())]), "not a name that Avro takes"),
        (StructType([StructField("a", YearMonthIntervalType())]), "cast it"),
    ],
)
def test_what_has_no_schema_is_refused(kind: Any, told: str) -> None:
    with pytest.raises(BadOption, match=told):
        derived_schema(kind, SchemaType.AVRO, "orders")


def test_options_without_security_get_that_of_the_file_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from goqueue.pipeline.sink.sink_options import parse_sink_options
    from goqueue.pipeline.source.options import BadOption as SourceRefused
    from goqueue.pipeline.source.options import parse_source_options

    file = tmp_path / "client.properties"
    file.write_text(
        "# as for kafka-acls\nsecurity.protocol=SSL\nssl.ca.location=/ca.pem\nbootstrap.servers=elsewhere:1\n"
    )
    monkeypatch.setenv("GOQUEUE_KAFKA_CONFIG", str(file))
    given = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
    for options in (parse_source_options({**given, "subscribe": "a"}), parse_sink_options({**given, "topic": "a"})):
        assert options.servers == "127.0.0.1:9092"
        assert (options.kafka["security.protocol"], options.kafka["ssl.ca.location"]) == ("SSL", "/ca.pem")
    own = parse_source_options({**given, "subscribe": "a", "kafka.security.protocol": "PLAINTEXT"})
    assert "ssl.ca.location" not in own.kafka
    monkeypatch.setenv("GOQUEUE_KAFKA_CONFIG", str(tmp_path / "missing"))
    with pytest.raises(SourceRefused, match="cannot be read"):
        parse_source_options({**given, "subscribe": "a"})

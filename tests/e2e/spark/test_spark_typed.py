"""Typed columns: values of all three formats as columns of their schema, while the schema evolves."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from io import BytesIO

import fastavro
import pytest
from confluent_kafka import Producer
from tests.e2e.http import Http

from goqueue.formats.envelope import prefix_of
from goqueue.formats.protobuf import ProtobufSchema
from goqueue.formats.source import SchemaType, Source

USER = {
    "type": "record",
    "name": "User",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "age", "type": ["null", "int"], "default": None},
        {"name": "seen", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "home", "type": {"type": "record", "name": "Home", "fields": [{"name": "zip", "type": "string"}]}},
        {"name": "scores", "type": {"type": "map", "values": "double"}},
    ],
}
ADA = {
    "name": "ada",
    "age": 36,
    "seen": datetime(2026, 1, 2, tzinfo=UTC),
    "tags": ["a"],
    "home": {"zip": "N1"},
    "scores": {"x": 1.5},
}
PROTO = """syntax = "proto3";
message Order { int64 id = 1; repeated string tags = 2; Kind kind = 3; Line line = 4; map<string, int32> counts = 5;
  optional string note = 6; enum Kind { UNKNOWN = 0; NEW = 1; } message Line { double price = 1; } }"""


def registered(broker, subject: str, kind: str, text: str) -> int:
    return Http(broker.http).post(f"/subjects/{subject}/versions", {"schemaType": kind, "schema": text})["id"]


def send(broker, topic: str, *values: bytes | None) -> None:
    producer = Producer({"bootstrap.servers": broker.kafka})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(20) == 0


def avro(schema_id: int, schema: dict, document: dict) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), document)
    return prefix_of(schema_id) + out.getvalue()


def typed(read, broker, topic: str, schema: str = "registry", **options):
    return read(topic, schema=schema, schemaRegistryUrl=f"http://{broker.http}", **options)


def test_avro_values_are_columns_and_older_and_newer_versions_are_read_through_the_pinned_one(read, broker, topic):
    name = topic()
    first = registered(broker, f"{name}-value", "AVRO", json.dumps(USER))
    longer = {**USER, "fields": [*USER["fields"], {"name": "note", "type": "string", "default": "none"}]}
    second = registered(broker, f"{name}-value", "AVRO", json.dumps(longer))
    send(broker, name, avro(first, USER, ADA), avro(second, longer, {**ADA, "note": "hi"}), None)

    table = typed(read, broker, name)
    assert table.select("value.*").columns == ["name", "age", "seen", "tags", "home", "scores", "note"]
    rows = table.orderBy("offset").select("value.name", "value.age", "value.home.zip", "value.note", "value").collect()
    assert [(row.name, row.age, row.zip, row.note) for row in rows[:2]] == [
        ("ada", 36, "N1", "none"),
        ("ada", 36, "N1", "hi"),
    ]
    assert (rows[0].value.tags, rows[0].value.scores) == (["a"], {"x": 1.5})
    assert rows[2].value is None
    old = typed(read, broker, name, f"{name}-value:1").orderBy("offset").select("value.*")
    assert "note" not in old.columns
    assert [row.name for row in old.collect()] == ["ada", "ada", None]
    assert typed(read, broker, name, str(first)).select("value.tags").count() == 3


def test_json_values_are_columns(read, broker, topic):
    name = topic()
    schema = {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "price": {"type": "number"},
            "note": {"type": ["string", "null"]},
            "lines": {"type": "array", "items": {"$ref": "#/definitions/line"}},
            "extra": {},
        },
        "definitions": {"line": {"type": "object", "properties": {"sku": {"type": "string"}}}},
    }
    own = registered(broker, name, "JSON", json.dumps(schema))
    document = {"id": 1, "price": 2, "lines": [{"sku": "a"}], "extra": {"any": [1]}}
    send(broker, name, prefix_of(own) + json.dumps(document).encode(), b'{"id": 2}')
    rows = typed(read, broker, name).orderBy("offset").select("value.*").collect()
    assert rows[0].asDict(recursive=True) == {
        "id": 1, "price": 2.0, "note": None, "lines": [{"sku": "a"}], "extra": '{"any":[1]}',
    }  # fmt: skip
    assert rows[1].id == 2


def test_protobuf_values_are_columns(read, broker, topic):
    name = topic()
    own = registered(broker, f"{name}-value", "PROTOBUF", PROTO)
    schema = ProtobufSchema(Source(SchemaType.PROTOBUF, PROTO))
    document = {"id": "9007199254740993", "tags": ["a", "b"], "kind": "NEW", "line": {"price": 1.5}, "counts": {"k": 2}}
    send(broker, name, prefix_of(own, (0,)) + schema.encode(document))
    (row,) = typed(read, broker, name).select("value.*").collect()
    assert (row.id, row.tags, row.kind, row.line.price) == (9007199254740993, ["a", "b"], "NEW", 1.5)
    assert (row.counts, row.note) == ({"k": 2}, None)


def test_values_that_do_not_decode_fail_the_query_or_have_a_column(read, broker, topic):
    name = topic()
    own = registered(broker, f"{name}-value", "AVRO", json.dumps(USER))
    send(broker, name, avro(own, USER, ADA), b"no prefix", prefix_of(own) + b"\xff")
    with pytest.raises(Exception, match="at offset 1 does not decode: the value names no schema"):
        typed(read, broker, name).collect()
    rows = typed(read, broker, name, schemaErrors="column").orderBy("offset").select("value.name", "error").collect()
    assert [row.name for row in rows] == ["ada", None, None]
    assert rows[0].error is None
    assert "names no schema" in rows[1].error
    assert "does not fit schema" in rows[2].error


def test_a_stream_reads_on_when_the_schema_evolves_in_its_middle(spark, broker, topic, tmp_path):
    name = topic()
    first = registered(broker, f"{name}-value", "AVRO", json.dumps(USER))
    send(broker, name, avro(first, USER, ADA))

    def run() -> tuple[list[str], list[str]]:
        stream = (
            spark.readStream.format("goqueue")
            .option("kafka.bootstrap.servers", broker.kafka)
            .option("subscribe", name)
            .option("startingOffsets", "earliest")
            .option("schema", "registry")
            .option("schemaRegistryUrl", f"http://{broker.http}")
            .load()
            .select("value.*")
        )
        found: list[str] = []
        query = (
            stream.writeStream.foreachBatch(lambda rows, _: found.extend(row.name for row in rows.collect()))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        try:
            query.processAllAvailable()
            if "note" not in stream.columns:
                longer = {**USER, "fields": [*USER["fields"], {"name": "note", "type": "string", "default": "none"}]}
                second = registered(broker, f"{name}-value", "AVRO", json.dumps(longer))
                send(broker, name, avro(second, longer, {**ADA, "name": "bob", "note": "hi"}))
                deadline = time.monotonic() + 90
                while "bob" not in found:
                    assert time.monotonic() < deadline
                    query.processAllAvailable()
        finally:
            query.stop()
        return found, stream.columns

    names, columns = run()
    assert (names, "note" in columns) == (["ada", "bob"], False)
    _, columns = run()
    assert "note" in columns, "new columns appear after a restart"


def test_options_that_make_no_sense_are_refused(read, broker, topic):
    name = topic()
    with pytest.raises(Exception, match="schemaRegistryUrl: is missing"):
        read(name, schema="registry").collect()
    with pytest.raises(Exception, match="neither a subject"):
        typed(read, broker, name).collect()
    with pytest.raises(Exception, match="give the option schema too"):
        read(name, schemaErrors="column").collect()


ROWS = (
    "id bigint not null, name string, tags array<string>, home struct<zip: string>, seen timestamp, price decimal(9,2)"
)


def written(broker, topic: str, count: int) -> list[dict]:
    """Messages of a topic. What a sink has committed is shown once the markers are written, a moment later."""
    deadline = time.monotonic() + 30
    while len(found := Http(broker.http).get(f"/topics/{topic}/messages?decode=true")["messages"]) < count:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


@pytest.mark.parametrize("kind", ["avro", "json"])
def test_the_sink_registers_a_schema_and_encodes_rows(spark, broker, topic, kind):
    from decimal import Decimal

    name = topic()
    row = (7, "ada", ["a", None], ("N1",), datetime(2026, 1, 2, tzinfo=UTC), Decimal("1.50"))
    frame = spark.createDataFrame([row, (8, None, None, None, None, None)], ROWS).selectExpr("struct(*) AS value")
    options = {"kafka.bootstrap.servers": broker.kafka, "schemaRegistryUrl": f"http://{broker.http}"}
    for _ in range(2):
        frame.write.format("goqueue").options(**options, topic=name, schema=kind).mode("append").save()

    assert Http(broker.http).get(f"/subjects/{name}-value/versions") == [1], "the second write finds it registered"
    shown = written(broker, name, 4)
    assert sorted(one["decoded"]["id"] for one in shown) == [7, 7, 8, 8]
    assert [one.get("decode_error") for one in shown] == [None] * 4
    back = spark.read.format("goqueue").options(**options, subscribe=name, schema="registry").load()
    first = back.where("value.id = 7").select("value.name", "value.tags", "value.home.zip").first()
    assert (first.name, first.tags, first.zip) == ("ada", ["a", None], "N1")


@pytest.mark.parametrize(
    ("kind", "text"), [("AVRO", json.dumps({**USER, "fields": USER["fields"][:2]})), ("PROTOBUF", PROTO)]
)
def test_the_sink_encodes_by_a_schema_that_is_there_and_sets_unfit_rows_aside(spark, broker, topic, kind, text):
    name, letters = topic(), topic()
    registered(broker, f"{name}-value", kind, text)
    good, bad = ("name", "'ada'"), ("name", "CAST(NULL AS STRING)")
    if kind == "PROTOBUF":
        good, bad = ("kind", "'NEW'"), ("kind", "'NOT A KIND'")
    rows = spark.sql(
        f"SELECT named_struct('{good[0]}', {good[1]}) AS value UNION ALL SELECT named_struct('{bad[0]}', {bad[1]})"
    )
    options = {"kafka.bootstrap.servers": broker.kafka, "schemaRegistryUrl": f"http://{broker.http}"}
    writer = rows.write.format("goqueue").options(**options, topic=name, schema="registry").mode("append")
    with pytest.raises(Exception, match="does not fit"):
        writer.save()
    writer.option("deadLetterTopic", letters).save()
    shown = written(broker, name, 1)
    assert [one["decoded"][good[0]] for one in shown] == [good[1].strip("'")]
    assert len(written(broker, letters, 1)) == 1

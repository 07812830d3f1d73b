"""Declared pipelines that name subjects: columns from the registry, values encoded by it, the others set aside."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.e2e.process import BrokerProcess
from tests.e2e.spark.test_spark_typed import PROTO, avro, registered, written
from tests.etcd_server import free_ports
from typer.testing import CliRunner

from goqueue.cli.main import app
from goqueue.formats.envelope import prefix_of
from goqueue.formats.protobuf import ProtobufSchema
from goqueue.formats.source import SchemaType, Source
from goqueue.pipeline.declared.load import load_text
from goqueue.pipeline.declared.main import run_until_stopped
from goqueue.pipeline.declared.testing.cases import run_cases

Read = Callable[..., Any]
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "town", "type": ["null", "string"], "default": None}],
}
ORDER_JSON = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "town": {"type": ["string", "null"]}},
    "required": ["id"],
}
FILE = """
name: typed
broker: {kafka}
registry: http://{http}
checkpoint: {home}/state
trigger: available-now
dead_letters: {bad}
sources:
  orders: {{topic: {topic}, subject: {topic}-value, keep: [key, offset]{more}}}
steps:
  - filter: {{where: "id > 0"}}
sinks:
  - topic: {{topic: {out}, subject: {out}-value, {register}}}
tests:
  - name: a value that is no order is a dead letter
    given:
      orders: [{{value: {{id: 1, town: Bonn}}, key: a}}, {{id: -1}}, {{value: "not an order"}}]
    expect:
      topic: [{{id: 1, town: Bonn, key: a}}]
"""


def send(broker: BrokerProcess, topic: str, **values: bytes | None) -> None:
    producer = Producer({"bootstrap.servers": broker.kafka})
    for key, value in values.items():
        producer.produce(topic, value, key, partition=0)
    assert producer.flush(20) == 0


def file_of(broker: BrokerProcess, home: Path, topic: str, bad: str, out: str, *, more: str = "", register: str) -> str:
    names = {"kafka": broker.kafka, "http": broker.http, "home": home, "topic": topic, "bad": bad, "out": out}
    return FILE.format(**names, more=more, register=register)


def decoded(broker: BrokerProcess, topic: str, count: int) -> list[dict[str, Any]]:
    """Values of a topic in the order of their ids. What is null stands in Avro and is left out of JSON."""
    found = [one["decoded"].items() for one in written(broker, topic, count)]
    rows = [{name: cell for name, cell in row if cell is not None} for row in found]
    return sorted(rows, key=lambda one: int(one["id"]))


def test_cases_of_the_file_have_the_columns_of_the_subject(
    spark: Any, broker: BrokerProcess, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic()
    registered(broker, f"{name}-value", "AVRO", json.dumps(ORDER))
    pipeline = load_text(file_of(broker, tmp_path, name, "bad", "out", register="register: avro"))

    assert [one.differences for one in run_cases(pipeline, spark)] == [()]


def test_avro_values_are_rows_and_what_does_not_decode_is_a_dead_letter_with_its_bytes(
    spark: Any, broker: BrokerProcess, read: Read, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, bad, out = topic(), topic(), topic()
    own = registered(broker, f"{name}-value", "AVRO", json.dumps(ORDER))
    bonn, ulm, none = (avro(own, ORDER, row) for row in ({"id": 1, "town": "Bonn"}, {"id": -5}, {"id": 2}))
    send(broker, name, a=bonn, b=b"\x00broken", c=None, d=ulm)
    pipeline = load_text(file_of(broker, tmp_path, name, bad, out, register="register: avro"))

    run_until_stopped(pipeline, spark, folder=tmp_path)
    # A second run takes what came since, once.
    send(broker, name, e=none, f=b"broken")
    run_until_stopped(pipeline, spark, folder=tmp_path)

    assert decoded(broker, out, 2) == [{"id": 1, "town": "Bonn", "offset": 0}, {"id": 2, "offset": 4}]
    letters = read(bad, includeHeaders=True).orderBy("offset").collect()
    assert {bytes(one.key): one.value and bytes(one.value) for one in letters} == {
        b"b": b"\x00broken", b"c": None, b"f": b"broken",
    }  # fmt: skip
    details = [{header.key: bytes(header.value).decode() for header in one.headers} for one in letters]
    assert {one["goqueue-pipeline-step"] for one in details} == {"typed.orders"}
    assert [one["goqueue-origin-offset"] for one in details] == ["1", "2", "5"]
    assert details[1]["goqueue-error"] == "there is no value"


def test_json_values_are_rows_and_rows_become_json_of_a_schema_that_is_registered(
    spark: Any, broker: BrokerProcess, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, bad, out = topic(), topic(), topic()
    own = registered(broker, f"{name}-value", "JSON", json.dumps(ORDER_JSON))
    send(broker, name, a=prefix_of(own) + b'{"id": 1, "town": "Bonn"}', b=b'{"id": 2}')
    text = file_of(broker, tmp_path, name, bad, out, register="register: json")

    run_until_stopped(load_text(text), spark, folder=tmp_path)

    assert decoded(broker, out, 2) == [{"id": 1, "town": "Bonn", "offset": 0}, {"id": 2, "offset": 1}]


def test_protobuf_values_are_rows_and_rows_become_protobuf_of_a_version_that_is_there(
    spark: Any, broker: BrokerProcess, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, bad, out = topic(), topic(), topic()
    own = registered(broker, f"{name}-value", "PROTOBUF", PROTO)
    registered(broker, f"{out}-value", "PROTOBUF", PROTO)
    schema = ProtobufSchema(Source(SchemaType.PROTOBUF, PROTO))
    send(broker, name, a=prefix_of(own, (0,)) + schema.encode({"id": "7", "kind": "NEW", "tags": ["x"]}))
    text = file_of(broker, tmp_path, name, bad, out, register="version: 1, value: 'struct(id, tags, kind)'")

    run_until_stopped(load_text(text.partition("tests:")[0]), spark, folder=tmp_path)

    (found,) = written(broker, out, 1)
    assert (found["decoded"]["id"], found["decoded"]["kind"], found["decoded"]["tags"]) == ("7", "NEW", ["x"])


def test_what_does_not_decode_has_columns_or_fails_the_run_by_choice(
    spark: Any, broker: BrokerProcess, read: Read, topic: Callable[..., str], tmp_path: Path
) -> None:
    from goqueue.pipeline.declared.running.run import PipelineFailed

    name, bad, out = topic(), topic(), topic()
    own = registered(broker, f"{name}-value", "AVRO", json.dumps(ORDER))
    send(broker, name, a=avro(own, ORDER, {"id": 1, "town": "Bonn"}), b=b"broken")
    whole = file_of(broker, tmp_path, name, bad, out, more=", undecodable: column", register="register: json")
    whole = whole.partition("tests:")[0].replace("id > 0", "true")

    run_until_stopped(load_text(whole), spark, folder=tmp_path)

    found = [json.loads(bytes(one.value)[5:]) for one in read(out).collect()]
    (unread,) = [one for one in found if "id" not in one]
    assert "names no schema" in unread["_error"]
    assert unread["_undecoded"] == "YnJva2Vu"
    failing = whole.replace("undecodable: column", "undecodable: fail").replace(f"{tmp_path}/state", f"{tmp_path}/two")
    # Without the columns of errors, rows have another schema, which is not compatible: that ends a run at once.
    with pytest.raises(PipelineFailed, match=r"topic cannot run: option schema: .* is incompatible"):
        run_until_stopped(load_text(failing), spark, folder=tmp_path)
    failing = failing.replace(f"{out}-value", f"{out}-other")
    with pytest.raises(PipelineFailed, match="at offset 1 does not decode"):
        run_until_stopped(load_text(failing), spark, folder=tmp_path)


def test_a_stream_is_joined_with_a_table_of_a_subject(
    spark: Any, broker: BrokerProcess, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, table, out = topic(), topic(2), topic()
    own = registered(broker, f"{name}-value", "AVRO", json.dumps(ORDER))
    send(broker, name, a=avro(own, ORDER, {"id": 1, "town": "Bonn"}))
    fields = [{"name": "town", "type": "string"}, {"name": "zip", "type": "string"}]
    town = {"type": "record", "name": "Town", "fields": fields}
    towns = registered(broker, f"{table}-value", "AVRO", json.dumps(town))
    for zip_code in ("1", "53111"):
        send(broker, table, Bonn=avro(towns, town, {"town": "Bonn", "zip": zip_code}))
    text = f"""
name: joined
broker: {broker.kafka}
registry: http://{broker.http}
checkpoint: {tmp_path}/state
trigger: available-now
sources:
  orders: {{topic: {name}, subject: {name}-value, undecodable: fail}}
  towns: {{table: {table}, subject: {table}-value}}
steps:
  - join: {{from: orders, with: towns, on: [town]}}
sinks:
  - topic: {{topic: {out}, subject: {out}-value, register: avro, key: id}}
"""
    run_until_stopped(load_text(text), spark, folder=tmp_path)

    assert decoded(broker, out, 1) == [{"town": "Bonn", "id": 1, "zip": "53111"}]


def test_validate_asks_the_registry_and_names_the_field_that_is_wrong(
    broker: BrokerProcess, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, out = topic(), topic()
    registered(broker, f"{name}-value", "AVRO", json.dumps(ORDER))
    file = tmp_path / "typed.yaml"
    good = file_of(broker, tmp_path, name, "bad", out, register="register: avro")

    def told(text: str, *words: str) -> str:
        file.write_text(text)
        result = CliRunner().invoke(app, ["pipeline", "validate", str(file), *words])
        assert result.exit_code == (0 if "problem" not in result.output else 2), result.output
        return " ".join(result.output.split())

    assert "problem" not in told(good)
    unknown = told(good.replace(f"subject: {name}-value", f"subject: {name}-valu"))
    assert f"line 9, sources.orders.subject: the registry at http://{broker.http} has no subject" in unknown
    assert f"did you mean '{name}-value'?" in unknown
    assert "sources.orders.version: subject" in told(good.replace(f"{name}-value,", f"{name}-value, version: 9,"))
    encoding = told(good.replace("register: avro", "version: latest"))
    assert "sinks[0].topic.subject: the registry" in encoding
    assert "register: avro, to derive it from the columns" in encoding
    away = good.replace(broker.http, f"127.0.0.1:{free_ports(1)[0]}")
    assert "line 4, registry: http://127.0.0.1:" in told(away)
    assert "does not answer as a registry" in told(away)
    assert "problem" not in told(away, "--offline")
    kept = {**ORDER, "fields": [*ORDER["fields"], {"name": "offset", "type": "long", "default": 0}]}
    registered(broker, f"{name}-value", "AVRO", json.dumps(kept))
    assert "sources.orders.keep: the schema has a column 'offset' of its own" in told(good)

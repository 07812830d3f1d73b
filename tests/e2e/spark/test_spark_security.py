"""Spark against a broker with TLS and logins: source, typed columns, sink, tables and bulk jobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.e2e.secured import PASSWORD, SecuredBroker
from tests.e2e.spark.command import Command


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    broker = SecuredBroker(tmp_path_factory.mktemp("secured"))
    for topic in ("orders", "typed"):
        broker.done("POST", "/topics", {"name": topic, "num_partitions": 2})
    broker.user("sparky", "producer", "consumer")
    try:
        yield broker
    finally:
        broker.stop()


def options(secured: SecuredBroker, name: str = "sparky", mechanism: str = "SCRAM-SHA-512") -> dict[str, str]:
    """As users of Kafka's connector write them."""
    named = {f"kafka.{key}": value for key, value in secured.wire(name, mechanism).items()}
    return {"kafka.bootstrap.servers": secured.kafka, **named}


def sent(spark: Any, secured: SecuredBroker, topic: str, *values: str) -> None:
    frame = spark.createDataFrame([(value,) for value in values], "value string")
    frame.write.format("goqueue").options(**options(secured)).option("topic", topic).mode("append").save()


def read(spark: Any, secured: SecuredBroker, topic: str, **more: str) -> Any:
    return spark.read.format("goqueue").options(**options(secured), subscribe=topic, **more).load()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "PLAIN"])
def test_a_topic_is_written_and_read_with_a_login(spark: Any, secured: SecuredBroker, mechanism: str) -> None:
    sent(spark, secured, "orders", mechanism, "b")
    found = spark.read.format("goqueue").options(**options(secured, mechanism=mechanism), subscribe="orders").load()
    assert mechanism in {bytes(row.value).decode() for row in found.select("value").collect()}
    shown = found._jdf.queryExecution().toString()
    assert PASSWORD not in shown, "a password is in the plan"


def test_a_user_without_rights_and_a_wrong_password_are_told_so(spark: Any, secured: SecuredBroker) -> None:
    secured.user("nobody")
    refused = options(secured, "nobody")
    with pytest.raises(Exception, match="access to the topic is denied"):
        spark.read.format("goqueue").options(**refused, subscribe="orders").load().count()
    wrong = {name: value.replace(PASSWORD, "wrong password") for name, value in options(secured).items()}
    with pytest.raises(Exception, match=r"(?i)authentication failed") as told:
        spark.read.format("goqueue").options(**wrong, subscribe="orders").load().count()
    assert "wrong password" not in str(told.value)


def test_the_registry_is_asked_with_the_same_login(spark: Any, secured: SecuredBroker) -> None:
    rows = spark.createDataFrame([((7,),)], "value struct<id: bigint>")
    named = {"topic": "typed", "schema": "avro", "schemaRegistryUrl": secured.http}
    rows.write.format("goqueue").options(**options(secured), **named).mode("append").save()
    found = read(spark, secured, "typed", schema="registry", schemaRegistryUrl=secured.http)
    assert [row.id for row in found.select("value.id").collect()] == [7]
    plain = secured.http.replace("https://127.0.0.1", "http://broker.example")
    with pytest.raises(Exception, match="over https only"):
        read(spark, secured, "typed", schema="registry", schemaRegistryUrl=plain).count()


def test_a_file_of_kafkas_tools_is_enough_before_spark_starts_and_for_tables(
    spark: Any, secured: SecuredBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from goqueue.pipeline import tables
    from goqueue.pipeline.preflight import check_topics

    file = tmp_path / "client.properties"
    file.write_text("# a comment\n" + "".join(f"{name}={value}\n" for name, value in secured.wire("sparky").items()))
    monkeypatch.setenv("GOQUEUE_KAFKA_CONFIG", str(file))
    check_topics(secured.kafka, "orders")
    assert tables(spark, secured.kafka, database="locked")["orders"] == "orders"


PIPELINE = """
name: locked
broker: {broker}
checkpoint: {home}/state
trigger: available-now
dead_letters: bad
sources:
  events: {{topic: events, start: earliest}}
steps:
  - parse: {{name: opened, schema: "id BIGINT"}}
sinks:
  - delta: {{name: table, path: {home}/table}}
  - topic: {{name: copied, topic: copy, key: id}}
"""


@pytest.mark.slow
def test_a_declared_pipeline_reads_and_writes_over_sasl_ssl_and_a_user_without_rights_is_told_so(
    secured: SecuredBroker, tmp_path: Path
) -> None:
    """`goqueue pipeline run` with the file of Kafka's tools: source, lake, topic, dead letters, and a second run."""
    from deltalake import DeltaTable

    for topic in ("events", "copy", "bad"):
        secured.done("POST", "/topics", {"name": topic, "num_partitions": 2})
    secured.user("flow", "producer", "consumer")
    secured.user("idle")
    file = tmp_path / "locked.yaml"
    file.write_text(PIPELINE.format(broker=secured.kafka, home=tmp_path))

    def run(user: str) -> Command:
        properties = tmp_path / f"{user}.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in secured.wire(user).items()))
        words = ("pipeline", "run", file, "--master", "local[2]")
        command = Command(tmp_path, *words, GOQUEUE_KAFKA_CONFIG=str(properties))
        try:
            command.wait()
        finally:
            command.kill()
        return command

    def send(*values: str) -> None:
        producer = Producer(secured.confluent())
        for value in values:
            producer.produce("events", value)
        assert producer.flush(20) == 0

    def count(topic: str) -> int:
        reader = Consumer({**secured.confluent(), "group.id": "count"})
        ends = [reader.get_watermark_offsets(TopicPartition(topic, number), 20)[1] for number in range(2)]
        reader.close()
        return sum(ends)

    send(*(f'{{"id": {number}}}' for number in range(20)), "not JSON")
    first = run("flow")
    assert count("copy") >= 20, first.output
    send('{"id": 20}')
    second = run("flow")
    found = DeltaTable(str(tmp_path / "table")).to_pyarrow_table()["id"].to_pylist()
    assert sorted(found) == list(range(21)), second.output
    assert count("bad") >= 1
    refused = run("idle")
    assert "denied" in refused.output or "not authorized" in refused.output.lower(), refused.output
    assert PASSWORD not in refused.log.read_text()

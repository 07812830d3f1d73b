"""Messages are checked against schemas on every way in; what is not allowed is refused or quarantined."""

from __future__ import annotations

import json
import time

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.e2e.http import Http
from tests.e2e.kafka_raw import PRODUCE, RawClient, leader_of

from goqueue.codec.batch_encode import encode_batch
from goqueue.formats.envelope import prefix_of
from goqueue.records import NewRecord

ORDER = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"], "additionalProperties": False}
GOOD, BAD = '{"id": 1}', '{"id": "x"}'


@pytest.fixture
def http(broker) -> Http:
    return Http(broker.http)


def make_topic(http: Http, name: str, subject: str | None = None, schema: object = ORDER, **config: str) -> int:
    """A topic of one partition that checks values, and the id of its schema."""
    settings = {"goqueue.schema.validation": "full", "goqueue.schema.missing": "latest"}
    settings |= {key.replace("_", "."): value for key, value in config.items()}
    http.post("/topics", {"name": name, "num_partitions": 1, "config": settings})
    body = {"schemaType": "JSON", "schema": json.dumps(schema)}
    return http.post(f"/subjects/{subject or name + '-value'}/versions", body)["id"]


def stored(http: Http, topic: str) -> list[str]:
    return [one["value"] for one in http.get(f"/topics/{topic}/partitions/0/messages")["messages"]]


def produced(broker, topic: str, *values: bytes | str, headers=None, **settings: object) -> list[str]:
    """Send values at once; returns the errors that the client was told, by name."""
    producer = Producer({"bootstrap.servers": broker.kafka, "linger.ms": 20, "retries": 0, **settings})
    errors: list[str] = []
    for value in values:
        producer.produce(
            topic, value, partition=0, headers=headers,
            on_delivery=lambda error, _: errors.append("" if error is None else error.name()),
        )  # fmt: skip
    producer.flush(20)
    return errors


def test_a_bad_message_is_refused_on_every_way_in(http, broker):
    topic = "every-way"
    make_topic(http, topic, goqueue_delay_headers="true")

    # HTTP: alone, among others, of a producer with sequences, delayed, recurring, in a transaction.
    status, error = http.refused("POST", f"/topics/{topic}/messages", {"value": BAD})
    assert (status, error["code"]) == (400, "invalid_value")
    assert "/id" in error["message"]
    mixed = http.ask("POST", f"/topics/{topic}/messages", {"messages": [{"value": GOOD}, {"value": BAD}]})
    assert mixed.status == 207
    assert ["error" in one for one in mixed.body["results"]] == [False, True]
    producer = http.post("/producers/init")
    sequenced = {
        "messages": [{"value": GOOD}, {"value": BAD}], "partition": 0, "producer_id": producer["producer_id"],
        "producer_epoch": producer["epoch"], "sequence": 0,
    }  # fmt: skip
    assert http.refused("POST", f"/topics/{topic}/messages", sequenced)[0] == 400
    assert http.refused("POST", f"/topics/{topic}/messages", {"value": BAD, "delay": "50ms"})[0] == 400
    recurring = {"name": "bad", "cron": "* * * * *", "topic": topic, "value": BAD}
    assert http.refused("POST", "/schedules", recurring)[0] == 400
    owner = http.post("/producers/init", {"transactional_id": "every-way"})
    own = {"transactional_id": "every-way", "producer_id": owner["producer_id"], "epoch": owner["epoch"]}
    begun = http.post("/transactions/begin", own)
    own["transaction_id"] = begun["transaction_id"]
    sent = {**own, "topic": topic, "partition": 0, "sequence": 0, "value": BAD}
    assert http.refused("POST", "/transactions/publish", sent)[0] == 400
    http.post("/transactions/publish", {**sent, "value": GOOD})
    http.post("/transactions/commit", own)

    # Kafka: with and without compression and idempotence, delayed by header, in a transaction.
    assert produced(broker, topic, BAD) == ["INVALID_RECORD"]
    assert produced(broker, topic, GOOD, **{"enable.idempotence": False, "acks": 1}) == [""]
    assert produced(broker, topic, BAD, GOOD, **{"compression.type": "lz4"}).count("INVALID_RECORD") >= 1
    assert produced(broker, topic, BAD, headers={"goqueue-delay-ms": "50"}) == ["INVALID_RECORD"]
    in_transaction = Producer({"bootstrap.servers": broker.kafka, "transactional.id": "every-way-kafka"})
    in_transaction.init_transactions(20)
    in_transaction.begin_transaction()
    in_transaction.produce(topic, BAD, partition=0)
    in_transaction.flush(20)
    with pytest.raises(KafkaException):
        in_transaction.commit_transaction(20)
    in_transaction.abort_transaction(20)

    # Dead letters of another topic sent here.
    http.post("/topics", {"name": "every-way-source", "num_partitions": 1})
    http.publish("every-way-source", BAD)
    taken = http.post("/topics/every-way-source/receive", {"group": "g", "wait": "5s"})["messages"]
    http.post("/messages/reject", {"receipt_handle": taken[0]["receipt_handle"], "reason": "bad"})
    deadline = time.monotonic() + 15
    while not http.get("/topics/every-way-source/dlq")["letters"]:
        assert time.monotonic() < deadline
    http.post("/topics/every-way-source/dlq/redrive", {"to": topic})
    while (state := http.get("/topics/every-way-source/dlq/redrive"))["state"] == "running":
        assert time.monotonic() < deadline
    assert (state["redriven"], state["failed"]) == (0, 1)

    # Whatever was stored is valid.
    values = stored(http, topic)
    assert len(values) >= 3
    assert set(values) == {GOOD}


def test_every_bad_record_is_named(http, broker):
    topic = "named"
    make_topic(http, topic)
    records = [NewRecord(None, value.encode()) for value in (GOOD, BAD, GOOD, "[]")]
    batch = encode_batch(records, now_ms=int(time.time() * 1000))
    data = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]
    with RawClient(leader_of(broker.kafka, topic)) as client:
        reply = client.call(PRODUCE, 9, transactional_id=None, acks=-1, timeout=10_000, topic_data=data)
    row = reply["responses"][0]["partition_responses"][0]
    assert row["error_code"] == 87
    named = {one["batch_index"]: one["batch_index_error_message"] for one in row["record_errors"]}
    assert sorted(named) == [1, 3]
    assert "/id" in named[1]
    assert stored(http, topic) == []


def test_batches_of_a_checked_topic_keep_their_order(http, broker):
    topic = "ordered"
    make_topic(http, topic)
    values = [json.dumps({"id": number}) for number in range(3000)]
    errors = produced(broker, topic, *values, **{"batch.num.messages": 37, "linger.ms": 1, "retries": 10})
    assert set(errors) == {""}
    found: list[str] = []
    while len(found) < 3000:
        page = http.get(f"/topics/{topic}/partitions/0/messages?offset={len(found)}&limit=1000")["messages"]
        found += [one["value"] for one in page]
    assert found == values


def test_the_schema_that_a_message_names_must_be_allowed(http, broker):
    topic = "by-id"
    own = make_topic(http, topic, goqueue_schema_validation="id", goqueue_schema_missing="refuse")
    other = make_topic(http, "by-id-other", schema={"title": "other"})
    assert produced(broker, topic, prefix_of(own) + b"never looked at") == [""]
    for value in (b"no prefix", prefix_of(other) + b"{}", prefix_of(999_999) + b"{}"):
        assert produced(broker, topic, value) == ["INVALID_RECORD"]
    assert produced(broker, topic, b"{}", headers={"schema-id": str(own)}) == [""]
    assert produced(broker, topic, b"{}", headers={"schema-id": "x"}) == ["INVALID_RECORD"]
    assert produced(broker, topic, None) == [""], "a tombstone passes"
    assert (
        "not registered under by-id-value"
        in http.refused("POST", f"/topics/{topic}/messages", {"value": "{}", "headers": {"schema-id": str(other)}})[1][
            "message"
        ]
    )


def test_confluents_setting_and_serializer_agree(http, broker):
    topic = "confluent-setting"
    http.post("/topics", {"name": topic, "num_partitions": 1, "config": {"confluent.value.schema.validation": "true"}})
    text = '{"type":"record","name":"User","fields":[{"name":"name","type":"string"}]}'
    with SchemaRegistryClient({"url": f"http://{broker.http}"}) as registry:
        serialize = AvroSerializer(registry, text)
        value = serialize({"name": "ada"}, SerializationContext(topic, MessageField.VALUE))
    assert produced(broker, topic, value) == [""]
    assert produced(broker, topic, value[1:]) == ["INVALID_RECORD"]


def test_a_subject_may_be_called_as_its_topic_and_switch_the_check_off(http, broker):
    topic = "switched"
    make_topic(http, topic, subject=topic)
    assert http.refused("POST", f"/topics/{topic}/messages", {"value": BAD})[0] == 400
    http.ask("PUT", f"/config/{topic}", {"validationEnabled": False})
    http.publish(topic, BAD)
    assert produced(broker, topic, BAD) == [""]
    http.ask("PUT", f"/config/{topic}", {"validationEnabled": True})
    assert http.refused("POST", f"/topics/{topic}/messages", {"value": BAD})[0] == 400
    assert http.ask("PUT", "/config", {"validationEnabled": False}).status == 400

    http.post("/topics", {"name": "switched-on", "num_partitions": 1, "config": {"goqueue.schema.missing": "latest"}})
    http.publish("switched-on", BAD)
    http.post("/subjects/switched-on-value/versions", {"schemaType": "JSON", "schema": json.dumps(ORDER)})
    http.publish("switched-on", BAD)
    http.ask("PUT", "/config/switched-on-value", {"validationEnabled": True})
    assert http.refused("POST", "/topics/switched-on/messages", {"value": BAD})[0] == 400
    assert produced(broker, "switched-on", BAD, GOOD).count("INVALID_RECORD") >= 1


def test_record_names_may_choose_the_subject(http, broker):
    schema = {**ORDER, "title": "shop.Order"}
    topic = "by-record"
    own = make_topic(http, topic, subject="shop.Order", schema=schema, goqueue_schema_subjects="record")
    assert produced(broker, topic, prefix_of(own) + GOOD.encode()) == [""]
    assert produced(broker, topic, prefix_of(own) + BAD.encode()) == ["INVALID_RECORD"]
    both = "by-both"
    make_topic(http, both, subject="elsewhere", schema=schema, goqueue_schema_subjects="topic-record")
    assert produced(broker, both, prefix_of(own) + GOOD.encode()) == ["INVALID_RECORD"]
    http.post(f"/subjects/{both}-shop.Order/versions", {"schemaType": "JSON", "schema": json.dumps(schema)})
    assert produced(broker, both, prefix_of(own) + GOOD.encode()) == [""]


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_bad_records_are_quarantined_and_sent_on_when_the_schema_takes_them(http, broker, codec):
    topic = f"quarantined-{codec}"
    make_topic(http, topic, goqueue_schema_invalid="quarantine")
    assert produced(broker, topic, GOOD, BAD, GOOD, **{"compression.type": codec}) == ["", "", ""]
    assert produced(broker, topic, BAD, "[]", **{"compression.type": codec}) == ["", ""], "an emptied batch"
    http.publish(topic, BAD, GOOD)
    assert stored(http, topic) == [GOOD, GOOD, GOOD]

    letters = http.get(f"/topics/{topic}.invalid/dlq")["letters"]
    assert [one["message"]["value"] for one in letters] == [BAD, BAD, "[]", BAD]
    assert {one["reason"] for one in letters} == {"invalid_value"}
    assert "/id" in letters[0]["error"]
    assert letters[0]["topic"] == topic

    story = http.get(f"/topics/{topic}.invalid/partitions/0/messages/0/story")
    (told,) = [one for one in story["events"] if one["event"] == "schema.rejected"]
    assert told["attributes"]["reason"] == f"not allowed in {topic}"
    assert "/id" in told["attributes"]["error"]

    counted = {
        name: line.split()[1]
        for line in http.get("/metrics").decode().splitlines()
        for name in ("checked", "invalid", "quarantined")
        if line.startswith(f'goqueue_schema_records_{name}_total{{topic="{topic}"}}')
    }
    assert counted == {"checked": "7.0", "invalid": "4.0", "quarantined": "4.0"}

    http.ask("PUT", f"/config/{topic}-value", {"compatibility": "NONE"})
    wider = {"type": "object"}
    http.post(f"/subjects/{topic}-value/versions", {"schemaType": "JSON", "schema": json.dumps(wider)})
    http.post(f"/topics/{topic}.invalid/dlq/redrive", {})
    deadline = time.monotonic() + 15
    while (state := http.get(f"/topics/{topic}.invalid/dlq/redrive"))["state"] == "running":
        assert time.monotonic() < deadline
    assert (state["redriven"], state["failed"]) == (3, 1), state
    # What goes back is part of a transaction, which is shown once its markers are written.
    while len(found := stored(http, topic)) < 6:
        assert time.monotonic() < deadline, found
    assert found == [GOOD, GOOD, GOOD, BAD, BAD, BAD]


def test_a_batch_that_is_sent_again_is_quarantined_once(http, broker):
    topic = "quarantined-once"
    make_topic(http, topic, goqueue_schema_invalid="quarantine")
    producer = http.post("/producers/init")
    request = {
        "messages": [{"value": GOOD}, {"value": BAD}], "partition": 0, "producer_id": producer["producer_id"],
        "producer_epoch": producer["epoch"], "sequence": 0,
    }  # fmt: skip
    first = http.post(f"/topics/{topic}/messages", request)
    again = http.post(f"/topics/{topic}/messages", request)
    assert [one["offset"] for one in first["results"]] == [one["offset"] for one in again["results"]]
    assert stored(http, topic) == [GOOD]
    assert len(http.get(f"/topics/{topic}.invalid/dlq")["letters"]) == 1


@pytest.mark.parametrize("commit", [True, False])
def test_copies_in_quarantine_are_part_of_their_transaction(http, broker, commit):
    topic = f"quarantined-in-transaction-{commit}"
    make_topic(http, topic, goqueue_schema_invalid="quarantine")
    producer = Producer({"bootstrap.servers": broker.kafka, "transactional.id": topic, "linger.ms": 20})
    producer.init_transactions(20)

    def transaction(*values: str, commit: bool) -> None:
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=0)
        assert producer.flush(20) == 0
        assert stored(http, topic) == stored(http, f"{topic}.invalid") == [], "nobody sees what is not committed"
        (producer.commit_transaction if commit else producer.abort_transaction)(20)

    transaction(GOOD, BAD, commit=commit)
    deadline = time.monotonic() + 15
    expected = [GOOD] if commit else []
    # A second transaction without a good record, and one more that ends otherwise.
    if not commit:
        transaction(BAD, commit=False)
        transaction("[]", GOOD, commit=True)
        expected = [GOOD]
    while stored(http, topic) != expected or len(stored(http, f"{topic}.invalid")) != 1:
        assert time.monotonic() < deadline
    letters = http.get(f"/topics/{topic}.invalid/dlq")["letters"]
    assert [one["message"]["value"] for one in letters] == [BAD if commit else "[]"]
    assert letters[0]["reason"] == "invalid_value"


def test_a_batch_of_a_transaction_that_is_sent_again_is_quarantined_once(http, broker):
    topic = "quarantined-once-in-transaction"
    make_topic(http, topic, goqueue_schema_invalid="quarantine")
    owner = http.post("/producers/init", {"transactional_id": topic})
    own = {"transactional_id": topic, "producer_id": owner["producer_id"], "epoch": owner["epoch"]}
    own["transaction_id"] = http.post("/transactions/begin", own)["transaction_id"]
    sent = {**own, "topic": topic, "partition": 0, "sequence": 0, "value": BAD}
    http.post("/transactions/publish", sent)
    http.post("/transactions/publish", sent)
    http.post("/transactions/publish", {**sent, "sequence": 1, "value": GOOD})
    http.post("/transactions/commit", own)
    deadline = time.monotonic() + 15
    while stored(http, topic) != [GOOD] or not stored(http, f"{topic}.invalid"):
        assert time.monotonic() < deadline
    assert stored(http, f"{topic}.invalid") == [BAD]


def test_a_schema_that_never_ends_refuses_its_messages_and_no_others(start_broker):
    broker = start_broker(GOQUEUE_SCHEMAS_WORKER_MS_MAX=1000)
    http = Http(broker.http)
    twice = {f"d{i}": {"allOf": [{"$ref": f"#/definitions/d{i + 1}"}] * 2} for i in range(40)}
    slow = {"$ref": "#/definitions/d0", "definitions": {**twice, "d40": {"type": "object"}}}
    make_topic(http, "slow", schema=slow)
    make_topic(http, "quick")
    assert "longer than 1 s" in http.refused("POST", "/topics/slow/messages", {"value": "{}"})[1]["message"]
    http.publish("quick", GOOD)


PERSON = {"type": "record", "name": "Person", "fields": [{"name": "name", "type": "string"}]}
PING = 'syntax = "proto3"; message Other { int32 n = 1; } message Ping { string text = 1; }'


def test_values_are_shown_decoded_to_those_who_ask(http, broker):
    http.post("/topics", {"name": "decoded", "num_partitions": 1})
    ids = [
        http.post(f"/subjects/decoded-{kind}/versions", {"schemaType": kind, "schema": text})["id"]
        for kind, text in (("JSON", json.dumps(ORDER)), ("AVRO", json.dumps(PERSON)), ("PROTOBUF", PING))
    ]
    values = (
        prefix_of(ids[0]) + GOOD.encode(),
        prefix_of(ids[1]) + b"\x06ada",
        prefix_of(ids[2], (1,)) + b"\x0a\x02hi",
        prefix_of(ids[0]) + BAD.encode(),
        prefix_of(99_999) + b"{}",
        b"plain text",
    )
    assert produced(broker, "decoded", *values) == [""] * len(values)

    for path in ("/topics/decoded/partitions/0/messages", "/topics/decoded/messages"):
        shown = http.get(f"{path}?decode=true")["messages"]
        assert [one.get("decoded") for one in shown] == [{"id": 1}, {"name": "ada"}, {"text": "hi"}, None, None, None]
        assert [one.get("schema_id") for one in shown] == [*ids, ids[0], 99_999, None]
        assert "/id" in shown[3]["decode_error"]
        assert shown[4]["decode_error"] == "the schema is not registered"
        assert "decode_error" not in shown[5]
        assert all("decoded" not in one for one in http.get(path)["messages"])

"""Topics over HTTP: create, describe, change, delete; and who may not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, ResourceType
from tests.e2e.http import Http


@pytest.fixture
def http(broker):
    return Http(broker.http)


def test_a_created_topic_is_described_with_its_settings(http):
    answer = http.ask("POST", "/topics", {"name": "orders", "num_partitions": 2, "retention_hours": 1})

    assert (answer.status, answer.headers["Location"]) == (201, "/topics/orders")
    topic = http.get("/topics/orders")
    assert topic["partitions"] == 2
    assert topic["config"]["retention.ms"] == "3600000"
    assert topic["overrides"] == {"retention.ms": "3600000"}
    assert topic["partition_offsets"] == {"0": {"earliest": 0, "latest": 0}, "1": {"earliest": 0, "latest": 0}}


def test_a_second_topic_of_that_name_is_a_conflict(http):
    http.post("/topics", {"name": "once"})

    assert http.refused("POST", "/topics", {"name": "once"})[0] == 409


def test_settings_and_partitions_change_and_return_to_their_default(http):
    http.post("/topics", {"name": "growing", "num_partitions": 1})

    changed = http.patch("/topics/growing", {"num_partitions": 4, "config": {"cleanup.policy": "compact"}})
    assert (changed["partitions"], changed["overrides"]) == (4, {"cleanup.policy": "compact"})

    restored = http.patch("/topics/growing", {"config": {"cleanup.policy": None}})
    assert (restored["overrides"], restored["config"]["cleanup.policy"]) == ({}, "delete")


def test_a_change_that_is_half_wrong_changes_nothing(http):
    http.post("/topics", {"name": "steady", "num_partitions": 1})

    status, error = http.refused("PATCH", "/topics/steady", {"num_partitions": 3, "config": {"retention.ms": "soon"}})

    assert (status, error["code"]) == (400, "invalid_config")
    assert http.get("/topics/steady")["partitions"] == 1


def test_partitions_are_never_taken_away(http):
    http.post("/topics", {"name": "wide", "num_partitions": 3})

    assert http.refused("PATCH", "/topics/wide", {"num_partitions": 2})[0] == 400


def test_a_recreated_topic_starts_clean(http):
    http.post("/topics", {"name": "phoenix", "num_partitions": 1})
    http.publish("phoenix", "old")
    http.delete("/topics/phoenix")

    http.post("/topics", {"name": "phoenix", "num_partitions": 1})

    assert http.get("/topics/phoenix/partitions/0/messages")["messages"] == []
    assert http.publish("phoenix", "new")[0]["offset"] == 0


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../../etc", "a b", "é", "x" * 250, "nul\x00"])
def test_names_that_could_become_other_paths_are_refused(http, broker, name):
    status, error = http.refused("POST", "/topics", {"name": name})

    assert (status, error["field"]) == (400, "name")


def test_internal_topics_can_be_seen_but_not_touched(http):
    http.post("/topics", {"name": "seen", "num_partitions": 1})
    http.post("/groups/g/offsets", {"offsets": {"seen": {"0": 0}}})

    assert "__consumer_offsets" not in http.get("/topics")["topics"]
    assert "__consumer_offsets" in http.get("/topics?internal=true")["topics"]
    assert http.refused("DELETE", "/topics/__consumer_offsets")[0] == 403
    assert http.refused("POST", "/topics/__consumer_offsets/messages", {"value": "x"})[0] == 403
    assert http.refused("POST", "/topics", {"name": "__mine"})[0] == 400


def test_what_is_not_there_is_not_found(http):
    for method, path in [("GET", "/topics/absent"), ("DELETE", "/topics/absent"), ("GET", "/topics/absent/messages")]:
        assert http.refused(method, path)[1]["code"] == "topic_not_found"


def test_topics_survive_a_restart(start_broker):
    broker = start_broker()
    Http(broker.http).post("/topics", {"name": "kept", "num_partitions": 2, "config": {"retention.ms": "5000000"}})
    before = Http(broker.http).get("/topics/kept")

    broker.restart()

    assert Http(broker.http).get("/topics/kept") == before


def test_without_automatic_creation_a_publish_to_nowhere_is_not_found(start_broker):
    http = Http(start_broker(GOQUEUE_BROKER_AUTO_CREATE_TOPICS="false").http)

    assert http.refused("POST", "/topics/absent/messages", {"value": "x"})[0] == 404
    assert http.refused("PUT", "/topics/absent")[0] == 404


def test_unknown_routes_and_methods_get_an_answer_that_helps(http):
    assert http.refused("GET", "/nowhere")[1]["code"] == "route_not_found"
    answer = http.ask("DELETE", "/topics")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, POST")


def test_a_body_that_would_be_ignored_is_refused_and_nothing_is_created(http):
    status, error = http.refused("PUT", "/topics/shaped", {"num_partitions": 2})

    assert (status, error["field"]) == (400, "body")
    assert "POST /topics" in error["hint"]
    assert http.refused("GET", "/topics/shaped")[0] == 404


def test_an_empty_body_is_called_that(http):
    status, error = http.refused("POST", "/topics")

    assert (status, error["message"]) == (400, "the request has no body")


def test_settings_of_kafka_that_have_no_effect_are_taken_with_a_warning(http: Http) -> None:
    config = {"compression.type": "zstd", "remote.storage.enable": "false", "segment.index.bytes": "10485760"}
    made = http.post("/topics", {"name": "as-on-kafka", "num_partitions": 1, "config": config})
    assert [one.split(" is ")[0] for one in made["warnings"]] == ["setting 'compression.type'"]
    changed = http.patch("/topics/as-on-kafka", {"config": {"file.delete.delay.ms": "1", "cleanup.policy": ""}})
    assert any("'file.delete.delay.ms' is '1' and has no effect" in one for one in changed["warnings"])
    assert changed["config"]["compression.type"] == "zstd"
    assert changed["config"]["cleanup.policy"] == ""
    assert "warnings" not in http.patch(
        "/topics/as-on-kafka", {"config": {"compression.type": None, "file.delete.delay.ms": None}}
    )


def test_delivery_settings_show_the_numbers_in_force(start_broker):
    """Kafka's clients and the command line read the same numbers; "node" is a way to write them, not an answer."""
    broker = start_broker(GOQUEUE_DELIVERY_RETRIES_MAX=9)
    http = Http(broker.http)
    http.post(
        "/topics", {"name": "retried", "config": {"delivery.backoff.ms": "250", "delivery.backoff.max.ms": "node"}}
    )

    config = http.get("/topics/retried")["config"]
    assert {name: config[name] for name in config if name.startswith("delivery.")} == {
        "delivery.backoff.max.ms": "60000",
        "delivery.backoff.ms": "250",
        "delivery.backoff.multiplier": "2.0",
        "delivery.dead.letters": "true",
        "delivery.max.retries": "9",
        "delivery.visibility.timeout.ms": "30000",
    }

    admin = AdminClient({"bootstrap.servers": broker.kafka})
    [asked] = admin.describe_configs([ConfigResource(ResourceType.TOPIC, "retried")]).values()
    entries = asked.result(timeout=30)
    shown = {name: (entries[name].value, ConfigSource(entries[name].source).name) for name in config}
    assert shown["delivery.max.retries"] == ("9", "STATIC_BROKER_CONFIG")
    assert shown["delivery.visibility.timeout.ms"] == ("30000", "DEFAULT_CONFIG")
    assert shown["delivery.backoff.ms"] == ("250", "DYNAMIC_TOPIC_CONFIG")

    command = [Path(sys.executable).parent / "goqueue", "topic", "describe", "retried", "-o", "json"]
    told = subprocess.run([*command, "--server", f"http://{broker.http}"], capture_output=True, timeout=60, check=True)
    assert json.loads(told.stdout)["config"]["delivery.max.retries"] == "9"

"""Schemas on three real nodes: Confluent's serializers, and the death of the node that coordinates the registry."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.e2e.cluster.real_nodes import RealCluster, RealNode

PARTITIONS = 3
USER = {"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]}
GOOD, BAD = b'{"id": 1}', b'{"id": "x"}'
ORDER = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"], "additionalProperties": False}

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(shared_cluster: RealCluster) -> RealCluster:
    return shared_cluster


def ask(node: RealNode, method: str, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{node.http}{path}", data, {"content-type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.loads(response.read() or b"null")


def ask_until_taken(node: RealNode, path: str, body: Any) -> None:
    """Ask again as long as the node says that it cannot answer now; anything else is raised."""
    deadline = time.monotonic() + 60
    while True:
        try:
            ask(node, "POST", path, body)
        except urllib.error.HTTPError as refusal:
            if refusal.code not in {503, 504} or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def make_topic(node: RealNode, name: str, **settings: str) -> None:
    config = {"goqueue.schema.validation": "full", **settings}
    ask(node, "POST", "/topics", {"name": name, "num_partitions": PARTITIONS, "config": config})


def registry_leader(cluster: RealCluster) -> RealNode:
    living = next(one for one in cluster.nodes if one.is_running)
    row = next(one for one in ask(living, "GET", "/cluster/partitions")["partitions"] if one["topic"] == "__schemas")
    return cluster.nodes[row["leader"] - 1]


def values(cluster: RealCluster, topic: str, count: int, seconds: float = 40) -> list[bytes]:
    """All that a topic has, once it has so much."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": f"check-{topic}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, one, 0) for one in range(PARTITIONS)])
    found: list[bytes] = []
    deadline = time.monotonic() + seconds
    quiet = 0
    while time.monotonic() < deadline and quiet < 3:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append(message.value())
        elif len(found) >= count:
            quiet += 1
    consumer.close()
    return found


def test_serializers_work_through_any_node_and_every_leader_checks(cluster: RealCluster) -> None:
    make_topic(cluster.nodes[0], "users")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    errors: list[Any] = []
    for number, node in enumerate(cluster.nodes):
        # Each round registers another schema through another node, and writes to all leaders at once.
        schema = {**USER, "fields": [*USER["fields"], {"name": f"f{number}", "type": "int", "default": number}]}
        with SchemaRegistryClient({"url": node.http}) as registry:
            serialize = AvroSerializer(registry, json.dumps(schema))
            context = SerializationContext("users", MessageField.VALUE)
            value = serialize({"name": f"u{number}", f"f{number}": 7}, context)
        for partition in range(PARTITIONS):
            producer.produce("users", value, partition=partition, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(60) == 0
    assert errors == [None] * 9
    refused: list[str] = []
    for partition in range(PARTITIONS):
        for value in (b"no schema", b"\0\0\0\xff\xff?"):
            producer.produce("users", value, partition=partition, on_delivery=lambda one, _: refused.append(one.name()))
            producer.flush(60)
    assert refused == ["INVALID_RECORD"] * 6
    found = values(cluster, "users", 9)
    assert len(found) == 9
    with SchemaRegistryClient({"url": cluster.nodes[2].http}) as registry:
        names = {
            AvroDeserializer(registry)(one, SerializationContext("users", MessageField.VALUE))["name"] for one in found
        }
    assert names == {"u0", "u1", "u2"}
    for node in cluster.nodes:
        shown = ask(node, "GET", "/topics/users/messages?decode=true&limit=100")["messages"]
        assert len(shown) == 9


class Load:
    """Writes good and bad values to all partitions until it is stopped; remembers what it was told."""

    def __init__(self, cluster: RealCluster, topic: str) -> None:
        self._servers, self._topic = cluster.bootstrap_servers, topic
        self.acknowledged: list[bytes] = []
        self.refused: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self._servers, "linger.ms": 2, "message.timeout.ms": 60_000, "batch.num.messages": 5}
        )
        number = 0
        while not self._stop.is_set():
            value = json.dumps({"id": number}).encode()
            producer.produce(self._topic, value, partition=number % PARTITIONS, on_delivery=self._told)
            producer.poll(0)
            if number % 7 == 0:
                # By itself: a bad value refuses its whole batch.
                producer.flush(60)
                producer.produce(self._topic, BAD, partition=number % PARTITIONS, on_delivery=self._told)
                producer.flush(60)
            number += 1
            time.sleep(0.002)
        producer.flush(60)

    def _told(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged.append(message.value())
        else:
            self.refused.append(error.name())


def test_the_node_of_the_registry_dies_under_load_and_nothing_unchecked_is_stored(cluster: RealCluster) -> None:
    make_topic(cluster.nodes[1], "orders", **{"goqueue.schema.missing": "latest"})
    body = {"schemaType": "JSON", "schema": json.dumps(ORDER)}
    ask(cluster.nodes[1], "POST", "/subjects/orders-value/versions", body)
    load = Load(cluster, "orders")
    load.start()
    time.sleep(3)
    victim = registry_leader(cluster)
    victim.kill()
    others = [one for one in cluster.nodes if one is not victim]
    # A new schema, as soon as a new coordinator takes it, through either of the nodes that are left.
    wider = {**ORDER, "properties": {**ORDER["properties"], "note": {"type": "string"}}}
    ask_until_taken(others[0], "/subjects/orders-value/versions", {**body, "schema": json.dumps(wider)})
    # It is used at once on every node that leads.
    for partition in range(PARTITIONS):
        message = {"value": '{"id": 1, "note": "new"}', "partition": partition}
        ask_until_taken(others[1], "/topics/orders/messages", message)
    time.sleep(2)
    load.stop()
    victim.start()
    cluster.wait_ready()
    found = values(cluster, "orders", len(load.acknowledged) + PARTITIONS)
    stored = [json.loads(one) for one in found]
    assert all(isinstance(one["id"], int) for one in stored), "an unchecked value was stored"
    missing = {bytes(one) for one in load.acknowledged} - set(found)
    assert not missing, f"{len(missing)} of {len(load.acknowledged)} acknowledged values are lost"
    assert load.acknowledged
    assert set(load.refused) <= {"INVALID_RECORD"}, set(load.refused)
    assert load.refused


@pytest.mark.parametrize("commit", [True, False])
def test_quarantine_is_part_of_transactions_across_nodes(cluster: RealCluster, commit: bool) -> None:
    topic = f"intake-{commit}".lower()
    make_topic(cluster.nodes[2], topic, **{"goqueue.schema.missing": "latest", "goqueue.schema.invalid": "quarantine"})
    ask(
        cluster.nodes[0], "POST", f"/subjects/{topic}-value/versions",
        {"schemaType": "JSON", "schema": json.dumps(ORDER)},
    )  # fmt: skip
    for turn in range(3):
        # Ids with different coordinators.
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": f"{topic}-{turn}"})
        producer.init_transactions(60)
        for end in (commit, commit):
            producer.begin_transaction()
            for partition in range(PARTITIONS):
                producer.produce(topic, GOOD, partition=partition)
                producer.produce(topic, BAD, partition=partition)
            assert producer.flush(60) == 0
            (producer.commit_transaction if end else producer.abort_transaction)(60)
    count = 18 if commit else 0
    assert values(cluster, topic, count, 20) == [GOOD] * count
    assert values(cluster, f"{topic}.invalid", count, 20) == [BAD] * count

"""Requests sent in one write on one connection: the second sees what the first did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from tests.e2e.kafka_raw import CREATE_TOPICS, FETCH, LIST_OFFSETS, METADATA, PRODUCE, RawClient
from tests.e2e.process import BrokerProcess
from tests.unit.codec.kafka.kio_values import read_response, request_frame
from tests.unit.servers.kafka.batches import batch

TRIES = 20
OFFSET_COMMIT, OFFSET_FETCH, DELETE_TOPICS, DELETE_RECORDS, DESCRIBE_CONFIGS = 8, 9, 20, 21, 32
CREATE_PARTITIONS, DELETE_GROUPS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS, LIST_GROUPS = 37, 42, 33, 44, 16
VERSIONS = {
    PRODUCE: 9,
    FETCH: 12,
    LIST_OFFSETS: 6,
    METADATA: 12,
    OFFSET_COMMIT: 8,
    OFFSET_FETCH: 7,
    LIST_GROUPS: 4,
    CREATE_TOPICS: 7,
    DELETE_TOPICS: 5,
    DELETE_RECORDS: 2,
    DESCRIBE_CONFIGS: 4,
    ALTER_CONFIGS: 2,
    CREATE_PARTITIONS: 3,
    DELETE_GROUPS: 2,
    INCREMENTAL_ALTER_CONFIGS: 1,
}
Request = tuple[int, dict[str, Any]]


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[RawClient]:
    with RawClient(broker.kafka) as one:
        yield one


def together(client: RawClient, *requests: Request) -> list[dict[str, Any]]:
    """Send the requests in one write and read the answers, which must come in the same order."""
    frames = [request_frame(key, VERSIONS[key], fields, correlation_id=at) for at, (key, fields) in enumerate(requests)]
    client.socket.sendall(b"".join(len(one).to_bytes(4, "big") + one for one in frames))
    return [
        read_response(key, VERSIONS[key], client.receive_frame(), correlation_id=at)
        for at, (key, _) in enumerate(requests)
    ]


def create(topic: str) -> Request:
    return CREATE_TOPICS, {"topics": [{"name": topic, "num_partitions": 1, "replication_factor": -1}], "timeout": 5000}


def produce(topic: str) -> Request:
    data = [{"name": topic, "partition_data": [{"index": 0, "records": batch(b"v")}]}]
    return PRODUCE, {"acks": -1, "timeout": 5000, "topic_data": data}


def fetch(topic: str, offset: int) -> Request:
    read = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1_000_000}
    return FETCH, {"max_bytes": 1_000_000, "max_wait": 0, "topics": [{"topic": topic, "partitions": [read]}]}


def earliest(topic: str) -> Request:
    return LIST_OFFSETS, {"topics": [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -2}]}]}


def metadata(topic: str, *, creating: bool = False) -> Request:
    return METADATA, {"topics": [{"name": topic}], "allow_auto_topic_creation": creating}


def commit(group: str, topic: str, offset: int) -> Request:
    partitions = [{"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}]
    topics = [{"name": topic, "partitions": partitions}]
    return OFFSET_COMMIT, {"group_id": group, "generation_id_or_member_epoch": -1, "topics": topics}


def committed(group: str, topic: str) -> Request:
    return OFFSET_FETCH, {"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]}


def retention(topic: str, value: str) -> Request:
    change = {"name": "retention.ms", "config_operation": 0, "value": value}
    return INCREMENTAL_ALTER_CONFIGS, {"resources": [{"resource_type": 2, "resource_name": topic, "configs": [change]}]}


def settings(topic: str) -> Request:
    asked = {"resource_type": 2, "resource_name": topic, "configuration_keys": ["retention.ms"]}
    return DESCRIBE_CONFIGS, {"resources": [asked]}


def new_topic(client: RawClient, batches: int = 0) -> str:
    name = f"order-{uuid4().hex[:12]}"
    client.create_topic(name)
    for _ in range(batches):
        client.produce(name, batch(b"v"))
    return name


def create_then_metadata(client: RawClient) -> bool:
    topic = f"order-{uuid4().hex[:12]}"
    _, seen = together(client, create(topic), metadata(topic))
    return bool(seen["topics"][0]["error_code"] == 0)


def create_then_produce(client: RawClient) -> bool:
    topic = f"order-{uuid4().hex[:12]}"
    _, stored = together(client, create(topic), produce(topic))
    return bool(stored["responses"][0]["partition_responses"][0]["error_code"] == 0)


def create_then_fetch(client: RawClient) -> bool:
    topic = f"order-{uuid4().hex[:12]}"
    _, read = together(client, create(topic), fetch(topic, 0))
    return bool(read["responses"][0]["partitions"][0]["error_code"] == 0)


def creating_metadata_then_produce(client: RawClient) -> bool:
    topic = f"order-{uuid4().hex[:12]}"
    _, stored = together(client, metadata(topic, creating=True), produce(topic))
    return bool(stored["responses"][0]["partition_responses"][0]["error_code"] == 0)


def delete_then_metadata(client: RawClient) -> bool:
    topic = new_topic(client)
    _, seen = together(client, (DELETE_TOPICS, {"topic_names": [topic], "timeout": 5000}), metadata(topic))
    return bool(seen["topics"][0]["error_code"] != 0)


def create_partitions_then_metadata(client: RawClient) -> bool:
    topic = new_topic(client)
    grow = {"topics": [{"name": topic, "count": 3, "assignments": None}], "timeout": 5000, "validate_only": False}
    _, seen = together(client, (CREATE_PARTITIONS, grow), metadata(topic))
    return len(seen["topics"][0]["partitions"]) == 3


def delete_records_then_list_offsets(client: RawClient) -> bool:
    topic = new_topic(client, batches=3)
    cut = {"topics": [{"name": topic, "partitions": [{"partition_index": 0, "offset": 2}]}], "timeout": 5000}
    _, seen = together(client, (DELETE_RECORDS, cut), earliest(topic))
    return bool(seen["topics"][0]["partitions"][0]["offset"] == 2)


def delete_group_then_offset_fetch(client: RawClient) -> bool:
    topic, group = new_topic(client), f"group-{uuid4().hex[:12]}"
    together(client, commit(group, topic, 7))
    _, seen = together(client, (DELETE_GROUPS, {"groups_names": [group]}), committed(group, topic))
    return bool(seen["topics"][0]["partitions"][0]["committed_offset"] == -1)


def commit_then_offset_fetch(client: RawClient) -> bool:
    topic, group = new_topic(client), f"group-{uuid4().hex[:12]}"
    *_, seen = together(client, commit(group, topic, 6), commit(group, topic, 7), committed(group, topic))
    return bool(seen["topics"][0]["partitions"][0]["committed_offset"] == 7)


def commit_then_list_groups(client: RawClient) -> bool:
    topic, group = new_topic(client), f"group-{uuid4().hex[:12]}"
    _, seen = together(client, commit(group, topic, 6), (LIST_GROUPS, {}))
    return group in {one["group_id"] for one in seen["groups"]}


def incremental_change_then_describe(client: RawClient) -> bool:
    topic = new_topic(client)
    _, seen = together(client, retention(topic, "12345678"), settings(topic))
    return bool(seen["results"][0]["configs"][0]["value"] == "12345678")


def replacing_change_then_describe(client: RawClient) -> bool:
    topic = new_topic(client)
    configs = [{"name": "retention.ms", "value": "12345678"}]
    change = {"resources": [{"resource_type": 2, "resource_name": topic, "configs": configs}]}
    _, seen = together(client, (ALTER_CONFIGS, change), settings(topic))
    return bool(seen["results"][0]["configs"][0]["value"] == "12345678")


def offset_fetch_then_delete_group(client: RawClient) -> bool:
    topic, group = new_topic(client), f"group-{uuid4().hex[:12]}"
    together(client, commit(group, topic, 7))
    seen, _ = together(client, committed(group, topic), (DELETE_GROUPS, {"groups_names": [group]}))
    return bool(seen["topics"][0]["partitions"][0]["committed_offset"] == 7)


def produce_then_delete_topic(client: RawClient) -> bool:
    topic = new_topic(client)
    stored, gone = together(client, produce(topic), (DELETE_TOPICS, {"topic_names": [topic], "timeout": 5000}))
    return bool(
        stored["responses"][0]["partition_responses"][0]["error_code"] == 0 and gone["responses"][0]["error_code"] == 0
    )


@pytest.mark.parametrize(
    "sees",
    [
        create_then_metadata,
        create_then_produce,
        create_then_fetch,
        creating_metadata_then_produce,
        delete_then_metadata,
        create_partitions_then_metadata,
        delete_records_then_list_offsets,
        delete_group_then_offset_fetch,
        commit_then_offset_fetch,
        commit_then_list_groups,
        incremental_change_then_describe,
        replacing_change_then_describe,
        offset_fetch_then_delete_group,
        produce_then_delete_topic,
    ],
)
def test_the_second_request_sees_what_the_first_did(client: RawClient, sees: Callable[[RawClient], bool]) -> None:
    assert [sees(client) for _ in range(TRIES)] == [True] * TRIES

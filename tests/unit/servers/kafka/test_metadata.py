"""Metadata, ApiVersions and descriptions: who is there and what there is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from goqueue.config import BrokerConfig, Config
from goqueue.servers.kafka import registry
from goqueue.servers.services import Services

from .conftest import Call

METADATA, API_VERSIONS, DESCRIBE_CLUSTER, DESCRIBE_TOPIC_PARTITIONS = 3, 18, 60, 75
NOT_ASKED = -(2**31)


async def create(call: Call, name: str, partitions: int = 1) -> None:
    reply = await call(19, 7, topics=[{"name": name, "num_partitions": partitions, "replication_factor": 1}])
    assert reply["topics"][0]["error_code"] == 0


@pytest.mark.parametrize("version", range(14))
async def test_every_version_names_the_broker_and_the_topics(call: Call, version: int) -> None:
    await create(call, "a", 2)
    reply = await call(METADATA, version, topics=[{"name": "a"}])
    assert reply["brokers"][0]["host"] == "broker.test"
    assert reply["brokers"][0]["port"] == 9092
    if version >= 1:
        assert reply["controller_id"] == 1
    if version >= 2:
        assert reply["cluster_id"]
    (topic,) = reply["topics"]
    assert (topic["error_code"], topic["name"]) == (0, "a")
    assert [(one["partition_index"], one["leader_id"], one["isr_nodes"]) for one in topic["partitions"]] == [
        (0, 1, [1]),
        (1, 1, [1]),
    ]


@pytest.mark.parametrize(("version", "topics"), [(0, []), (1, None), (9, None), (13, None)])
async def test_all_topics_are_listed_when_none_is_named(call: Call, version: int, topics: Any) -> None:
    await create(call, "b")
    await create(call, "a")
    reply = await call(METADATA, version, topics=topics)
    assert [topic["name"] for topic in reply["topics"]] == ["a", "b"]


@pytest.mark.parametrize("version", [1, 9])
async def test_an_empty_list_asks_for_brokers_only(call: Call, version: int) -> None:
    await create(call, "a")
    reply = await call(METADATA, version, topics=[])
    assert (len(reply["brokers"]), reply["topics"]) == (1, [])


async def test_a_topic_is_made_when_a_client_names_it(call: Call) -> None:
    reply = await call(METADATA, 9, topics=[{"name": "fresh"}, {"name": "fresh2"}], allow_auto_topic_creation=True)
    assert [(one["name"], one["error_code"], len(one["partitions"])) for one in reply["topics"]] == [
        ("fresh", 0, 3),
        ("fresh2", 0, 3),
    ]


@pytest.mark.parametrize(
    ("name", "allowed", "code"),
    [("fresh", False, 3), ("__mine", True, 3), ("__consumer_offsets", True, 3), ("a/b", True, 17), ("", True, 17)],
)
async def test_a_topic_that_may_not_be_made_is_refused_by_number(
    call: Call, name: str, allowed: bool, code: int
) -> None:
    reply = await call(METADATA, 9, topics=[{"name": name}], allow_auto_topic_creation=allowed)
    assert (reply["topics"][0]["error_code"], reply["topics"][0]["name"]) == (code, name)
    assert (await call(METADATA, 9, topics=None))["topics"] == []


class TestWithoutAutomaticTopics:
    @pytest.fixture
    def config(self) -> Config:
        return replace(Config(), broker=BrokerConfig(auto_create_topics=False))

    async def test_no_topic_is_made(self, call: Call) -> None:
        reply = await call(METADATA, 9, topics=[{"name": "fresh"}], allow_auto_topic_creation=True)
        assert reply["topics"][0]["error_code"] == 3


@pytest.mark.parametrize("version", [10, 11, 12, 13])
async def test_topics_are_found_by_id(call: Call, services: Services, version: int) -> None:
    await create(call, "a")
    topic_id = services.topics.get("a").topic_id
    asked = [{"topic_id": topic_id, "name": None}, {"topic_id": UUID(int=9), "name": None}]
    known, unknown = (await call(METADATA, version, topics=asked))["topics"]
    assert (known["error_code"], known["name"], known["topic_id"]) == (0, "a", topic_id)
    assert (unknown["error_code"], unknown["topic_id"]) == (100, UUID(int=9))


async def test_operations_are_told_only_to_those_who_ask(call: Call) -> None:
    await create(call, "a")
    reply = await call(METADATA, 10, topics=[{"name": "a"}])
    assert reply["topics"][0]["topic_authorized_operations"] == NOT_ASKED
    assert reply["cluster_authorized_operations"] == NOT_ASKED
    reply = await call(
        METADATA,
        10,
        topics=[{"name": "a"}],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    assert reply["topics"][0]["topic_authorized_operations"] == sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))
    assert reply["cluster_authorized_operations"] == sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))


@pytest.mark.parametrize("version", range(5))
async def test_the_versions_of_every_handler_are_advertised(call: Call, version: int) -> None:
    software = {"client_software_name": "test", "client_software_version": "1.0"} if version >= 3 else {}
    reply = await call(API_VERSIONS, version, **software)
    advertised = {one["api_key"]: (one["min_version"], one["max_version"]) for one in reply["api_keys"]}
    assert reply["error_code"] == 0
    # librdkafka sends uncompressed batches to a broker that does not list Produce 0 (KAFKA-18659).
    assert advertised.pop(0) == (0, 13)
    assert advertised.pop(17) == (0, 1)
    assert advertised == {
        module.API.key: module.API.versions for module in registry.MODULES if module.API.key not in {0, 17}
    }


@pytest.mark.parametrize("name", ["", "-x", "a b", "a\n"])
async def test_a_client_with_a_name_that_spoils_logs_is_refused(call: Call, name: str) -> None:
    reply = await call(API_VERSIONS, 3, client_software_name=name, client_software_version="1")
    assert reply["error_code"] == 42


@pytest.mark.parametrize("version", range(3))
async def test_the_cluster_is_described(call: Call, services: Services, version: int) -> None:
    reply = await call(DESCRIBE_CLUSTER, version, include_cluster_authorized_operations=True)
    assert (reply["error_code"], reply["cluster_id"]) == (0, services.identity.cluster_id)
    (broker,) = reply["brokers"]
    assert (broker["broker_id"], broker["host"], broker["port"]) == (1, "broker.test", 9092)
    assert reply["cluster_authorized_operations"] > 0


async def test_controllers_are_not_described_here(call: Call) -> None:
    assert (await call(DESCRIBE_CLUSTER, 1, endpoint_type=2))["error_code"] == 114


async def test_topics_are_described_page_by_page(call: Call) -> None:
    for name, count in (("a", 2), ("b", 5), ("c", 1)):
        await create(call, name, count)
    cursor, seen, pages = None, [], 0
    while True:
        reply = await call(DESCRIBE_TOPIC_PARTITIONS, 0, topics=[], response_partition_limit=3, cursor=cursor)
        pages += 1
        page = [(t["name"], p["partition_index"]) for t in reply["topics"] for p in t["partitions"]]
        assert 0 < len(page) <= 3
        seen += page
        cursor = reply["next_cursor"]
        if cursor is None:
            break
    assert seen == [("a", 0), ("a", 1), *(("b", at) for at in range(5)), ("c", 0)]
    assert pages == 3


async def test_a_page_says_that_nobody_else_may_lead_in_the_way_that_javas_client_reads(call: Call) -> None:
    await create(call, "a")
    reply = await call(DESCRIBE_TOPIC_PARTITIONS, 0, topics=[{"name": "a"}])
    (partition,) = reply["topics"][0]["partitions"]
    assert (partition["eligible_leader_replicas"], partition["last_known_elr"]) == ([], [])


async def test_a_page_names_what_is_not_there_only_if_it_was_asked_for(call: Call) -> None:
    await create(call, "b")
    reply = await call(DESCRIBE_TOPIC_PARTITIONS, 0, topics=[{"name": "b"}, {"name": "a"}])
    assert [(one["name"], one["error_code"]) for one in reply["topics"]] == [("a", 3), ("b", 0)]
    after = {"topic_name": "gone", "partition_index": 4}
    assert (await call(DESCRIBE_TOPIC_PARTITIONS, 0, topics=[], cursor=after))["topics"] == []

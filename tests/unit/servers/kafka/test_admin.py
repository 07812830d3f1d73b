"""Topics, records, settings, directories and producers: what an administrator asks for."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from goqueue.config import documented_settings
from goqueue.servers.kafka.administration.broker_settings import KAFKA_NAMES
from goqueue.servers.services import Services

from .batches import batch
from .conftest import Call
from .test_fetch import list_offset
from .test_metadata import create
from .test_produce import produce

CREATE, DELETE, DELETE_RECORDS, INIT_PRODUCER_ID, DESCRIBE_CONFIGS, ALTER_CONFIGS = 19, 20, 21, 22, 32, 33
DESCRIBE_LOG_DIRS, CREATE_PARTITIONS, INCREMENTAL, DESCRIBE_PRODUCERS = 35, 37, 44, 61
TOPIC, BROKER, GROUP = 2, 4, 32
SET, UNSET, APPEND, SUBTRACT = 0, 1, 2, 3


async def create_row(call: Call, version: int = 7, *, validate_only: bool = False, **topic: Any) -> dict[str, Any]:
    asked = {"name": "t", "num_partitions": 1, "replication_factor": 1, **topic}
    reply = await call(CREATE, version, topics=[asked], validate_only=validate_only, timeout=1000)
    return reply["topics"][0]


@pytest.mark.parametrize("version", range(2, 8))
async def test_a_topic_is_created_in_every_version(call: Call, services: Services, version: int) -> None:
    row = await create_row(call, version, num_partitions=4, configs=[{"name": "retention.ms", "value": "5000"}])
    assert (row["name"], row["error_code"], row["error_message"]) == ("t", 0, None)
    topic = services.topics.get("t")
    assert topic.partition_count == 4
    if version >= 5:
        assert (row["num_partitions"], row["replication_factor"]) == (4, 1)
        values = {one["name"]: (one["value"], one["config_source"]) for one in row["configs"]}
        assert values["retention.ms"] == ("5000", 1)
        assert values["segment.bytes"][1] == 5
    if version >= 7:
        assert row["topic_id"] == topic.topic_id


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ({"name": "../etc"}, 17),
        ({"name": ""}, 17),
        ({"name": "__own"}, 17),
        ({"num_partitions": 0}, 37),
        ({"num_partitions": 10_001}, 37),
        ({"replication_factor": 3}, 38),
        ({"configs": [{"name": "no.such", "value": "1"}]}, 40),
        ({"configs": [{"name": "retention.ms", "value": "soon"}]}, 40),
        ({"configs": [{"name": "retention.ms", "value": "1"}] * 2}, 42),
        ({"assignments": [{"partition_index": 0, "broker_ids": [1]}]}, 42),
        (
            {
                "num_partitions": -1,
                "replication_factor": -1,
                "assignments": [{"partition_index": 0, "broker_ids": [9]}],
            },
            39,
        ),
    ],
)
async def test_a_topic_that_cannot_be_is_refused_by_number(call: Call, topic: dict[str, Any], code: int) -> None:
    row = await create_row(call, **topic)
    assert row["error_code"] == code
    assert row["error_message"]
    assert (await call(3, 9, topics=None))["topics"] == []


async def test_a_topic_cannot_be_created_twice(call: Call) -> None:
    await create_row(call)
    assert (await create_row(call))["error_code"] == 36
    reply = await call(CREATE, 7, topics=[{"name": "u", "num_partitions": 1, "replication_factor": 1}] * 2)
    assert [(row["name"], row["error_code"]) for row in reply["topics"]] == [("u", 42)]


async def test_only_checking_creates_nothing(call: Call) -> None:
    row = await create_row(call, validate_only=True, num_partitions=-1)
    assert (row["error_code"], row["num_partitions"]) == (0, 3)
    assert (await call(3, 9, topics=None))["topics"] == []


async def test_a_manual_assignment_to_this_node_is_taken(call: Call) -> None:
    assignments = [{"partition_index": at, "broker_ids": [1]} for at in range(2)]
    row = await create_row(call, num_partitions=-1, replication_factor=-1, assignments=assignments)
    assert (row["error_code"], row["num_partitions"]) == (0, 2)


@pytest.mark.parametrize("version", range(1, 7))
async def test_topics_are_deleted_by_name(call: Call, version: int) -> None:
    await create(call, "a")
    names = {"topic_names": ["a", "nope"]} if version < 6 else {"topics": [{"name": "a"}, {"name": "nope"}]}
    reply = await call(DELETE, version, **names)
    assert [(row["name"], row["error_code"]) for row in reply["responses"]] == [("a", 0), ("nope", 3)]
    assert (await call(3, 9, topics=None))["topics"] == []


async def test_topics_are_deleted_by_id(call: Call, services: Services) -> None:
    await create(call, "a")
    topic_id = services.topics.get("a").topic_id
    asked = [
        {"name": None, "topic_id": UUID(int=3)},
        {"name": "a", "topic_id": topic_id},
        {"name": None, "topic_id": topic_id},
    ]
    reply = await call(DELETE, 6, topics=asked)
    assert [row["error_code"] for row in reply["responses"]] == [100, 42, 0]
    assert reply["responses"][2]["name"] == "a"


async def test_an_internal_topic_is_neither_deleted_nor_changed(call: Call, services: Services) -> None:
    await services.topics.ensure_internal("__own", 1, {})
    assert (await call(DELETE, 4, topic_names=["__own"]))["responses"][0]["error_code"] == 17
    reply = await call(CREATE_PARTITIONS, 0, topics=[{"name": "__own", "count": 2}])
    assert reply["results"][0]["error_code"] == 17


async def test_a_topic_that_is_created_again_starts_clean(call: Call) -> None:
    """Nothing of the old topic shows in the new one."""
    for _ in range(2):
        await create_row(call)
        assert (await produce(call, batch(b"a")))["base_offset"] == 0
        await call(DELETE, 4, topic_names=["t"])


@pytest.mark.parametrize("version", range(4))
async def test_partitions_are_added(call: Call, services: Services, version: int) -> None:
    await create(call, "t", 2)
    asked = [{"name": "t", "count": 5}, {"name": "nope", "count": 2}]
    reply = await call(CREATE_PARTITIONS, version, topics=asked)
    assert [row["error_code"] for row in reply["results"]] == [0, 3]
    assert services.topics.get("t").partition_count == 5
    assert (await produce(call, batch(b"a"), partition=4))["error_code"] == 0


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"count": 1}, 37),
        ({"count": 2}, 37),
        ({"count": 3, "assignments": [{"broker_ids": [7]}]}, 39),
        ({"count": 4, "assignments": [{"broker_ids": [1]}]}, 39),
    ],
)
async def test_partitions_that_cannot_be_added_are_refused_by_number(
    call: Call, asked: dict[str, Any], code: int
) -> None:
    await create(call, "t", 2)
    reply = await call(CREATE_PARTITIONS, 3, topics=[{"name": "t", **asked}])
    assert reply["results"][0]["error_code"] == code


@pytest.mark.parametrize("version", range(3))
async def test_records_are_deleted_up_to_an_offset(call: Call, version: int) -> None:
    await create(call, "t")
    for _ in range(4):
        await produce(call, batch(b"a", b"b"))
    partitions = [{"partition_index": 0, "offset": 3}, {"partition_index": 9, "offset": 0}]
    reply = await call(DELETE_RECORDS, version, topics=[{"name": "t", "partitions": partitions}])
    rows = reply["topics"][0]["partitions"]
    assert [(row["low_watermark"], row["error_code"]) for row in rows] == [(3, 0), (-1, 3)]
    assert (await list_offset(call, -2))["offset"] == 3
    everything = [{"name": "t", "partitions": [{"partition_index": 0, "offset": -1}]}]
    reply = await call(DELETE_RECORDS, version, topics=everything)
    assert reply["topics"][0]["partitions"][0]["low_watermark"] == 8
    beyond = [{"name": "t", "partitions": [{"partition_index": 0, "offset": 9}]}]
    reply = await call(DELETE_RECORDS, version, topics=beyond)
    assert reply["topics"][0]["partitions"][0]["error_code"] == 1


@pytest.mark.parametrize("version", range(7))
async def test_no_producer_id_is_given_out_twice(call: Call, version: int) -> None:
    replies = [await call(INIT_PRODUCER_ID, version, transaction_timeout=1000) for _ in range(3)]
    assert {reply["error_code"] for reply in replies} == {0}
    assert len({reply["producer_id"] for reply in replies}) == 3
    assert {reply["producer_epoch"] for reply in replies} == {0}


async def configs_of(call: Call, kind: int, name: str, version: int = 4, **more: Any) -> dict[str, Any]:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": more.pop("keys", None)}
    (result,) = (await call(DESCRIBE_CONFIGS, version, resources=[resource], **more))["results"]
    return {**result, "configs": {one["name"]: one for one in result["configs"]}}


@pytest.mark.parametrize("version", range(1, 5))
async def test_settings_of_a_topic_are_described(call: Call, version: int) -> None:
    await create_row(call, configs=[{"name": "retention.ms", "value": "5000"}])
    result = await configs_of(call, TOPIC, "t", version, include_synonyms=True)
    assert result["error_code"] == 0
    own = result["configs"]["retention.ms"]
    assert (own["value"], own["config_source"], own["read_only"]) == ("5000", 1, False)
    assert [one["source"] for one in own["synonyms"]] == [1, 5]
    if version >= 3:
        assert (own["config_type"], own["documentation"]) == (5, None)


async def test_documentation_synonyms_and_single_keys_come_when_asked_for(call: Call) -> None:
    await create(call, "t")
    keys = ["retention.ms", "no.such"]
    result = await configs_of(call, TOPIC, "t", keys=keys, include_documentation=True)
    assert list(result["configs"]) == ["retention.ms"]
    assert result["configs"]["retention.ms"]["documentation"]
    assert result["configs"]["retention.ms"]["synonyms"] == []


@pytest.mark.parametrize(
    ("kind", "name", "code"), [(TOPIC, "nope", 3), (BROKER, "7", 42), (BROKER, "x", 42), (8, "1", 42), (99, "", 42)]
)
async def test_settings_of_what_is_not_there_are_refused_by_number(call: Call, kind: int, name: str, code: int) -> None:
    result = await configs_of(call, kind, name)
    assert (result["error_code"], result["resource_name"]) == (code, name)
    assert result["error_message"]


@pytest.mark.parametrize("name", ["1", ""])
async def test_settings_of_the_node_are_described_by_kafkas_names(call: Call, name: str) -> None:
    result = await configs_of(call, BROKER, name, include_documentation=True)
    assert len(result["configs"]) == len(documented_settings())
    assert result["configs"]["num.partitions"]["value"] == "3"
    assert result["configs"]["auto.create.topics.enable"]["value"] == "true"
    assert all(one["documentation"] for one in result["configs"].values())
    alterable = {name for name, one in result["configs"].items() if not one["read_only"]}
    assert {"log.retention.ms", "log.retention.bytes", "log.segment.bytes", "message.max.bytes"} <= alterable
    assert not alterable & {"num.partitions", "node.id", "log.dirs", "listeners", "max.connections"}


def test_the_table_of_kafkas_names_names_settings_that_are_there() -> None:
    ours = {f"{section}.{name}" for section, name, *_ in documented_settings()}
    assert KAFKA_NAMES.keys() <= ours
    assert len(set(KAFKA_NAMES.values())) == len(KAFKA_NAMES)


async def test_settings_of_a_group_are_those_its_members_are_told(call: Call) -> None:
    result = await configs_of(call, GROUP, "g")
    assert result["configs"]["consumer.session.timeout.ms"]["value"] == "30000"


async def alter(call: Call, *changes: tuple[str, int, str | None], **more: Any) -> dict[str, Any]:
    configs = [{"name": name, "config_operation": how, "value": value} for name, how, value in changes]
    resource = {"resource_type": TOPIC, "resource_name": "t", "configs": configs, **more.pop("resource", {})}
    (row,) = (await call(INCREMENTAL, more.pop("version", 1), resources=[resource], **more))["responses"]
    return row


@pytest.mark.parametrize("version", [0, 1])
async def test_single_settings_are_set_and_put_back(call: Call, services: Services, version: int) -> None:
    await create_row(call, configs=[{"name": "retention.ms", "value": "5000"}])
    changes = [("segment.bytes", SET, "2048"), ("retention.ms", UNSET, None)]
    assert (await alter(call, *changes, version=version))["error_code"] == 0
    assert dict(services.topics.get("t").config) == {"segment.bytes": "2048"}


async def test_lists_are_appended_to_and_subtracted_from(call: Call, services: Services) -> None:
    await create(call, "t")
    await alter(call, ("cleanup.policy", APPEND, "compact"))
    await alter(call, ("cleanup.policy", APPEND, "delete,compact"))
    assert services.topics.config("t").cleanup_policy == {"delete", "compact"}
    assert len(services.topics.get("t").config["cleanup.policy"].split(",")) == 2
    await alter(call, ("cleanup.policy", SUBTRACT, "delete"))
    assert services.topics.config("t").cleanup_policy == {"compact"}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("retention.ms", SET, "soon"), 40),
        (("no.such", SET, "1"), 40),
        (("no.such", APPEND, "1"), 40),
        (("retention.ms", APPEND, "1"), 40),
        (("retention.ms", SET, None), 42),
        (("retention.ms", 9, "1"), 42),
    ],
)
async def test_a_change_that_cannot_be_is_refused_by_number(
    call: Call, services: Services, change: tuple[str, int, str | None], code: int
) -> None:
    await create(call, "t")
    assert (await alter(call, change))["error_code"] == code
    assert dict(services.topics.get("t").config) == {}


async def test_changes_that_contradict_each_other_are_refused(call: Call, services: Services) -> None:
    await create(call, "t")
    twice = [("retention.ms", SET, "1"), ("retention.ms", SET, "2")]
    assert (await alter(call, *twice))["error_code"] == 42
    resource = {"resource_type": TOPIC, "resource_name": "t", "configs": []}
    reply = await call(INCREMENTAL, 1, resources=[resource, resource])
    assert [row["error_code"] for row in reply["responses"]] == [42, 42]


async def test_only_checking_changes_nothing(call: Call, services: Services) -> None:
    await create(call, "t")
    assert (await alter(call, ("retention.ms", SET, "1"), validate_only=True))["error_code"] == 0
    assert dict(services.topics.get("t").config) == {}


@pytest.mark.parametrize("resource", [{"resource_type": BROKER, "resource_name": "1"}, {"resource_type": 8}])
async def test_only_topics_can_be_changed_on_the_wire(call: Call, resource: dict[str, Any]) -> None:
    row = await alter(call, ("x", SET, "1"), resource=resource)
    assert (row["error_code"], bool(row["error_message"])) == (42, True)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("num.partitions", ["broker.default_partitions", "restart"]),
        ("num.network.threads", ["no setting 'num.network.threads'"]),
    ],
)
async def test_a_change_of_the_node_is_refused_with_the_way_to_make_it(call: Call, name: str, told: list[str]) -> None:
    node = {"resource_type": BROKER, "resource_name": "1"}
    single = await alter(call, (name, SET, "1"), resource=node)
    resources = [{**node, "configs": [{"name": name, "value": "1"}]}]
    (whole,) = (await call(ALTER_CONFIGS, 1, resources=resources))["responses"]

    for row in (single, whole):
        assert row["error_code"] == 42
        assert [one for one in told if one not in row["error_message"]] == []


@pytest.mark.parametrize("name", ["log.retention.ms", "log.retention_ms"])
@pytest.mark.parametrize("broker", ["1", ""])
async def test_a_default_of_topics_is_altered_under_either_name(
    call: Call, services: Services, name: str, broker: str
) -> None:
    await create(call, "t")
    node = {"resource_type": BROKER, "resource_name": broker}
    assert (await alter(call, (name, SET, "77"), resource=node, validate_only=True))["error_code"] == 0
    assert services.topics.config("t").retention_ms != 77
    assert (await alter(call, (name, SET, "77"), resource=node))["error_code"] == 0
    assert services.topics.config("t").retention_ms == 77
    assert (await alter(call, (name, SET, "never"), resource=node))["error_code"] == 40
    assert (await alter(call, (name, UNSET, None), resource=node))["error_code"] == 0
    assert services.topics.config("t").retention_ms != 77


async def test_on_one_node_a_default_is_shown_under_the_name_by_which_it_was_asked_for(call: Call) -> None:
    """Kafka's tools take away only what they are shown as altered there: for broker 1, or as the default of all."""
    await alter(call, ("log.retention.ms", SET, "77"), resource={"resource_type": BROKER, "resource_name": "1"})
    for broker, source in (("1", 2), ("", 3)):
        asked = [{"resource_type": BROKER, "resource_name": broker, "configuration_keys": ["log.retention.ms"]}]
        (result,) = (await call(DESCRIBE_CONFIGS, 4, resources=asked, include_synonyms=True))["results"]
        (shown,) = result["configs"]
        assert (shown["value"], shown["config_source"]) == ("77", source)
        assert [one["source"] for one in shown["synonyms"]] == [source, 5]


@pytest.mark.parametrize("broker", ["1", ""])
async def test_a_throttle_that_was_never_set_can_be_taken_away(call: Call, broker: str) -> None:
    """kafka-reassign-partitions does so on every broker when a reassignment has ended."""
    node = {"resource_type": BROKER, "resource_name": broker}
    throttle = "leader.replication.throttled.rate"
    assert (await alter(call, (throttle, UNSET, None), resource=node))["error_code"] == 0
    assert (await alter(call, (throttle, SET, "1000"), resource=node))["error_code"] == 42


async def test_a_replacement_by_nothing_puts_all_altered_defaults_back(call: Call, services: Services) -> None:
    await create(call, "t")
    node = {"resource_type": BROKER, "resource_name": "1"}
    await alter(call, ("log.retention.ms", SET, "77"), resource=node)
    (row,) = (await call(ALTER_CONFIGS, 1, resources=[{**node, "configs": []}]))["responses"]
    assert row["error_code"] == 0
    assert services.topics.config("t").retention_ms != 77
    assert services.defaults.altered() == {}


@pytest.mark.parametrize("version", range(3))
async def test_the_older_way_replaces_all_settings(call: Call, services: Services, version: int) -> None:
    await create_row(call, configs=[{"name": "retention.ms", "value": "5000"}])
    configs = [{"name": "segment.bytes", "value": "2048"}]
    resources = [{"resource_type": TOPIC, "resource_name": "t", "configs": configs}]
    reply = await call(ALTER_CONFIGS, version, resources=resources)
    assert reply["responses"][0]["error_code"] == 0
    assert dict(services.topics.get("t").config) == {"segment.bytes": "2048"}


@pytest.mark.parametrize("version", range(1, 6))
async def test_the_directory_shows_what_partitions_take(call: Call, version: int) -> None:
    await create(call, "t", 2)
    await create(call, "u")
    await produce(call, batch(b"x" * 1000), partition=1)
    (result,) = (await call(DESCRIBE_LOG_DIRS, version, topics=None))["results"]
    sizes = {t["name"]: [p["partition_size"] for p in t["partitions"]] for t in result["topics"]}
    assert sizes["t"][0] == 0
    assert sizes["t"][1] > 1000
    assert sizes["u"] == [0]
    wanted = [{"topic": "t", "partitions": [1]}]
    (result,) = (await call(DESCRIBE_LOG_DIRS, version, topics=wanted))["results"]
    assert [(t["name"], [p["partition_index"] for p in t["partitions"]]) for t in result["topics"]] == [("t", [1])]
    if version >= 4:
        assert result["total_bytes"] >= result["usable_bytes"] > 0


async def test_the_producers_of_a_partition_are_described(call: Call) -> None:
    await create(call, "t")
    producer_id = (await call(INIT_PRODUCER_ID, 4, transaction_timeout=1))["producer_id"]
    await produce(call, batch(b"a", b"b", producer_id=producer_id, producer_epoch=0, base_sequence=0))
    reply = await call(DESCRIBE_PRODUCERS, 0, topics=[{"name": "t", "partition_indexes": [0, 4]}])
    known, unknown = reply["topics"][0]["partitions"]
    (producer,) = known["active_producers"]
    assert (producer["producer_id"], producer["producer_epoch"], producer["last_sequence"]) == (producer_id, 0, 1)
    assert producer["current_txn_start_offset"] == -1
    assert (unknown["error_code"], bool(unknown["error_message"])) == (3, True)


LIST_CONFIG_RESOURCES = 74


async def test_what_has_settings_is_listed_by_type(call: Call, services: Services) -> None:
    await call(19, 7, topics=[{"name": "listed", "num_partitions": 1, "replication_factor": 1}])
    await services.groups.ensure_queue("workers")
    everything = await call(LIST_CONFIG_RESOURCES, 1, resource_types=[])
    rows = {(one["resource_type"], one["resource_name"]) for one in everything["config_resources"]}
    assert {(2, "listed"), (4, str(services.identity.node_id)), (32, "workers")} <= rows
    groups = await call(LIST_CONFIG_RESOURCES, 1, resource_types=[32])
    assert [one["resource_name"] for one in groups["config_resources"]] == ["workers"]
    assert (await call(LIST_CONFIG_RESOURCES, 1, resource_types=[16]))["config_resources"] == []
    assert (await call(LIST_CONFIG_RESOURCES, 1, resource_types=[2, 99]))["error_code"] == 35


async def test_the_first_version_lists_client_metrics_of_which_there_are_none(call: Call) -> None:
    reply = await call(LIST_CONFIG_RESOURCES, 0)
    assert (reply["error_code"], reply["config_resources"]) == (0, [])

"""Administrators' requests of the Kafka protocol that one node answers about what several lead."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from tests.sim.test_cluster_nodes import NODES, Nodes
from tests.unit.codec.kafka.kio_values import read_response, request_frame

from goqueue.broker.topics import NewTopic
from goqueue.delivery.values import Action, Receive, Settlement
from goqueue.records import TopicPartition
from goqueue.servers.kafka.connections.peer import Peer
from goqueue.servers.kafka.dispatch import Dispatcher, Later
from goqueue.servers.services import Services

DESCRIBE_SHARE_OFFSETS, DELETE_SHARE_OFFSETS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS = 90, 92, 33, 44
BROKER, UNKNOWN_TOPIC = 4, 3


async def ask(services: Services, *, key: int, version: int, **fields: Any) -> dict[str, Any]:
    answered = Dispatcher(services).take(request_frame(key, version, fields), Peer("127.0.0.1"))
    frame = await answered.frame if isinstance(answered, Later) else answered
    assert frame is not None
    return read_response(key, version, b"".join(frame)[4:])


async def acknowledge(services: Services, partition: int) -> list[str]:
    taken = await services.delivery.receive(Receive("g", "c", [TopicPartition("orders", partition)], 1))
    results = await services.delivery.settle([Settlement(one.receipt, Action.ACK) for one in taken])
    return [one.action_taken for one in results]


def test_the_coordinator_of_a_share_group_tells_and_deletes_its_offsets_on_all_nodes() -> None:
    async def story(nodes: Nodes) -> None:
        creating = nodes.running[1].services.topics.create(NewTopic("orders", partitions=3, replication_factor=3))
        await nodes.loop.start(nodes.lives[1], creating)
        for number in range(3):
            for sequence in range(number + 1):
                leader, _ = await nodes.publish(number, b"v", sequence)
            assert await nodes.at_leader(leader, partial(acknowledge, partition=number)) == ["acked"]
        asked = partial(ask, key=DESCRIBE_SHARE_OFFSETS, version=1, groups=[{"group_id": "g", "topics": None}])
        answers = {node: (await nodes.at_leader(node, asked))["groups"][0] for node in NODES}
        (coordinator,) = [node for node, one in answers.items() if one["error_code"] == 0]
        rows = answers[coordinator]["topics"][0]["partitions"]
        shown = [(one["start_offset"], one["lag"], one["error_code"]) for one in rows]
        assert shown == [(1, 0, 0), (1, 1, 0), (1, 2, 0)]
        delete = partial(ask, key=DELETE_SHARE_OFFSETS, version=0, group_id="g", topics=[{"topic_name": "orders"}])
        (deleted,) = (await nodes.at_leader(coordinator, delete))["responses"]
        assert deleted["error_code"] == 0
        assert (await nodes.at_leader(coordinator, asked))["groups"][0]["topics"] == []

    Nodes(seed=4).play(story)


def test_offsets_of_a_share_group_are_deleted_where_the_leader_has_just_died_too() -> None:
    """Its successor is told: the answer would say that they are gone, and the group go on behind them."""

    async def story(nodes: Nodes) -> None:
        creating = nodes.running[1].services.topics.create(NewTopic("orders", partitions=3, replication_factor=3))
        await nodes.loop.start(nodes.lives[1], creating)
        leaders = {}
        for number in range(3):
            leaders[number], _ = await nodes.publish(number, b"v", 0)
            await nodes.at_leader(leaders[number], partial(acknowledge, partition=number))
        asked = partial(ask, key=DESCRIBE_SHARE_OFFSETS, version=1, groups=[{"group_id": "g", "topics": None}])
        answers = {node: (await nodes.at_leader(node, asked))["groups"][0] for node in NODES}
        (coordinator,) = [node for node, one in answers.items() if one["error_code"] == 0]
        nodes.cut_power(next(node for node in leaders.values() if node != coordinator))
        delete = partial(ask, key=DELETE_SHARE_OFFSETS, version=0, group_id="g", topics=[{"topic_name": "orders"}])
        while True:
            (deleted,) = (await nodes.at_leader(coordinator, delete))["responses"]
            if deleted["error_code"] in {0, UNKNOWN_TOPIC}:
                break
            await asyncio.sleep(0.1)
        for number in range(3):
            await nodes.publish(number, b"v", 1)
        assert (await nodes.at_leader(coordinator, asked))["groups"][0]["topics"] == []

    Nodes(seed=4).play(story)


def test_what_all_brokers_have_in_common_is_not_altered_under_the_name_of_one() -> None:
    """Asked for by one broker's name, it would shorten the retention on all of them."""

    async def story(nodes: Nodes) -> None:
        async def altered(key: int, broker: str, *configs: dict[str, Any]) -> int:
            resources = [{"resource_type": BROKER, "resource_name": broker, "configs": list(configs)}]
            asked = partial(ask, key=key, version=1, resources=resources, validate_only=False)
            (row,) = (await nodes.at_leader(2, asked))["responses"]
            return int(row["error_code"])

        services = nodes.running[2].services
        retention = {"name": "log.retention.ms", "value": "77"}
        assert await altered(INCREMENTAL_ALTER_CONFIGS, "", {**retention, "config_operation": 0}) == 0
        assert await altered(INCREMENTAL_ALTER_CONFIGS, "2", {**retention, "config_operation": 0, "value": "9"}) == 42
        assert await altered(ALTER_CONFIGS, "2") == 42, "without a setting: all would be put back"
        throttle = {"name": "follower.replication.throttled.rate", "config_operation": 1, "value": None}
        assert await altered(INCREMENTAL_ALTER_CONFIGS, "2", throttle) == 0, "there is none to take away"
        assert services.defaults.altered() == {"log.retention_ms": "77"}

    Nodes(seed=5).play(story)

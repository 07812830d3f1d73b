"""Schemas on three nodes: one coordinates the registry, all check messages against it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.anywhere.three_nodes import NODES, ThreeNodes, three_nodes

from goqueue.broker.arrivals.record_publishing import Published
from goqueue.errors import CoordinatorUnavailable, InvalidValue
from goqueue.formats.envelope import prefix_of
from goqueue.records import Acks, NewRecord
from goqueue.schemas.following import mirror
from goqueue.schemas.service import SCHEMAS

ORDER = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"], "additionalProperties": False}
GOOD, BAD = '{"id": 1}', '{"id": "x"}'


@pytest.fixture
async def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ThreeNodes]:
    monkeypatch.setattr(mirror, "_CATCH_UP_SECONDS_MAX", 0.5)
    async with three_nodes(tmp_path) as found:
        # Node 1 coordinates the registry.
        await found.topic(SCHEMAS, (1,))
        yield found


async def checked_topic(nodes: ThreeNodes, name: str, **settings: str) -> None:
    """A topic with a partition on each node that asks for valid values."""
    await nodes.topic(name, NODES)
    wanted = {"goqueue.schema.validation": "full", "goqueue.schema.missing": "latest", **settings}
    for node in NODES:
        # Each node of this harness has metadata of its own.
        await nodes.ask(node, "PATCH", f"/topics/{name}", {"config": wanted})


async def register(nodes: ThreeNodes, node: int, subject: str, schema: object) -> int:
    body = {"schemaType": "JSON", "schema": json.dumps(schema)}
    return int((await nodes.ask(node, "POST", f"/subjects/{subject}/versions", body))["id"])


async def send(nodes: ThreeNodes, node: int, value: bytes, topic: str = "orders") -> Published:
    """Write to the partition that the node leads, by its own service."""
    publish_records = nodes.running[node].services.publish.publish_records
    return (await publish_records(topic, [NewRecord(None, value)], acks=Acks.ALL, partition=node - 1))[0]


async def publish(nodes: ThreeNodes, node: int, topic: str, partition: int, value: str, status: int = 200) -> Any:
    return await nodes.ask(
        node, "POST", f"/topics/{topic}/messages", {"value": value, "partition": partition}, status=status
    )


async def test_every_leader_checks_messages_and_every_node_takes_them(nodes: ThreeNodes) -> None:
    await checked_topic(nodes, "orders")
    await register(nodes, 2, "orders-value", ORDER)
    for node in NODES:
        for partition in range(3):
            await publish(nodes, node, "orders", partition, GOOD)
            refused = await publish(nodes, node, "orders", partition, BAD, status=400)
            assert refused["error"]["code"] == "invalid_value"
    found = await nodes.ask(3, "GET", "/topics/orders/messages?limit=100")
    assert [one["value"] for one in found["messages"]] == [GOOD] * 9
    shown = await nodes.ask(2, "GET", "/topics/orders/messages?limit=100&decode=true")
    assert len(shown["messages"]) == 9


async def test_what_was_just_registered_counts_on_every_node_at_once(nodes: ThreeNodes) -> None:
    await checked_topic(nodes, "orders", **{"goqueue.schema.validation": "id", "goqueue.schema.missing": "refuse"})
    for number in range(12):
        registers, writes = NODES[number % 3], NODES[(number + 1) % 3]
        schema = {**ORDER, "title": f"Order {number}", "properties": {"id": {"type": "integer"}}}
        schema_id = await register(nodes, registers, "orders-value", schema)
        value = prefix_of(schema_id) + GOOD.encode()
        # Straight to the leader, which may not have heard of the schema.
        assert (await send(nodes, writes, value)).error is None, number


async def test_without_the_coordinator_known_schemas_go_on_and_others_are_refused_for_now(nodes: ThreeNodes) -> None:
    await checked_topic(nodes, "orders")
    schema_id = await register(nodes, 1, "orders-value", ORDER)
    for partition in range(3):
        await publish(nodes, 1, "orders", partition, GOOD)
    nodes.network.isolate(1)
    assert (await send(nodes, 2, prefix_of(schema_id) + GOOD.encode())).error is None
    with pytest.raises(CoordinatorUnavailable):
        await send(nodes, 2, prefix_of(77) + GOOD.encode())
    nodes.network.heal()
    refused = await send(nodes, 2, prefix_of(77) + BAD.encode())
    assert isinstance(refused.error, InvalidValue)
    found = await nodes.ask(2, "GET", "/topics/orders/partitions/1/messages")
    assert len(found["messages"]) == 2


@pytest.mark.slow
async def test_a_copy_that_is_too_old_is_not_used(nodes: ThreeNodes) -> None:
    await checked_topic(nodes, "orders")
    await nodes.topic("plain", NODES)
    await register(nodes, 1, "orders-value", ORDER)
    await publish(nodes, 1, "orders", 1, GOOD)
    nodes.network.isolate(1)
    copy = nodes.running[2].services.schemas.copy
    assert copy is not None
    copy._asked_ms -= 40_000
    with pytest.raises(CoordinatorUnavailable):
        await send(nodes, 2, GOOD.encode())
    # Topics that ask for nothing do not depend on the registry.
    assert (await send(nodes, 2, BAD.encode(), topic="plain")).error is None
    nodes.network.heal()
    assert (await send(nodes, 2, GOOD.encode())).error is None


async def test_a_switch_of_a_subject_counts_on_every_node(nodes: ThreeNodes) -> None:
    await nodes.topic("plain", NODES)
    await register(nodes, 1, "plain-value", ORDER)
    for partition in range(3):
        await publish(nodes, 1, "plain", partition, BAD)
    await nodes.ask(2, "PUT", "/config/plain-value", {"compatibility": "NONE", "validationEnabled": True})
    async with asyncio.timeout(5):
        for node in NODES:
            while (await send(nodes, node, BAD.encode(), topic="plain")).error is None:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    await nodes.ask(2, "PUT", "/config/plain-value", {"validationEnabled": False})
    for node in NODES:
        # Before a message is refused the coordinator is asked.
        assert (await send(nodes, node, BAD.encode(), topic="plain")).error is None


async def test_an_empty_registry_is_not_asked_without_end(nodes: ThreeNodes) -> None:
    copy = nodes.running[2].services.schemas.copy
    assert copy is not None
    questions: list[object] = []
    ask = copy._ask

    async def counted(position: mirror.Position | None, wait_ms: int) -> mirror.Changes:
        questions.append(position)
        return await ask(position, wait_ms)

    copy._ask = counted
    await asyncio.sleep(0.5)
    assert len(questions) <= 2, "each is held for a second"
    assert copy.state is not None


async def quarantining_topic(nodes: ThreeNodes) -> None:
    """Each partition of the topic and its partition of copies have different leaders."""
    await checked_topic(nodes, "orders", **{"goqueue.schema.invalid": "quarantine"})
    await nodes.topic("orders.invalid", (2, 3, 1))
    for node in NODES:
        await nodes.ask(node, "PATCH", "/topics/orders.invalid", {"config": {"goqueue.dedup.window.ms": "86400000"}})
    await register(nodes, 1, "orders-value", ORDER)


async def values(nodes: ThreeNodes, topic: str) -> list[str]:
    found = await nodes.ask(3, "GET", f"/topics/{topic}/messages?limit=100&isolation=read_committed")
    return [one["value"] for one in found["messages"]]


async def test_copies_go_to_quarantine_on_another_node_and_once(nodes: ThreeNodes) -> None:
    await quarantining_topic(nodes)
    producer = await nodes.ask(1, "POST", "/producers/init")
    for partition in range(3):
        request = {
            "messages": [{"value": GOOD}, {"value": BAD}], "partition": partition,
            "producer_id": producer["producer_id"], "producer_epoch": producer["epoch"], "sequence": 0,
        }  # fmt: skip
        for node in (1, 2):
            await nodes.ask(node, "POST", "/topics/orders/messages", request)
    assert await values(nodes, "orders") == [GOOD] * 3
    assert await values(nodes, "orders.invalid") == [BAD] * 3


@pytest.mark.parametrize("end", ["commit", "abort"])
async def test_a_transaction_ends_its_copies_on_other_nodes_too(nodes: ThreeNodes, end: str) -> None:
    await quarantining_topic(nodes)
    for name in ("one", "two", "three"):
        # The three ids have different coordinators.
        owner = await nodes.ask(1, "POST", "/producers/init", {"transactional_id": name})
        own = {"transactional_id": name, "producer_id": owner["producer_id"], "epoch": owner["epoch"]}
        own["transaction_id"] = (await nodes.ask(2, "POST", "/transactions/begin", own))["transaction_id"]
        for partition in range(3):
            for sequence, value in enumerate((GOOD, BAD)):
                sent = {**own, "topic": "orders", "partition": partition, "sequence": sequence, "value": value}
                await nodes.ask(NODES[partition], "POST", "/transactions/publish", sent)
        await nodes.ask(3, "POST", f"/transactions/{end}", own)
    count = 9 if end == "commit" else 0
    async with asyncio.timeout(10):
        while [len(await values(nodes, one)) for one in ("orders", "orders.invalid")] != [count, count]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    # A transaction that left something open would hold back what is written behind it.
    for partition in range(3):
        await publish(nodes, 1, "orders", partition, BAD)
    assert len(await values(nodes, "orders.invalid")) == count + 3

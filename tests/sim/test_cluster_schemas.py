"""Schemas on three simulated nodes: what is registered counts everywhere at once, and nothing is stored unchecked."""

from __future__ import annotations

import asyncio

import pytest
from tests.sim.test_cluster_nodes import NODES, Nodes, eventually
from tests.unit.schemas.driver import schema

from goqueue.broker.arrivals.arrival import NeedsCheck
from goqueue.broker.topics import NewTopic
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import encode_batch
from goqueue.errors import GoQueueError, InvalidValue, NotLeader, wire_of
from goqueue.formats.envelope import prefix_of
from goqueue.records import Acks, NewRecord
from goqueue.schemas.commands import Register
from goqueue.schemas.service import SCHEMAS
from goqueue.schemas.values import Registered
from goqueue.servers.services import Services
from goqueue.testing.clock import seeded_rng

SUBJECT = "orders-value"
UNKNOWN = prefix_of(4711) + b"x"


async def register(nodes: Nodes, text: str) -> int:
    """Register through whichever node coordinates the registry; returns the id."""

    async def work(services: Services) -> object:
        basis = await services.schemas.ask(lambda state: state.basis(SUBJECT))
        command = Register(SUBJECT, schema(text), basis)
        return await services.schemas._coordinator.submit_to(0, command)

    for _ in range(400):
        for node, running in list(nodes.running.items()):
            try:
                reply = await nodes.loop.start(nodes.lives[node], work(running.services))
            except GoQueueError as refusal:
                if not wire_of(refusal).retriable:
                    raise
            else:
                if isinstance(reply, Registered):
                    return reply.schema_id
        await asyncio.sleep(0.05)
    raise AssertionError(f"nobody registers {text!r}")


async def publish(nodes: Nodes, partition: int, value: bytes) -> bool:
    """Write a value at the leader; whether it was stored, or is not allowed. Whatever may pass is tried again."""

    async def work(services: Services) -> GoQueueError | None:
        results = await services.publish.publish_records(
            "orders", [NewRecord(None, value)], acks=Acks.ALL, partition=partition
        )
        return results[0].error

    for _ in range(400):
        for node, running in list(nodes.running.items()):
            try:
                refusal = await nodes.loop.start(nodes.lives[node], work(running.services))
            except GoQueueError as error:
                refusal = error
            if refusal is None:
                return True
            if isinstance(refusal, InvalidValue):
                return False
            assert wire_of(refusal).retriable or isinstance(refusal, NotLeader), refusal
        await asyncio.sleep(0.05)
    raise AssertionError(f"nobody answers for partition {partition}")


def registry_leader(nodes: Nodes) -> int:
    services = next(iter(nodes.running.values())).services
    return services.topics.assignments(services.topics.get(SCHEMAS))[0].leader


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 40))])
def test_a_new_schema_is_used_on_every_leader_at_once_also_when_the_registry_has_lost_its_node(seed: int) -> None:
    async def story(nodes: Nodes) -> None:
        config = {"goqueue.schema.validation": "id"}
        creating = nodes.running[1].services.topics.create(
            NewTopic("orders", partitions=3, replication_factor=3, config=config)
        )
        await nodes.loop.start(nodes.lives[1], creating)
        written: dict[int, list[bytes]] = {0: [], 1: [], 2: []}

        async def turn(number: int) -> None:
            value = prefix_of(await register(nodes, f"schema {number}")) + b"%d" % number
            for partition in range(3):
                assert not await publish(nodes, partition, UNKNOWN)
                assert await publish(nodes, partition, value), f"turn {number}, partition {partition}"
                written[partition].append(value)

        for number in range(3):
            await turn(number)
        gone = registry_leader(nodes)
        nodes.cut_power(gone)
        for number in range(3, 6):
            await turn(number)
        await nodes.start(gone)
        for number in range(6, 8):
            await turn(number)
        await eventually(
            lambda: all(
                set(nodes.values(node, partition)) == set(written[partition])
                for node in NODES
                for partition in range(3)
            ),
            "every replica has what was acknowledged, and nothing else",
        )

    Nodes(seed).play(story)


async def send(nodes: Nodes, partition: int, batch: bytes) -> None:
    """A batch of an idempotent producer, sent until it is acknowledged, as Kafka's clients do."""

    async def work(services: Services) -> None:
        await services.publish.open("orders", partition)
        try:
            pending = services.publish.append("orders", partition, batch, acks=Acks.ALL)
        except NeedsCheck:
            pending = await services.publish.take("orders", partition, batch, acks=Acks.ALL)
        if pending.durable is not None:
            await pending.durable

    for _ in range(400):
        for node, running in list(nodes.running.items()):
            answer = asyncio.ensure_future(nodes.loop.start(nodes.lives[node], work(running.services)))
            # A node without power does not answer.
            await asyncio.wait([answer], timeout=10)
            if not answer.done():
                continue
            refusal = answer.exception()
            if refusal is None:
                return
            if not isinstance(refusal, GoQueueError) or not wire_of(refusal).retriable:
                raise refusal
        await asyncio.sleep(0.05)
    raise AssertionError(f"nobody takes a batch for partition {partition}")


def stored(nodes: Nodes, node: int, topic: str, partition: int) -> list[bytes]:
    log = nodes.running[node].services.queries._partitions.replica(topic, partition).log
    read = log.read_batches(log.start_offset, max_bytes=1 << 24, upper=log.high_watermark)
    return [record.value or b"" for batch in read.batches for record in decode_records(batch)]


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 40))])
def test_what_goes_to_quarantine_is_there_once_whichever_node_dies(seed: int) -> None:
    async def story(nodes: Nodes) -> None:
        config = {"goqueue.schema.validation": "id", "goqueue.schema.invalid": "quarantine"}
        creating = nodes.running[1].services.topics.create(
            NewTopic("orders", partitions=3, replication_factor=3, config=config)
        )
        await nodes.loop.start(nodes.lives[1], creating)
        known = prefix_of(await register(nodes, "schema"))
        good: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
        bad: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
        rng = seeded_rng(seed, "deaths")
        deaths = {rng.randrange(2, 12): "orders.invalid", rng.randrange(2, 12): "orders"}
        for number in range(12):
            for partition in range(3):
                good[partition].append(known + b"%d" % number)
                bad[partition].append(UNKNOWN + b"%d" % number)
                batch = encode_batch(
                    [NewRecord(None, good[partition][-1]), NewRecord(None, bad[partition][-1])],
                    producer_id=900 + partition,
                    producer_epoch=0,
                    base_sequence=2 * number,
                    now_ms=nodes.clock.now_ms(),
                )
                sending = asyncio.ensure_future(send(nodes, partition, batch))
                if number in deaths and partition == 1:
                    # While the batch is on its way.
                    await asyncio.sleep(rng.random() * 0.01)
                    services = next(iter(nodes.running.values())).services
                    gone = services.topics.assignments(services.topics.get(deaths.pop(number)))[1].leader
                    if gone in nodes.running:
                        nodes.cut_power(gone)
                        await sending
                        await nodes.start(gone)
                await sending
        await eventually(
            lambda: all(
                stored(nodes, node, topic, partition) == wanted[partition]
                for node in NODES
                for topic, wanted in (("orders", good), ("orders.invalid", bad))
                for partition in range(3)
            ),
            "every record lies once where it belongs",
        )

    Nodes(seed).play(story)

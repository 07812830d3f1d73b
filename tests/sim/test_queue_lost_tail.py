"""Messages that were settled for good and lost all the same: those that get their offsets are not taken for them."""

from __future__ import annotations

import asyncio

from goqueue.broker.topics import NewTopic
from goqueue.codec.batch_encode import encode_batch
from goqueue.config import Config
from goqueue.delivery.values import Action, Receive, Settlement
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.disk import Survival
from goqueue.testing.sim_node import SimNode

AT = TopicPartition("jobs", 0)


async def send(services: Services, acks: Acks, *values: bytes) -> None:
    batch = encode_batch([NewRecord(None, value) for value in values], now_ms=services.clock.now_ms())
    pending = services.publish.append(*AT, batch, acks=acks)
    if pending.durable is not None:
        await pending.durable


async def take(services: Services) -> list[bytes | None]:
    found = await services.delivery.receive(Receive("g", "c", [AT], 10))
    # Durable: but that says nothing about the topic's own log.
    await services.delivery.settle([Settlement(one.receipt, Action.ACK) for one in found], durable=True)
    return [one.value for one in found]


def test_new_messages_at_the_offsets_of_lost_ones_reach_the_group_also_two_crashes_later() -> None:
    node = SimNode(1, Config())

    async def first(services: Services) -> None:
        await services.topics.create(NewTopic("jobs", partitions=1))
        await send(services, Acks.ALL, b"kept")
        assert await take(services) == [b"kept"]
        await send(services, Acks.LEADER, b"lost-1", b"lost-2")
        assert await take(services) == [b"lost-1", b"lost-2"]
        node.files.faults.crash_at_step = node.files.faults.steps + 1
        await send(services, Acks.LEADER, b"never")
        await asyncio.sleep(5)

    async def second(services: Services) -> None:
        assert services.queries.offsets(*AT).end_offset == 1
        # Nobody has asked for the queue yet when these get the offsets.
        await send(services, Acks.ALL, b"new-1", b"new-2", b"new-3")
        node.files.faults.crash_at_step = node.files.faults.steps + 1
        await send(services, Acks.LEADER, b"never")
        await asyncio.sleep(5)

    async def third(services: Services) -> None:
        await send(services, Acks.ALL, b"newer")
        assert (await services.delivery.positions.committed("g", [AT])) == {AT: 1}
        assert await take(services) == [b"new-1", b"new-2", b"new-3", b"newer"]

    async def fourth(services: Services) -> None:
        assert await take(services) == []

    assert not node.live(first, survival=Survival.NOTHING)
    assert not node.live(second, survival=Survival.NOTHING)
    assert node.live(third)
    assert node.live(fourth)

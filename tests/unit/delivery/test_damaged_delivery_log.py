"""A queue over several partitions: a delivery log that is damaged stops its own partition and no other."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.broker.topics import NewTopic
from goqueue.config import Config
from goqueue.delivery.values import Action, Receive, Settlement
from goqueue.errors import CoordinatorUnavailable
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.sim_node import SimNode

PLACES = [TopicPartition("t", partition) for partition in range(3)]
DAMAGED_LOG = "logs/t/1.delivery/00000000000000000000.log"


async def publish(services: Services, *places: TopicPartition, what: bytes = b"first") -> None:
    for place in places:
        # Of two lanes: what each partition gives is planned over all of them.
        records = [NewRecord(None, what, (("goqueue-priority", lane),)) for lane in (b"low", b"critical")]
        await services.publish.publish_records("t", records, acks=Acks.ALL, partition=place.partition)


async def receive(services: Services, *, wait_ms: int = 0) -> list[tuple[int, int]]:
    found = await services.delivery.receive(Receive("g", "c", PLACES, 100, wait_ms=wait_ms))
    await services.delivery.settle([Settlement(one.receipt, Action.ACK) for one in found], durable=True)
    return sorted((one.partition, one.offset) for one in found)


def damaged_node() -> SimNode:
    """It was killed when each partition had a queue, and comes back with one delivery log damaged."""
    node = SimNode(1, Config())

    async def use(services: Services) -> None:
        await services.topics.create(NewTopic("t", len(PLACES)))
        await publish(services, *PLACES)
        assert len(await receive(services)) == 6
        await publish(services, *PLACES)

    assert node.live(use, is_killed=True)
    node.files.flip_bit(DAMAGED_LOG, 100)
    return node


def test_the_other_partitions_are_delivered_and_nobody_is_told_that_there_is_nothing_more() -> None:
    async def story(services: Services) -> None:
        assert await receive(services) == [(0, 2), (0, 3), (2, 2), (2, 3)]
        with pytest.raises(CoordinatorUnavailable):
            await receive(services)
        with pytest.raises(CoordinatorUnavailable):
            await services.delivery.receive(Receive("g", "c", PLACES[1:2], 1))
        waiting = asyncio.ensure_future(receive(services, wait_ms=20_000))
        await asyncio.sleep(5)
        assert not waiting.done()
        await publish(services, PLACES[2])
        assert await waiting

    assert damaged_node().live(story)


def test_the_partition_is_served_again_once_its_log_is_mended() -> None:
    node = damaged_node()

    async def story(services: Services) -> None:
        assert len(await receive(services)) == 4
        waiting = asyncio.ensure_future(receive(services, wait_ms=20_000))
        await asyncio.sleep(3)
        node.files.flip_bit(DAMAGED_LOG, 100)
        assert await waiting == [(1, 2), (1, 3)]

    assert node.live(story)


def test_figures_are_those_of_the_partitions_that_can_be_read() -> None:
    async def story(services: Services) -> None:
        await services.delivery.receive(Receive("g", "c", PLACES, 100))
        assert (await services.delivery.stats()).in_flight == 4
        assert await services.delivery.priority_stats()
        assert await services.delivery.priority_stats("t")
        # What must know all of them says that it does not.
        with pytest.raises(CoordinatorUnavailable):
            await services.delivery.positions.committed("g", None)

    assert damaged_node().live(story)

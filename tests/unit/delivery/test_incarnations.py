"""Incarnations: a group that is deleted and made again has nothing of the earlier one, whoever was told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.unit.delivery.driver import QUEUE, Driver

from goqueue.broker.topics import NewTopic
from goqueue.config import Config
from goqueue.delivery.state.commands import OpenQueue
from goqueue.delivery.values import Action, Receive, Settlement
from goqueue.errors import CoordinatorUnavailable, ReceiptExpired
from goqueue.groups.service import NewOffset
from goqueue.node.assemble import assemble
from goqueue.node.node import Node
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.clock import ManualClock, seeded_rng
from goqueue.testing.memory_files import MemoryFiles
from goqueue.testing.sim_loop import InlineOffload

PLACE = TopicPartition("work", 0)


def new_node(files: MemoryFiles) -> Node:
    return assemble(Config(), files=files, clock=ManualClock(), rng=seeded_rng(1), offload=InlineOffload())


@pytest.fixture
async def services() -> AsyncIterator[Services]:
    node = new_node(MemoryFiles())
    running = (await node.start()).services
    await publish(running)
    yield running
    await node.stop()


async def publish(services: Services) -> None:
    await services.topics.create(NewTopic("work", partitions=1))
    records = [NewRecord(None, b"%d" % number) for number in range(3)]
    await services.publish.publish_records("work", records, acks=Acks.ALL, partition=0)


async def receive(services: Services, group: str = "g") -> list[Any]:
    return await services.delivery.receive(Receive(group, "c", [PLACE], 10))


async def delete_unnoticed(services: Services, group: str) -> None:
    """Delete the group while the leaders of its partitions cannot be told."""

    async def unreachable(_group: str) -> None:
        raise CoordinatorUnavailable("nobody answers")

    groups: Any = services.groups
    forget, groups._positions.forget = groups._positions.forget, unreachable
    await services.groups.delete(group)
    groups._positions.forget = forget


async def test_a_group_that_is_made_again_begins_anew_although_nobody_was_told_of_its_deletion(
    services: Services,
) -> None:
    first = await receive(services)
    assert len(first) == 3
    await services.delivery.settle([Settlement(first[0].receipt, Action.ACK)])
    await delete_unnoticed(services, "g")
    again = await receive(services)
    assert [one.offset for one in again] == [0, 1, 2], "also what the earlier group had leased and settled"
    (late,) = await services.delivery.settle([Settlement(first[1].receipt, Action.ACK)])
    assert isinstance(late.error, ReceiptExpired), "a receipt of the earlier group settles nothing of this one"
    results = await services.delivery.settle([Settlement(one.receipt, Action.ACK) for one in again])
    assert [one.error for one in results] == [None] * 3


async def test_where_a_group_that_is_made_again_is_to_begin_is_not_forgotten_with_what_the_earlier_one_left(
    services: Services,
) -> None:
    first = await receive(services)
    await services.delivery.settle([Settlement(one.receipt, Action.ACK) for one in first])
    await delete_unnoticed(services, "g")
    await services.groups.ensure_queue("g")
    assert await services.groups.commit("g", [NewOffset("work", 0, 2)]) == (None,)
    assert [one.offset for one in await receive(services)] == [2]


async def test_the_incarnation_of_a_group_survives_a_restart() -> None:
    files = MemoryFiles()
    earlier = new_node(files)
    services = (await earlier.start()).services
    await publish(services)
    (first, *_) = await receive(services)
    await services.delivery.settle([Settlement(first.receipt, Action.ACK)])
    incarnation = (await services.groups.queue_settings("g")).incarnation
    assert incarnation > 0
    await earlier.stop()
    node = new_node(files)
    later = (await node.start()).services
    await later.delivery.positions.committed("g", [PLACE])
    (queue,) = [queue for _, queue in later.delivery.queues()]
    assert queue.incarnation == incarnation
    assert (await later.delivery.positions.committed("g", [PLACE])) == {PLACE: 1}
    assert await receive(later) == [], "the others are leased, and nothing is given out anew"
    await node.stop()


async def test_other_groups_of_the_partition_are_left_alone(services: Services) -> None:
    (kept, *_) = await receive(services, "kept")
    await receive(services)
    await delete_unnoticed(services, "g")
    await receive(services)
    (result,) = await services.delivery.settle([Settlement(kept.receipt, Action.ACK)])
    assert result.error is None


def test_a_queue_of_an_earlier_version_is_taken_over_by_its_group() -> None:
    driver = Driver()
    driver.publish(2)
    driver.receive(1)
    assert driver.run(OpenQueue(QUEUE, 0, incarnation=7)) is None
    queue = driver.machine.queue(QUEUE)
    assert queue is not None
    assert (queue.incarnation, len(queue.outstanding)) == (7, 1)
    assert driver.run(OpenQueue(QUEUE, 0, incarnation=8)) is True
    assert driver.machine.queue(QUEUE) is None

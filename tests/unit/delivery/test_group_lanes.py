"""Priority over several partitions: the lanes of all of them are scheduled together."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from goqueue.broker.topics import NewTopic
from goqueue.delivery.lanes.group_lanes import GroupLanes
from goqueue.delivery.policy import DeliveryPolicy
from goqueue.delivery.values import Action, Delivery, Receive, Settlement
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.sim_node import SimNode

READERS = ("g", frozenset({UUID(int=1)}))
PLACES = [TopicPartition("t", number) for number in range(3)]


def message(value: bytes, priority: str) -> NewRecord:
    return NewRecord(None, value, (("goqueue-priority", priority.encode()),))


async def publish(services: Services, partition: int, *records: NewRecord) -> None:
    await services.publish.publish_records("t", list(records), acks=Acks.LEADER, partition=partition)


async def receive(services: Services, limit: int, group: str = "g") -> list[Delivery]:
    found = await services.delivery.receive(Receive(group, "c", PLACES, limit))
    await services.delivery.settle([Settlement(one.receipt, Action.ACK) for one in found])
    return found


def test_one_lane_needs_no_plan() -> None:
    policies = [DeliveryPolicy()] * 2
    assert GroupLanes().plan(READERS, [[0, 0, 5, 0, 0], [0, 0, 9, 0, 0]], 10, 0, policies) is None


def test_partitions_share_a_lane_and_give_what_another_lacks() -> None:
    policies = [DeliveryPolicy(strict_priority=True)] * 3
    plan = GroupLanes().plan(READERS, [[1, 0, 9, 0, 0], [9, 0, 9, 0, 0], [0, 0, 9, 0, 0]], 10, 0, policies)
    assert plan is not None
    assert plan.picks == [(0, 10)]
    assert [quotas[0] for quotas in plan.quotas] == [1, 9, 0]


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("at", range(3))
def test_a_critical_message_of_any_partition_comes_before_background_ones(strict: bool, at: int) -> None:
    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("t", 3, config={"goqueue.strict.priority": str(strict).lower()}))
        for partition in range(3):
            await publish(services, partition, message(b"low", "background"))
        await publish(services, at, message(b"high", "critical"))
        found = [one.value for _ in range(4) for one in await receive(services, 1)]
        assert found == [b"high", b"low", b"low", b"low"]

    assert SimNode(at).live(story)


def test_every_topic_has_its_own_rounds() -> None:
    """A round of one topic that went past its critical lane must not make the next topic begin with background."""
    lanes, policies = GroupLanes(), [DeliveryPolicy()] * 2
    for number in range(10):
        plan = lanes.plan(("g", frozenset({UUID(int=number)})), [[1, 0, 0, 0, 0], [0, 0, 0, 0, 1]], 1, 0, policies)
        assert plan is not None
        assert plan.picks == [(0, 1)]


def test_strict_priority_holds_within_one_answer_and_over_many() -> None:
    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("t", 3, config={"goqueue.strict.priority": "true"}))
        for number in range(90):
            await publish(services, number % 3, message(b"low", "background"))
        for _ in range(9):
            await publish(services, 2, message(b"high", "critical"))
        found = await receive(services, 10)
        assert [one.value for one in found] == [b"high"] * 9 + [b"low"]
        single = [one.value for _ in range(12) for one in await receive(services, 1, "other")]
        assert single == [b"high"] * 9 + [b"low"] * 3

    assert SimNode(4).live(story)


@pytest.mark.parametrize("other", [0, 1])
def test_weights_hold_for_single_messages_of_one_partition_or_of_two(other: int) -> None:
    """Critical weighs 50, background 3: of a hundred messages 94 are critical, though each receive sees one."""

    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("t", 3))
        await publish(services, 0, *[message(b"high", "critical")] * 200)
        await publish(services, other, *[message(b"low", "background")] * 200)
        found = [one.value for _ in range(100) for one in await receive(services, 1)]
        assert 92 <= found.count(b"high") <= 96

    assert SimNode(5).live(story)


def test_everything_is_given_out_once_under_receives_at_the_same_time() -> None:
    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("t", 3))
        for number in range(120):
            priority = ("critical", "normal", "background")[number % 3]
            await publish(services, (number // 3) % 3, message(b"%d" % number, priority))
        taken: list[bytes] = []

        async def worker() -> None:
            while found := await receive(services, 7):
                taken.extend(one.value or b"" for one in found)

        await asyncio.gather(*(worker() for _ in range(4)))
        assert sorted(map(int, taken)) == list(range(120))

    assert SimNode(6).live(story)


@pytest.mark.parametrize("at", range(3))
def test_consumers_that_read_for_themselves_are_told_how_many_of_each_lane(at: int) -> None:
    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("t", 3, config={"goqueue.strict.priority": "true"}))
        for partition in range(3):
            await publish(services, partition, message(b"low", "background"))
        await publish(services, at, message(b"high", "critical"))
        quotas = await services.delivery.lane_quotas("g", PLACES, "c", 1)
        assert quotas is not None
        assert {place.partition: quota for place, quota in quotas.items() if any(quota)} == {at: (1, 0, 0, 0, 0)}
        (run,) = await services.delivery.acquire("g", PLACES[at], "c", limit=1, quotas=quotas[PLACES[at]])
        assert (run.first, run.last) == (1, 1)

    assert SimNode(7).live(story)

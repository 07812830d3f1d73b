"""Figures that operators read: what was given out, and what is still to be read."""

from __future__ import annotations

import pytest

from goqueue.broker.topics import NewTopic
from goqueue.config import Config, DeliveryConfig
from goqueue.delivery.values import Action, Delivery, Receive, Settlement
from goqueue.groups.service import NewOffset
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.sim_node import SimNode

PLACES = [TopicPartition("t", 0)]


async def publish(services: Services, count: int, partition: int = 0, priority: str = "normal") -> None:
    header = (("goqueue-priority", priority.encode()),)
    records = [NewRecord(None, b"x", header) for _ in range(count)]
    await services.publish.publish_records("t", records, acks=Acks.ALL, partition=partition)


async def receive(services: Services, limit: int) -> list[Delivery]:
    return await services.delivery.receive(Receive("g", "c", PLACES, limit))


async def lag(services: Services, group: str = "g") -> dict[int, int]:
    return {row.partition: row.lag for row in await services.group_progress.of(group)}


async def consumed(services: Services) -> float:
    assert services.metrics is not None
    lines = (await services.metrics()).decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if "messages_consumed_total{" in line)


@pytest.mark.parametrize("ends", ["in order", "killed"])
def test_a_restart_begins_all_counts_of_deliveries_anew(ends: str) -> None:
    async def before(services: Services) -> None:
        await services.topics.create(NewTopic("t", 1))
        await publish(services, 10)
        found = await receive(services, 6)
        await services.delivery.settle([Settlement(one.receipt, Action.ACK) for one in found[:4]], durable=True)
        stats = await services.delivery.stats()
        assert (stats.delivered_total, stats.acked_total, stats.expired_total) == (6, 4, 0)

    async def after(services: Services) -> None:
        await receive(services, 1)
        stats = await services.delivery.stats()
        lanes = await services.delivery.priority_stats()
        # Two were out when the node stopped. They expired meanwhile; one of them is given out again.
        assert (stats.delivered_total, stats.acked_total, stats.expired_total) == (1, 0, 0)
        assert (stats.redelivered_total, sum(lanes.delivered_by_priority)) == (1, 1)

    node = SimNode(1, Config(delivery=DeliveryConfig(visibility_ms=1_000)))
    assert node.live(before, is_killed=ends == "killed")
    node.clock.advance(seconds=60)
    assert node.live(after)


def test_messages_consumed_are_those_that_were_given() -> None:
    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("t", 1))
        await publish(services, 1000)
        for expected in (1, 2):
            await services.reads.read({PLACES[0]: 0}, limit=1, max_bytes=2**20)
            assert await consumed(services) == expected
        await services.groups.commit("s", [NewOffset("t", 0, 5)])
        assert await lag(services, "s") == {0: 995}
        assert await consumed(services) == 2, "asking for the lag reads a message for nobody"

    assert SimNode(2).live(story)


def test_lag_counts_partitions_without_a_commit() -> None:
    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("t", 3))
        for partition, count in enumerate((10, 254, 3)):
            await publish(services, count, partition)
        await services.groups.commit("s", [NewOffset("t", 0, 10)])
        assert await lag(services, "s") == {0: 0, 1: 254, 2: 3}

    assert SimNode(3).live(story)


def test_the_lag_of_a_queue_leaves_out_what_is_settled_above_the_lowest() -> None:
    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("t", 1))
        await publish(services, 10)
        found = await receive(services, 8)
        settlements = [Settlement(one.receipt, Action.ACK) for one in found if one.offset != 0]
        await services.delivery.settle(settlements, durable=True)
        assert await lag(services) == {0: 3}, "one that is out and two that nobody has seen"

    assert SimNode(4).live(story)


def test_the_lag_of_a_queue_counts_lanes_that_lag_behind_others() -> None:
    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("t", 1, config={"goqueue.strict.priority": "true"}))
        await publish(services, 5, priority="background")
        await publish(services, 5, priority="critical")
        found = await receive(services, 5)
        await services.delivery.settle([Settlement(one.receipt, Action.ACK) for one in found], durable=True)
        assert {one.priority for one in found} == {0}
        assert await lag(services) == {0: 5}

    assert SimNode(5).live(story)


def test_a_changed_policy_holds_for_messages_that_are_out() -> None:
    """It was called effective at once and held from the next delivery on: a rejected message became a dead letter."""

    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("t", 1))
        await publish(services, 1)
        (one,) = await receive(services, 1)
        await services.groups.alter_queue("g", {"dead_letters": False})
        await services.delivery.govern("g")
        assert not (await services.delivery.policy("g", "t")).dead_letters
        (settled,) = await services.delivery.settle([Settlement(one.receipt, Action.REJECT)], durable=True)
        assert (settled.action_taken, settled.dead_letter_topic) == ("rejected", None)
        assert (await services.delivery.stats()).dying == 0

    assert SimNode(6).live(story)


async def series(services: Services, name: str) -> dict[str, float]:
    """The rows of the topic by lane, those that are not 0."""
    assert services.metrics is not None
    rows: dict[str, float] = {}
    for line in (await services.metrics()).decode().splitlines():
        if line.startswith(f"goqueue_broker_priority_{name}{{"):
            labels, _, value = line.rpartition(" ")
            if 'topic="t"' in labels and float(value):
                rows[labels.partition('priority="')[2].partition('"')[0]] = float(value)
    return rows


def test_lanes_are_counted_with_rates_on_the_way_in_and_out() -> None:
    node = SimNode(7)

    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("t", 2))
        await publish(services, 6, priority="high")
        await publish(services, 3, partition=1, priority="high")
        mixed = [NewRecord(None, b"x", (("goqueue-priority", lane),)) for lane in (b"low", b"high", b"low")]
        await services.publish.publish_records("t", mixed, acks=Acks.ALL, partition=0)
        taken = await receive(services, 4)
        await services.delivery.settle([Settlement(one.receipt, Action.ACK) for one in taken[:1]], durable=True)

        (queue,) = (await services.delivery.priority_stats()).queues
        high, low = queue.lanes[1], queue.lanes[3]
        assert (high.enqueued_total, low.enqueued_total) == (7, 2), "of this partition alone"
        assert (high.delivered_total, high.in_flight, high.ready) == (4, 3, 3)
        assert 7 / 60 <= high.enqueued_per_second <= 7 / 50
        assert 4 / 60 <= high.delivered_per_second <= 4 / 50
        assert high.last_served_ms is not None
        assert (low.delivered_per_second, low.last_served_ms) == (0, None)

        assert await series(services, "messages_published_total") == {"high": 10, "low": 2}
        assert await series(services, "messages_delivered_total") == {"high": 4}
        assert await series(services, "messages_in_flight") == {"high": 3}
        assert await series(services, "messages_ready") == {"high": 3, "low": 2}
        assert set(await series(services, "last_served_timestamp_seconds")) == {"high"}

        node.clock.advance(seconds=120)
        (queue,) = (await services.delivery.priority_stats()).queues
        assert (queue.lanes[1].enqueued_per_second, queue.lanes[1].delivered_per_second) == (0, 0)
        assert (queue.lanes[1].enqueued_total, queue.lanes[1].delivered_total) == (7, 4)

    assert node.live(story)

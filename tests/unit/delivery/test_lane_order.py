"""The order of a stateless read by priority: exact sequences for known lanes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from goqueue.broker.topics import NewTopic
from goqueue.delivery.lanes.lane_order import LaneOrder, ReadTurns
from goqueue.delivery.lanes.lane_reads import LaneRead
from goqueue.delivery.policy import LANE_WEIGHTS
from goqueue.errors import OffsetOutOfRange
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.sim_node import SimNode

AT = TopicPartition("t", 0)
NAMES = ("critical", "high", "normal", "low", "background")


def sequence(order: LaneOrder, available: Sequence[int], limit: int) -> str:
    picks = ReadTurns(order, LANE_WEIGHTS).pick(available, limit)
    return "".join(NAMES[lane][0] * count for lane, count in picks)


def test_a_strict_read_ends_each_lane_before_the_next() -> None:
    assert sequence(LaneOrder.PRIORITY, [2, 1, 3, 0, 2], 100) == "cchnnnbb"
    assert sequence(LaneOrder.PRIORITY, [2, 1, 3, 0, 2], 4) == "cchn"


def test_a_fair_read_goes_round_by_weight_and_begins_with_critical() -> None:
    # Three lanes of weights 50, 15 and 3: a message costs 6, so a visit gives eight, two and every other time one.
    assert sequence(LaneOrder.FAIR, [100, 0, 100, 0, 100], 24) == "ccccccccnnccccccccnnnbcc"
    assert sequence(LaneOrder.FAIR, [100, 0, 100, 0, 100], 3) == "ccc"


def test_every_read_begins_a_fresh_round() -> None:
    assert sequence(LaneOrder.FAIR, [100, 100, 0, 0, 0], 1) == sequence(LaneOrder.FAIR, [100, 100, 0, 0, 0], 1) == "c"


def test_a_strict_read_leaves_lanes_behind_an_unfinished_look_for_later() -> None:
    turns = ReadTurns(LaneOrder.PRIORITY, LANE_WEIGHTS)
    assert turns.pick([2, 0, 5, 0, 0], 10, unsure_from=1) == [(0, 2)]


async def publish(services: Services, *lanes: str) -> None:
    """One batch with these lanes, each message named after its lane."""
    records = [NewRecord(None, lane.encode(), (("goqueue-priority", lane.encode()),)) for lane in lanes]
    await services.publish.publish_records("t", records, acks=Acks.ALL, partition=0)


async def read(services: Services, offsets: Sequence[int], order: LaneOrder, limit: int = 100, **rest: int) -> LaneRead:
    max_bytes = rest.get("max_bytes", 2**20)
    return await services.lane_reads.read(AT, offsets, order=order, limit=limit, max_bytes=max_bytes)


def offsets_of(found: LaneRead) -> list[int]:
    return [record.offset for record in found.records]


def test_lanes_of_mixed_and_plain_batches_are_read_in_order_and_in_pages() -> None:
    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("t", 1))
        await publish(services, "low", "critical", "normal", "critical")
        await publish(services, "normal", "normal")
        await publish(services, "critical")
        whole = await read(services, [0] * 5, LaneOrder.PRIORITY)
        assert offsets_of(whole) == [1, 3, 6, 2, 4, 5, 0]
        assert whole.next_offsets == [7] * 5
        for order in LaneOrder:
            at, seen = [0] * 5, []
            while (page := await read(services, at, order, limit=2)).next_offsets != at:
                seen += offsets_of(page)
                at = page.next_offsets
            assert sorted(seen) == list(range(7))
            if order is LaneOrder.PRIORITY:
                assert seen == offsets_of(whole)

    assert SimNode(11).live(story)


def test_a_page_ends_with_its_bytes_and_the_next_one_goes_on_behind_it() -> None:
    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("t", 1))
        await publish(services, "normal", "critical", "normal", "critical")
        first = await read(services, [0] * 5, LaneOrder.PRIORITY, max_bytes=9)
        assert (offsets_of(first), first.next_offsets) == ([1, 3], [4, 4, 0, 4, 4])
        second = await read(services, first.next_offsets, LaneOrder.PRIORITY, max_bytes=1)
        assert (offsets_of(second), second.next_offsets) == ([0], [4, 4, 2, 4, 4])

    assert SimNode(12).live(story)


def test_an_offset_outside_the_log_is_refused_and_an_empty_partition_is_not() -> None:
    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("t", 1))
        empty = await read(services, [0] * 5, LaneOrder.FAIR)
        assert (empty.records, empty.next_offsets) == ([], [0] * 5)
        with pytest.raises(OffsetOutOfRange):
            await read(services, [0, 0, 1, 0, 0], LaneOrder.FAIR)
        await publish(services, "high", "low")
        await services.queries.delete_records("t", 0, 2)
        emptied = await read(services, [2] * 5, LaneOrder.PRIORITY)
        assert (emptied.records, emptied.next_offsets) == ([], [2] * 5)

    assert SimNode(14).live(story)


def test_a_long_read_gives_its_turn_away() -> None:
    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("t", 1))
        for _ in range(50):
            await publish(services, "high")
            await publish(services, "low")
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.ensure_future(other())
        found = await read(services, [0] * 5, LaneOrder.PRIORITY)
        task.cancel()
        assert offsets_of(found) == [*range(0, 100, 2), *range(1, 100, 2)]
        assert turns > 50

    assert SimNode(15).live(story)

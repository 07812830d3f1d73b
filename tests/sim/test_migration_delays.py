"""Migration of `__delayed`: a directory that the code of then wrote, with the power cut at every step."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from tests.fixtures.former_layout.reading import load
from tests.sim.test_migration import ended, until_no_participants

from goqueue.codec.batch_encode import encode_batch
from goqueue.config import Config
from goqueue.delay.values import SlotId
from goqueue.errors import DelayedMessageNotFound, NotLeader
from goqueue.records import Acks, Isolation, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.clock import ManualClock
from goqueue.testing.sim_node import SimNode
from goqueue.transactions.commands import Claim, Producer
from goqueue.transactions.records import TransactionState

ORDERS = [TopicPartition("orders", number) for number in range(3)]


class World:
    """A node that starts on a directory of the former layout."""

    def __init__(self, seed: int = 1) -> None:
        self.node = SimNode(seed, Config())
        self.expected = load("delays", self.node.files)
        self.node.clock = self.later()

    def later(self) -> ManualClock:
        """A moment after the directory was written: its transactions have not timed out."""
        clock = ManualClock()
        clock.advance(seconds=10)
        return clock

    async def nothing(self, services: Services) -> None:
        """Only start."""

    async def check_all(self, services: Services) -> None:
        """Everything is there, and delivered once."""
        expected = self.expected
        assert services.topics.find("__delayed") is None
        for partition, offset in expected["former_slots"]:
            with pytest.raises(DelayedMessageNotFound):
                await services.delay.get("orders", SlotId(partition, offset))
        await self.check_transactions(services)
        # Behind open transactions nothing was seen until now.
        await asyncio.sleep(2)
        assert Counter(await values(services)) == Counter(["delivered", "fired", "fired and appended", "now"])
        await self.check_repeats(services)
        waiting = {*expected["pending"], "by header", "of the open one", "of the committed one", "of the prepared one"}
        listed = await services.delay.list("orders", limit=1000)
        assert len(listed) == len(waiting) + 1, "and the next run of the recurring message"
        found = [(await services.delay.get("orders", one.id)).slot.value or b"" for one in listed]
        assert Counter(one.decode() for one in found) == Counter([*waiting, "beat"])
        (beat,) = await services.schedules.list()
        runs = [one.id for one, value in zip(listed, found, strict=True) if value == b"beat"]
        assert (beat.name, [beat.next_slot]) == ("beat", runs)
        await asyncio.sleep(expected["hour_ms"] / 1000 + 60)
        came = Counter(await values(services))
        assert came == Counter(["delivered", "fired", "fired and appended", "now", *waiting])
        # A day later the recurring message has run.
        await asyncio.sleep(24 * 3600)
        assert Counter(await values(services))["beat"] == 1

    async def check_transactions(self, services: Services) -> None:
        transactions = services.transactions
        await ended(services, "committed", TransactionState.COMPLETE_COMMIT)
        still_open = await transactions.describe("open")
        assert (still_open.state, still_open.partitions) == (TransactionState.ONGOING, (ORDERS[1],))
        of_open = self.expected["open"]
        producer = Producer(of_open["producer_id"], of_open["epoch"])
        await transactions.end("open", producer, commit=True, number=of_open["number"])
        await ended(services, "open", TransactionState.COMPLETE_COMMIT)
        await transactions.decide_epoch("writer", 1, commit=True, claims=[Claim("task")])
        await until_no_participants(services)

    async def check_repeats(self, services: Services) -> None:
        """A batch with delayed records, and a message with a deduplication id, are recognised when sent again."""
        later = (("goqueue-delay-ms", b"%d" % self.expected["hour_ms"]),)
        batch = encode_batch(
            [NewRecord(None, b"now"), NewRecord(None, b"by header", later)],
            producer_id=self.expected["repeat"]["producer_id"],
            producer_epoch=0,
            base_sequence=0,
            now_ms=services.clock.now_ms(),
        )
        while True:
            try:
                pending = services.publish.append("orders", 0, batch, acks=Acks.ALL)
            except NotLeader:
                await asyncio.sleep(0.01)
                continue
            break
        if pending.durable is not None:
            await pending.durable
        assert pending.appended.duplicate
        (again,) = await services.publish.publish_records(
            "sums", [NewRecord(b"k", b"once", (("goqueue-dedup-id", b"id-1"),))], acks=Acks.ALL
        )
        first = self.expected["deduplicated"]
        assert (again.duplicate, again.partition, again.offset) == (True, first["partition"], first["offset"])


async def values(services: Services) -> list[str]:
    """What readers of committed messages see."""
    read = await services.reads.read(
        dict.fromkeys(ORDERS, 0), limit=1000, max_bytes=2**20, isolation=Isolation.READ_COMMITTED
    )
    return [(record.value or b"").decode() for one in read.values() for record in one.records]


def test_everything_of_a_former_directory_is_there_and_delivered_once() -> None:
    world = World()
    assert world.node.live(world.check_all)


def test_a_directory_is_migrated_once() -> None:
    world = World()
    assert world.node.live(world.nothing)
    assert not world.node.files.exists("logs/__delayed")
    assert world.node.live(world.check_all)


def test_a_power_cut_in_the_migration_loses_and_doubles_nothing() -> None:
    steps = steps_of_a_migration()
    assert steps > 50
    for step in range(3, steps, steps // 4):
        cut_at(step)


# Each part takes every so-manieth step, so that a part ends in time and all of them together leave no step out.
PARTS = 8


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_a_power_cut_at_any_step_of_the_migration_loses_and_doubles_nothing(part: int) -> None:
    for step in range(1 + part, steps_of_a_migration(), PARTS):
        cut_at(step)


def steps_of_a_migration() -> int:
    """How many steps of the disk a first start has."""
    world = World()
    faults = world.node.files.faults
    before = faults.steps
    assert world.node.live(world.nothing, is_killed=True)
    return faults.steps - before


def cut_at(step: int) -> None:
    """Cut the power at this step of the first start; everything must be there after the second."""
    world = World(seed=step)
    world.node.live(world.nothing, crash_at_step=step)
    world.node.clock = world.later()
    assert world.node.live(world.check_all), f"after a cut at step {step}"

"""Migration: directories of the layout before, written by the code of then, with the power cut at every step."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

import pytest
from tests.fixtures.former_layout.reading import load
from tests.sim.test_transaction_crashes import committed_values as committed

from goqueue.config import Config, DeliveryConfig
from goqueue.delivery.values import Action, Receive, Settlement
from goqueue.errors import ReceiptExpired
from goqueue.metadata.features import DELAY_VERSION, SCHEDULE_HOMES_LEVEL
from goqueue.metadata.local import LocalMetadata
from goqueue.records import TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.clock import ManualClock
from goqueue.testing.sim_loop import InlineOffload
from goqueue.testing.sim_node import SimNode
from goqueue.transactions.commands import Claim, Producer
from goqueue.transactions.records import TransactionState

WORK = [TopicPartition("work", 0), TopicPartition("work", 1)]


class World:
    """A node that starts on a directory of the former layout."""

    def __init__(self, seed: int = 1) -> None:
        delivery = DeliveryConfig(visibility_ms=60_000, retries_max=3)
        self.node = SimNode(seed, Config(delivery=delivery))
        self.expected = load("queues", self.node.files)

    async def nothing(self, services: Services) -> None:
        """Only start."""

    async def check_all(self, services: Services) -> None:
        """Everything is there, each once."""
        expected = self.expected
        assert services.topics.find("__delivery_state") is None
        # Receipts of before: good ones settle what they name, spent ones are told apart.
        (spent,) = await services.delivery.settle([Settlement(expected["acked_receipts"][0], Action.ACK)])
        assert isinstance(spent.error, ReceiptExpired)
        receipts = list(expected["leased"])
        results = await services.delivery.settle([Settlement(one, Action.ACK) for one in receipts])
        assert [one.error for one in results] == [None] * len(receipts)
        # Decided transactions are carried out, the open one goes on.
        await ended(services, "committed", TransactionState.COMPLETE_COMMIT)
        await ended(services, "aborted", TransactionState.COMPLETE_ABORT)
        still_open = await services.transactions.describe("open")
        assert still_open.state is TransactionState.ONGOING
        assert still_open.partitions == (TopicPartition("out", 0), TopicPartition("work", 0))
        of_open = expected["open"]
        producer = Producer(of_open["producer_id"], of_open["epoch"])
        await services.transactions.end("open", producer, commit=True, number=of_open["number"])
        await ended(services, "open", TransactionState.COMPLETE_COMMIT)
        await services.transactions.decide_epoch("staged", 1, commit=True, claims=[Claim("task")])
        await until_no_participants(services)
        shown = await committed(services, TopicPartition("out", 0)) + await committed(
            services, TopicPartition("out", 1)
        )
        assert sorted(shown) == [
            b"of the committed one",
            b"of the decided one",
            b"of the open one",
            b"of the prepared one",
        ]
        await self.check_deliveries(services)

    async def check_deliveries(self, services: Services) -> None:
        """Whatever was not settled comes, once; nothing that was settled does."""
        expected = self.expected
        # The retry that waited is due, and so is what the aborted transaction left leased.
        await asyncio.sleep(61)
        got = Counter(await drain(services, "g"))
        settled = {*expected["acked"], *expected["leased"].values(), *expected["dead"]}
        settled |= {*expected["committed"]["promised"], *expected["open"]["promised"]}
        everything = {f"{place.partition}/{number}" for place in WORK for number in range(20)}
        assert got == Counter(everything - settled)
        assert Counter(await drain(services, "h")) == Counter(everything - set(expected["acked_by_h"]))
        letters = await committed(services, TopicPartition("work.dlq", 1))
        assert sorted(letters) == sorted(one.encode() for one in expected["dead"])


async def ended(services: Services, name: str, state: TransactionState) -> None:
    async with asyncio.timeout(20):
        while (await services.transactions.describe(name)).state is not state:  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.01)


async def until_no_participants(services: Services) -> None:
    async with asyncio.timeout(20):
        while any(one.participants for one in await services.transactions.list_writers()):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)


async def drain(services: Services, group: str) -> list[str]:
    """Receive and settle until nothing comes."""
    got: list[str] = []
    while found := await services.delivery.receive(Receive(group, "d", WORK, 50)):
        got += [(one.value or b"").decode() for one in found]
        results = await services.delivery.settle([Settlement(one.receipt, Action.ACK) for one in found])
        assert all(one.error is None for one in results)
    return got


def test_everything_of_a_former_directory_is_there_each_once() -> None:
    world = World()
    assert world.node.live(world.check_all)


def test_a_directory_is_migrated_once() -> None:
    world = World()
    assert world.node.live(world.nothing)
    before = world.node.files.read("layout.json")
    assert world.node.live(world.check_all)
    assert world.node.files.read("layout.json") == before
    assert not world.node.files.exists("logs/__delivery_state")


@pytest.mark.parametrize("is_former", [True, False])
def test_a_version_that_does_not_know_the_new_logs_starts_no_more(is_former: bool) -> None:
    """0.1.0 would not see what waits in them, and would write to topics that the next start takes over."""
    world = World()
    node = world.node if is_former else SimNode(1, Config())
    assert node.live(world.nothing)
    metadata = LocalMetadata.open(node.files, clock=ManualClock(), rng=Random(1), offload=InlineOffload())
    assert metadata.image.feature_levels()[DELAY_VERSION] == SCHEDULE_HOMES_LEVEL


def test_a_power_cut_in_the_migration_loses_and_doubles_nothing() -> None:
    steps = steps_of_a_migration()
    assert steps > 50
    for step in range(3, steps, 12):
        cut_at(step)


@pytest.mark.slow
def test_a_power_cut_at_any_step_of_the_migration_loses_and_doubles_nothing() -> None:
    for step in range(1, steps_of_a_migration()):
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
    # A life that is cut short may leave tasks that wait for hours of virtual time, and leases would run out.
    world.node.clock = ManualClock()
    assert world.node.live(world.check_all), f"after a cut at step {step}"

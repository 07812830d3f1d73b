"""Groups become streams and queues, are altered and deleted, and the power is cut at every step of it.

Whatever a caller was told holds in every later life; and no group ever begins while delivery
still remembers one of the same name.
"""

from __future__ import annotations

from random import Random

import pytest
from tests.sim.stories import each_seed
from tests.unit.groups.fake_delivery import FakeDelivery

from goqueue.broker.topics import NewTopic
from goqueue.config import BrokerConfig, Config, DurabilityConfig, GroupsConfig, LogConfig
from goqueue.errors import GroupModeMismatch, GroupNotFound
from goqueue.groups.queue.settings import Mode, Sharing
from goqueue.groups.service import NewOffset
from goqueue.records import TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.clock import seeded_rng
from goqueue.testing.sim_node import SimNode

CONFIG = Config(
    broker=BrokerConfig(default_partitions=1),
    log=LogConfig(segment_bytes=1024, index_interval_bytes=128, retention_ms=-1, retention_check_ms=100),
    durability=DurabilityConfig(flush_interval_ms=40, checkpoint_interval_ms=150),
    groups=GroupsConfig(offsets_partitions=1),
)
GROUPS = ("a", "b", "c")
AT = TopicPartition("t", 0)
_UNKNOWN = object()


class World:
    """What callers were told about each group, over all lives. Unknown: they were never answered."""

    def __init__(self, seed: int) -> None:
        self.node = SimNode(seed, CONFIG)
        self.delivery = FakeDelivery()
        self.modes: dict[str, object] = dict.fromkeys(GROUPS)
        self.visibility: dict[str, object] = {}

    async def work(self, services: Services) -> None:
        await self.begin(services)
        rng = seeded_rng(self.node.seed, self.node.lives, "work")
        for turn in range(24):
            await self.turn(services, rng.choice(GROUPS), rng, turn)

    async def begin(self, services: Services) -> None:
        services.groups._positions = services.groups._releases._delivery = self.delivery
        if services.topics.find("t") is None:
            await services.topics.create(NewTopic("t"))

    async def turn(self, services: Services, group: str, rng: Random, turn: int) -> None:
        before, self.modes[group] = self.modes[group], _UNKNOWN
        deed = rng.choice(["queue", "queue", "stream", "alter", "delete"])
        mode: object = before
        if deed == "queue":
            mode = await self.use(services, group, rng)
        elif deed == "stream":
            mode = await self.commit(services, group)
        elif deed == "alter" and before is Mode.QUEUE:
            self.visibility[group] = _UNKNOWN
            await services.groups.alter_queue(group, {"visibility_ms": turn})
            self.visibility[group] = turn
        elif deed == "delete":
            self.visibility.pop(group, None)
            try:
                await services.groups.delete(group)
            except GroupNotFound:
                assert before in (None, _UNKNOWN)
            assert group not in self.delivery.offsets, "delivery remembers a group that is gone"
            mode = None
        assert before in (mode, _UNKNOWN, None) or mode is None, f"{group} was {before} and is {mode}"
        self.modes[group] = mode

    async def use(self, services: Services, group: str, rng: Random) -> Mode:
        is_new = await services.groups.mode(group) is None
        try:
            await services.groups.ensure_queue(group, sharing=rng.choice([None, Sharing.SHARED]))
        except GroupModeMismatch as refusal:
            return Mode(refusal.mode)
        assert not is_new or group not in self.delivery.offsets, "a new group inherits an old one's deliveries"
        self.delivery.deliver(group, AT, 1)
        return Mode.QUEUE

    async def commit(self, services: Services, group: str) -> Mode:
        if await services.groups.mode(group) is Mode.QUEUE:
            return Mode.QUEUE
        assert await services.groups.commit(group, [NewOffset("t", 0, 0)]) == (None,)
        return Mode.STREAM

    async def check(self, services: Services) -> None:
        await self.begin(services)
        for group, told in self.modes.items():
            found = await services.groups.mode(group)
            assert told in (_UNKNOWN, found), f"{group} was told to be {told} and is {found}"
            self.modes[group] = found
            wanted = self.visibility.get(group, _UNKNOWN)
            if found is Mode.QUEUE and wanted is not _UNKNOWN:
                assert (await services.groups.queue_settings(group)).policy == {"visibility_ms": wanted}


@pytest.mark.parametrize("seed", range(3))
def test_what_a_group_is_survives_a_power_cut_at_every_step(seed: int) -> None:
    step = 1
    while True:
        world = World(seed)
        ended = world.node.live(world.work, crash_at_step=step)
        assert world.node.live(world.check)
        assert world.node.live(world.work)
        assert world.node.live(world.check)
        if ended:
            break
        step += 1
    assert step > 50


@pytest.mark.parametrize("seed", each_seed(20))
def test_life_after_life_ends_in_a_power_cut(seed: int) -> None:
    world = World(seed)
    rng = seeded_rng(seed, "crashes")
    for _ in range(6):
        world.node.live(world.work, crash_at_step=1 + rng.getrandbits(7))
        assert world.node.live(world.check)

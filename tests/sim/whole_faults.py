"""What goes wrong in a whole simulated cluster, and when it is repaired, all by one seed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random

from tests.sim.whole_clients import LATE
from tests.sim.whole_cluster import NODES, WholeCluster

from goqueue.errors import GoQueueError
from goqueue.records import TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.disk import Survival
from goqueue.testing.kv_model import KvFaults
from goqueue.testing.memory_files import MemoryFiles

Fault = Callable[[], Awaitable[None]]
_LOSSY = KvFaults(lost_call=0.01, lost_reply=0.02, late=0.01, watch_broken=0.01, delay_s_max=0.01)


@dataclass(frozen=True)
class Profile:
    """Which faults a run prefers, how long to wait between two, and what the store does."""

    weights: Mapping[str, int]
    pause_s_max: float
    kv_faults: KvFaults = _LOSSY
    # Whether all that was acknowledged by a quorum of the disks survives: not so when acks need not be synced.
    has_clock_steps: bool = False


CRASHES = Profile({"kill": 3, "power_cut": 5, "stop": 1, "elected": 3, "slow_disk": 1, "cut_off": 1}, 2.5)
NETWORK = Profile(
    {"freeze": 3, "cut_off": 3, "one_way": 3, "slow_link": 2, "broken_connection": 4, "elected": 2, "power_cut": 1}, 2.0
)
DISKS = Profile(
    {"slow_disk": 3, "full_disk": 2, "failed_sync": 2, "rot": 2, "lost_disk": 2, "old_disk": 2, "power_cut": 2}, 2.5
)
CLOCKS = Profile({"clock_step": 4, "kill": 2, "power_cut": 2, "elected": 2, "freeze": 1}, 2.0, has_clock_steps=True)
BLACKOUTS = Profile({"blackout": 3, "elected": 3, "kill": 1, "slow_disk": 1}, 3.0)
# No machine loses what was not synced.
POWERED = Profile(
    {
        "freeze": 5,
        "cut_off": 4,
        "one_way": 3,
        "kill": 3,
        "stop": 1,
        "elected": 3,
        "slow_link": 1,
        "broken_connection": 1,
    },
    5.0,
)
PROFILES = (CRASHES, NETWORK, DISKS, CLOCKS, BLACKOUTS)


class Faults:
    """The faults of one run."""

    def __init__(self, cluster: WholeCluster, rng: Random, profile: Profile, *, copies_added: bool) -> None:
        self._cluster = cluster
        self._rng = rng
        self._profile = profile
        self._busy: set[int] = set()
        # One disk after the other is harmed: whoever is to repair it must have everything.
        self._harming = asyncio.Lock()
        self._copies_added = copies_added
        self.counts: Counter[str] = Counter()

    async def run(self, seconds: float) -> None:
        """Let things go wrong for so long, then wait until all is repaired."""
        weights = self._profile.weights
        end = self._cluster.loop.time() + seconds
        tasks: set[asyncio.Task[None]] = set()
        if self._copies_added:
            tasks.add(asyncio.create_task(self.copies()))
        while self._cluster.loop.time() < end:
            await asyncio.sleep(self._rng.random() * self._profile.pause_s_max)
            name = self._rng.choices(list(weights), list(weights.values()))[0]
            self.counts[name] += 1
            fault: Fault = getattr(self, name)
            tasks.add(asyncio.ensure_future(fault()))
        await asyncio.gather(*tasks)
        self._cluster.heal()
        for slot in self._cluster.slots.values():
            slot.clock.ahead_ms = 0

    # --- nodes ----------------------------------------------------------------------------

    async def kill(self) -> None:
        if node := self._take():
            self._cluster.kill(node)
            await self._restart(node, 3)

    async def power_cut(self) -> None:
        if node := self._take():
            self._cluster.cut_power(node, self._rng.choice(list(Survival)))
            await self._restart(node, self._rng.choice((0.5, 9)))

    async def stop(self) -> None:
        if node := self._take():
            await self._cluster.stop(node)
            await self._restart(node, 2)

    async def blackout(self) -> None:
        """All machines are gone at once, with what was not synced."""
        if self._busy:
            return
        self._busy.update(NODES)
        await self._wait(0, 0.5)
        for node in NODES:
            self._cluster.cut_power(node, Survival.NOTHING)
        await asyncio.gather(*(self._restart(node, 1) for node in NODES))

    async def freeze(self) -> None:
        if node := self._take():
            life = self._cluster.slots[node].life
            if life is not None:
                life.is_frozen = True
                await self._wait(0, 12)
                self._cluster.loop.thaw(life)
            self._busy.discard(node)

    async def clock_step(self) -> None:
        """The wall clock of a node is set wrong, and put right later."""
        slot = self._cluster.slots[self._rng.choice(NODES)]
        slot.clock.ahead_ms = self._rng.choice((-1, 1)) * self._rng.randrange(100, 5_000)
        await self._wait(0.5, 5)
        slot.clock.ahead_ms = 0

    # --- disks ----------------------------------------------------------------------------

    async def slow_disk(self) -> None:
        slot = self._cluster.slots[self._rng.choice(NODES)]
        slot.slowness = self._rng.choice((10, 60))
        if slot.offload is not None:
            slot.offload.slowness = slot.slowness
        await self._wait(0.5, 5)
        slot.slowness = 1.0
        if slot.offload is not None:
            slot.offload.slowness = 1.0

    async def full_disk(self) -> None:
        if node := self._take():
            self._cluster.slots[node].files.faults.capacity_bytes = 1
            await self._wait(0.5, 5)
            self._cluster.slots[node].files.faults.capacity_bytes = None
            await self._wait(0, 3)
            self._cluster.kill(node)
            await self._restart(node, 1)

    async def failed_sync(self) -> None:
        if node := self._take():
            self._cluster.slots[node].files.faults.fail("sync", "*.log")
            await self._wait(1, 5)
            self._cluster.slots[node].files.faults.clear()
            self._cluster.kill(node)
            await self._restart(node, 1)

    async def rot(self) -> None:
        """A bit flips in a file of a log, while the node is down. It is repaired by itself."""
        async with self._harmed() as node:
            if not node:
                return
            self._cluster.kill(node)
            files = self._cluster.slots[node].files
            found = [path for path in sorted(files.tree()) if path.startswith("logs/") and files.size(path)]
            if found:
                path = self._rng.choice(found)
                files.flip_bit(path, self._rng.randrange(files.size(path)), self._rng.randrange(8))
            await self._restart(node, 1)
            await self._wait(15, 20)

    async def lost_disk(self) -> None:
        """The machine is gone with its disk, and another takes its place."""
        async with self._harmed() as node:
            if node:
                self._cluster.cut_power(node, Survival.NOTHING)
                self._cluster.slots[node].files = MemoryFiles(seed=self._rng.getrandbits(64))
                await self._restart(node, 3)

    async def old_disk(self) -> None:
        """A copy of the directory from before a restart is put back."""
        async with self._harmed() as node:
            if not node:
                return
            cluster, slot = self._cluster, self._cluster.slots[node]
            cluster.kill(node)
            copy = _copied(slot.files)
            await self._restart(node, 1)
            await self._wait(2, 8)
            if cluster.can_be_emptied(node):
                cluster.cut_power(node, Survival.NOTHING)
                slot.files = copy
                await self._restart(node, 2)

    @asynccontextmanager
    async def _harmed(self) -> AsyncIterator[int]:
        """A node whose disk may be harmed, until others count on it again; 0 if there is none now.

        Nothing else goes wrong with a node meanwhile: a topic with `min.insync.replicas` 1 may have one other copy.
        """
        if self._harming.locked() or self._busy:
            yield 0
            return
        async with self._harming:
            node = self._take()
            if node and not self._cluster.can_be_emptied(node):
                self._busy.discard(node)
                node = 0
            if node:
                self._busy.update(NODES)
            yield node
            if node:
                for _ in range(600):
                    if self._cluster.is_in_sync(node):
                        break
                    await asyncio.sleep(0.1)
                self._busy.clear()

    # --- links and leaders ------------------------------------------------------------------

    async def cut_off(self) -> None:
        if node := self._take():
            self._cluster.cut_off(node, from_store=self._rng.random() < 0.7)
            await self._wait(0, 10)
            self._cluster.heal()
            self._busy.discard(node)

    async def one_way(self) -> None:
        one, other = self._rng.sample(NODES, 2)
        self._cluster.network.block(one, other)
        await self._wait(0.2, 6)
        self._cluster.heal()

    async def slow_link(self) -> None:
        one, other = self._rng.sample(NODES, 2)
        self._cluster.network.slow(one, other, 100)
        await self._wait(0.2, 4)
        self._cluster.heal()

    async def broken_connection(self) -> None:
        self._cluster.network.break_one()

    async def elected(self) -> None:
        """Leaders return to their first replica, one after the other, without waiting for calm."""
        found = [
            TopicPartition(topic.name, number)
            for topic, number, one in self._cluster.assignments()
            if one.leader != one.replicas[0]
        ]
        for place in self._rng.sample(found, min(len(found), 3)):
            try:
                await self._cluster.call(
                    self._rng.choice(NODES), lambda services, place=place: services.replicas.elect(place)
                )
            except GoQueueError:
                continue

    async def copies(self) -> None:
        """A topic with one copy gets three."""
        await self._wait(1, 6)
        for number in range(2):
            place = TopicPartition(LATE, number)

            async def reassign(services: Services, place: TopicPartition = place) -> None:
                await services.replicas.reassign(place, NODES)

            await self._cluster.somewhere(reassign)

    # --- parts of them --------------------------------------------------------------------

    def _take(self) -> int:
        free = [node for node in NODES if node not in self._busy]
        if not free:
            return 0
        node = self._rng.choice(free)
        self._busy.add(node)
        return node

    async def _wait(self, low_s: float, high_s: float) -> None:
        await asyncio.sleep(low_s + self._rng.random() * (high_s - low_s))

    async def _restart(self, node: int, wait_s_max: float) -> None:
        """Start a node again. It is free for the next fault afterwards, unless its disk was harmed."""
        await self._wait(0, wait_s_max)
        await self._cluster.start(node)
        if not self._harming.locked():
            self._busy.discard(node)


def _copied(files: MemoryFiles) -> MemoryFiles:
    """The same files on another disk, all of them synced."""
    copy = MemoryFiles(seed=1)
    for path, data in files.tree().items():
        folder = path.rpartition("/")[0]
        if folder:
            copy.make_dirs(folder)
        file = copy.open(path, create=True)
        file.append([data])
        file.sync()
        file.close()
    copy.sync_all()
    return copy

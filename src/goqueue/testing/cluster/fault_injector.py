"""FaultInjector: lets nodes, links and disks of a simulated cluster fail and repairs them, all by one seed.

Each fault runs for a while on one node or link and cleans up after itself; several may overlap. A node that lost its
session goes on as a zombie for a moment, and is then started again, as its supervisor would.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random

from goqueue.records import TopicPartition
from goqueue.testing.cluster import moments
from goqueue.testing.cluster.cluster import TOPIC, SimCluster
from goqueue.testing.cluster.fault_profiles import Profile
from goqueue.testing.disk import Survival

# How long a node that does not renew its session keeps it.
SESSION_S = 6.0
# How many milliseconds a timed fault waits for its moment.
_MOMENTS_MAX = 1500

Fault = Callable[[], Awaitable[None]]


class FaultInjector:
    """The faults of one run. Each method that is named after a fault is one, from beginning to end."""

    def __init__(self, cluster: SimCluster, rng: Random, profile: Profile) -> None:
        self._cluster = cluster
        self._rng = rng
        self._profile = profile
        self._busy: set[int] = set()
        self._is_rotten = False
        self._tasks: set[asyncio.Task[None]] = set()
        self.counts: Counter[str] = Counter()

    async def run(self, seconds: float) -> None:
        """Let things go wrong for so long, then wait until all is repaired."""
        weights = self._profile.weights
        end = self._cluster.loop.time() + seconds
        while self._cluster.loop.time() < end:
            await asyncio.sleep(self._rng.random() * self._profile.pause_s_max)
            name = self._rng.choices(list(weights), list(weights.values()))[0]
            self.counts[name] += 1
            task = asyncio.create_task(self._begin(name))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        await asyncio.gather(*self._tasks)
        self._cluster.heal()

    async def _begin(self, name: str) -> None:
        fault: Fault = getattr(self, name)
        await fault()

    # --- nodes ----------------------------------------------------------------------------

    async def kill(self) -> None:
        """`kill -9`: the supervisor revokes the session soon after."""
        node = await self._take_in_time()
        if node:
            self._cluster.kill(node)
            await self._end_session(node, 0.05, 0.5)
            await self._restart(node, 3)

    async def power_cut(self) -> None:
        """The machine is gone, with what was not synced: the session ends by its time."""
        node = await self._take_in_time()
        if node:
            self._cluster.cut_power(node, self._rng.choice(list(Survival)))
            if self._rng.random() < 0.5:
                await self._end_session(node, 1, SESSION_S)
            await self._restart(node, 4)

    async def freeze(self) -> None:
        """SIGSTOP and SIGCONT."""
        node = self._take()
        if node:
            self._cluster.freeze(node)
            if await self._outlast_session(node):
                self._cluster.thaw(node)
                await self._zombie(node)
            else:
                self._cluster.thaw(node)
                self._busy.discard(node)

    async def cut_off(self) -> None:
        """Neither peers nor the shared store can be reached."""
        node = self._take()
        if node:
            self._cluster.cut_off(node)
            is_zombie = await self._outlast_session(node)
            self._cluster.heal()
            if is_zombie:
                await self._zombie(node)
            else:
                self._busy.discard(node)

    async def no_store(self) -> None:
        """Only the shared store cannot be reached: peers and clients can, and nobody tells the node who leads."""
        node = self._take()
        if node:
            self._cluster.cut_off_from_store(node)
            # Its session may end at any time: nothing may rest on when it does.
            await self._end_session(node, 0, 1)
            await self._wait(0.5, 4)
            self._cluster.heal()
            await self._zombie(node)

    async def lone_leader(self) -> None:
        """A leader reaches neither peers nor the store, clients write to it, another is elected; then it is back."""
        leaders = moments.leaders(self._cluster)
        node = self._rng.choice(leaders) if leaders else 0
        if not node or node in self._busy:
            return
        self._busy.add(node)
        self._cluster.cut_off(node)
        await self._wait(0.05, 1)
        if self._rng.random() < 0.5:
            await self._cluster.controller.end_session(node)
            await self._wait(0, 1)
            self._cluster.heal()
            await self._zombie(node)
        else:
            await self.moved_leader()
            await self.moved_leader()
            self._cluster.heal()
            self._busy.discard(node)

    async def slow_joiner(self) -> None:
        """A node starts again, and what others send it is late: it is behind whenever somebody writes."""
        node = self._take()
        if node:
            self._cluster.kill(node)
            await self._end_session(node, 0.05, 0.2)
            for other in self._cluster.slots:
                if other != node:
                    self._cluster.network.slow(other, node, 100)
            await self._wait(0, 0.3)
            await self._cluster.start(node)
            await self._wait(1, 4)
            self._busy.discard(node)

    async def late_joiner(self) -> None:
        """What a leader sends to a follower is late, from the moment at which it begins to let it in."""
        for _ in range(_MOMENTS_MAX):
            found = sorted(moments.fit_followers(self._cluster))
            if found:
                one, other = self._rng.choice(found)
                self._cluster.network.slow(one, other, 300)
                await self._wait(0.3, 1.5)
                self._cluster.network.slow(one, other, 1)
                return
            await asyncio.sleep(0.001)

    async def slow_disk(self) -> None:
        """Every sync and every opening takes long."""
        running = self._cluster.slots[self._rng.choice(list(self._cluster.slots))].node
        if running is not None:
            running.offload.slowness = self._rng.choice((10, 50))
            await self._wait(0.5, 4)
            running.offload.slowness = 1.0

    async def clock_step(self) -> None:
        """The wall clock of a node is set wrong, and put right later."""
        clock = self._cluster.slots[self._rng.choice(list(self._cluster.slots))].clock
        clock.ahead_ms = self._rng.choice((-1, 1)) * self._rng.randrange(100, 60_000)
        await self._wait(0.5, 5)
        clock.ahead_ms = 0

    async def failed_sync(self) -> None:
        """The disk fails once: a log takes no more writes until the node is started again."""
        node = self._take()
        if node:
            self._cluster.slots[node].files.faults.fail("sync", "*.log")
            await self._wait(1, 5)
            self._cluster.slots[node].files.faults.clear()
            self._cluster.kill(node)
            await self._end_session(node, 0.05, 0.5)
            await self._restart(node, 1)

    async def lost_disk(self) -> None:
        """The machine is gone with its disk, and another takes its place, perhaps at once."""
        node = await self._take_in_time()
        if not node:
            return
        if not self._cluster.controller.can_be_emptied(node):
            self._busy.discard(node)
            return
        self._cluster.cut_power(node, Survival.NOTHING)
        self._cluster.wipe(node)
        await self._cluster.controller.empty(node)
        await self._restart(node, self._rng.choice((0.05, 3)))

    async def blackout(self) -> None:
        """All machines are gone at once, with what was not synced."""
        if self._busy:
            return
        nodes = list(self._cluster.slots)
        self._busy.update(nodes)
        await self._wait(0, 0.5)
        for node in nodes:
            self._cluster.cut_power(node, Survival.NOTHING)
        for node in nodes:
            await self._restart(node, 0.5)

    async def rot(self) -> None:
        """A bit flips in a log file, or the file is gone, while the node runs or is down. It is repaired by itself."""
        node = 0 if self._is_rotten else self._take()
        if not node:
            return
        self._is_rotten = True
        for _ in range(100):
            if self._is_repairable(node):
                break
            await asyncio.sleep(0.05)
        else:
            self._is_rotten = False
            self._busy.discard(node)
            return
        is_down = self._rng.random() < 0.5
        # That the last segment is gone, and how long it was, nobody can know: the others must keep what was in it.
        removes = is_down and self._busy == {node} and self._rng.random() < 0.5
        if removes:
            self._busy.update(self._cluster.slots)
        if is_down:
            self._cluster.kill(node)
            await self._end_session(node, 0.05, 0.5)
        self._spoil(node, removes=removes)
        if is_down:
            await self._wait(0, 1)
            await self._cluster.start(node)
        # What is damaged on one must be repaired before another is: at last everything is compared.
        await self._wait(8, 12)
        await self._until_sound(node)
        self._busy -= set(self._cluster.slots) if removes else {node}
        self._is_rotten = False

    async def full_disk(self) -> None:
        """There is no room for a while."""
        node = self._take()
        if node:
            faults = self._cluster.slots[node].files.faults
            faults.capacity_bytes = 1
            await self._wait(0.5, 5)
            faults.capacity_bytes = None
            started = self._cluster.slots[node].node
            if started is not None and any(log.poisoned for log in started.partitions.open_logs()):
                # Something was half done when the room was gone: only a start finds out what.
                self._cluster.kill(node)
                await self._restart(node, 1)
            self._busy.discard(node)

    # --- links ----------------------------------------------------------------------------

    async def one_way(self) -> None:
        """What one node sends does not reach another; the other way works."""
        one, other = self._rng.sample(list(self._cluster.slots), 2)
        self._cluster.network.block(one, other)
        await self._wait(0.2, 6)
        self._cluster.heal()

    async def slow_link(self) -> None:
        """Everything takes a hundred times as long."""
        one, other = self._rng.sample(list(self._cluster.slots), 2)
        self._cluster.network.slow(one, other, 100)
        await self._wait(0.2, 4)

    async def broken_connection(self) -> None:
        """One connection breaks."""
        self._cluster.network.break_one()

    async def moved_leader(self) -> None:
        """The controller lets another in-sync replica lead."""
        topic = self._cluster.metadata.image.topic(TOPIC)
        if topic is not None:
            place = TopicPartition(TOPIC, self._rng.randrange(topic.partition_count))
            await self._cluster.controller.move(topic, place.partition)

    # --- steps of faults ------------------------------------------------------------------

    def _is_repairable(self, node: int) -> bool:
        """Whether others have all that it has. What only a leader has, and rots there, nobody can repair."""
        running, topic = self._cluster.slots[node].node, self._cluster.metadata.image.topic(TOPIC)
        if running is None or topic is None or not self._cluster.controller.can_be_emptied(node):
            return False
        led = [
            f"logs/{TOPIC}/{number}"
            for number, one in enumerate(self._cluster.metadata.image.assignments(topic.topic_id))
            if one.leader == node
        ]
        return all(
            log.high_watermark >= log.end_offset
            for log in running.partitions.open_logs()
            if log.directory.partition(".")[0] in led
        )

    def _spoil(self, node: int, *, removes: bool) -> None:
        files = self._cluster.slots[node].files
        found = [
            f"logs/{TOPIC}/{place}/{name}"
            for place in sorted(files.list(f"logs/{TOPIC}"))
            for name in sorted(files.list(f"logs/{TOPIC}/{place}"))
            if "." in name and files.size(f"logs/{TOPIC}/{place}/{name}")
        ]
        if not found:
            return
        path = self._rng.choice(found)
        if removes:
            files.remove(path)
        else:
            files.flip_bit(path, self._rng.randrange(files.size(path)), self._rng.randrange(8))

    async def _until_sound(self, node: int) -> None:
        for _ in range(1200):
            running = self._cluster.slots[node].node
            if running is not None and not any(log.damage for log in running.partitions.open_logs()):
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"node {node} was not repaired within two minutes")

    def _take(self) -> int:
        """A node with which nothing is wrong; 0 if there is none."""
        free = [node for node in self._cluster.slots if node not in self._busy]
        if not free:
            return 0
        node = self._rng.choice(free)
        self._busy.add(node)
        return node

    async def _take_in_time(self) -> int:
        """As `_take`; a timed profile waits for a moment at which it hurts, and takes a node that is part of it."""
        if not self._profile.is_timed:
            return self._take()
        find = self._rng.choice((moments.leaders_ahead, moments.joining, moments.new_leaders))
        for _ in range(_MOMENTS_MAX):
            found = sorted(node for node in find(self._cluster) if node not in self._busy)
            if found:
                node = self._rng.choice(found)
                self._busy.add(node)
                await self._wait(0, 0.003)
                return node
            await asyncio.sleep(0.001)
        return self._take()

    async def _wait(self, low_s: float, high_s: float) -> None:
        await asyncio.sleep(low_s + self._rng.random() * (high_s - low_s))

    async def _end_session(self, node: int, low_s: float, high_s: float) -> None:
        await self._wait(low_s, high_s)
        await self._cluster.controller.end_session(node)

    async def _outlast_session(self, node: int) -> bool:
        """Wait; True if the session ended meanwhile."""
        wait_s = self._rng.random() * 1.6 * SESSION_S
        if wait_s < SESSION_S:
            await asyncio.sleep(wait_s)
            return False
        await asyncio.sleep(SESSION_S)
        await self._cluster.controller.end_session(node)
        await asyncio.sleep(wait_s - SESSION_S)
        return True

    async def _zombie(self, node: int) -> None:
        await self._wait(0, 2)
        self._cluster.kill(node)
        await self._restart(node, 1)

    async def _restart(self, node: int, wait_s_max: float) -> None:
        await self._wait(0, wait_s_max)
        await self._cluster.start(node)
        self._busy.discard(node)

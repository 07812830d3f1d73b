"""Nodes without logs: sessions, registrations and controllers on one model of the shared store, and a model of data.

A promise (acks=all) is made only if every in-sync replica runs and the minimum is kept; then all of them have it. A
node that is wiped has nothing. Whoever is elected must have every promise: that is what the controller is for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any
from uuid import UUID

import msgspec
from msgspec import structs

from goqueue.cluster.control.controller import Controller
from goqueue.cluster.control.placement import ClusterPlacement
from goqueue.cluster.control.plan import is_electable
from goqueue.cluster.registration import Directory, Registration
from goqueue.cluster.session import Session
from goqueue.errors import GoQueueError
from goqueue.metadata import keys
from goqueue.metadata.eligibility import eligible_of, min_insync_of
from goqueue.metadata.events import Assignment, AssignmentsChanged, Node, Topic, TopicCreated
from goqueue.metadata.features import KNOWN_LEVELS
from goqueue.metadata.shared.kv import KvError
from goqueue.metadata.shared.kv_store import KvMetadata
from goqueue.metadata.store import Guard, SessionGuard
from goqueue.testing.clock import ManualClock
from goqueue.testing.kv_model import KvClient, KvFaults, KvModel

PREFIX = "/q"
TOPIC = UUID(int=77)
MIN_INSYNC = 2


class Member:
    """One node, through many lives."""

    def __init__(self, cluster: ControlPlane, node_id: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.directory = Directory(self._fresh_id(), 0)
        self.client: KvClient | None = None
        self.metadata: KvMetadata | None = None
        self.session: Session | None = None
        self.registration: Registration | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self._closers: list[Coroutine[Any, Any, None]] = []
        self.is_up = False
        # Unfenced in this life: before that it opens no log, whatever the metadata says of it.
        self.is_serving = False

    def start(self) -> None:
        assert not self.is_up
        self.is_up = True
        self._task(self._live())

    async def kill(self) -> None:
        """Nothing in it runs again; its lease ends by time."""
        self.is_up = self.is_serving = False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.session is not None:
            await self.session._stop_renewing()
        if self.metadata is not None:
            await self.metadata.close()
        self._tasks, self.metadata, self.session, self.registration = [], None, None, None

    async def stop(self) -> None:
        """A clean stop."""
        if self.registration is not None and self.session is not None and self.session.is_alive():
            try:
                async with asyncio.timeout(10):
                    await self.registration.hand_over("token")
                    await self.session.end()
            except (TimeoutError, GoQueueError):
                pass
        await self.kill()

    def wipe(self) -> None:
        """Another, empty directory."""
        assert not self.is_up
        self.directory = Directory(self._fresh_id(), 0)
        for partition in self.cluster.data:
            self.cluster.data[partition][self.node_id] = 0

    async def _live(self) -> None:
        cluster = self.cluster
        self.client = cluster.model.client(Random(cluster.rng.getrandbits(32)), cluster.faults)
        self.session = Session(self.client, ttl_ms=6_000, boot_ms=cluster.clock.monotonic_ms)
        while True:
            try:
                lease = await self.session.begin()
                break
            except KvError:
                await asyncio.sleep(0.2)
        self.metadata = await KvMetadata.open(self.client, prefix=PREFIX, rng=cluster.rng, lease=lease)
        node = Node(self.node_id, self.directory.directory_id, features=dict(KNOWN_LEVELS))
        self.registration = Registration(
            self.metadata,
            self.client,
            self.session,
            node,
            self.directory,
            self._keep_epoch,
            prefix=PREFIX,
            takeover_ms=600_000,
        )
        controller = Controller(
            self.metadata, self.session, node_id=self.node_id, return_after_ms=5_000, clock=cluster.clock
        )
        self._task(controller._run())
        try:
            await self.registration.register()
        except (GoQueueError, KvError):
            self.session.lost.set()
        self._task(self.registration.rejoin_forever())
        await self.registration.unfenced()
        self.is_serving = True
        self._task(self._lead())

    async def _keep_epoch(self, epoch: int) -> None:
        self.directory = structs.replace(self.directory, epoch=epoch)

    async def _lead(self) -> None:
        """As leader, take followers into the in-sync set once they have everything."""
        assert self.metadata is not None
        assert self.session is not None
        while True:
            await asyncio.sleep(0.5 + self.cluster.rng.random())
            image = self.metadata.image
            topic = image.topic("t")
            if topic is None or not self.session.is_alive():
                continue
            for number, one in enumerate(image.assignments(TOPIC)):
                if one.leader == self.node_id:
                    await self._grow(topic, number, one)

    async def _grow(self, topic: Topic, number: int, one: Assignment) -> None:
        assert self.metadata is not None
        assert self.session is not None
        image, cluster = self.metadata.image, self.cluster
        for follower in (*one.replicas, *one.adding):
            node = image.nodes().get(follower)
            if follower in one.isr or node is None or not is_electable(image, node):
                continue
            # It copies the log from this leader, in this session of its own.
            if not cluster.members[follower].is_serving:
                continue
            cluster.data[number][follower] = cluster.data[number][self.node_id]
            isr = (*one.isr, follower)
            eligible = () if len(isr) >= min_insync_of(topic, one) else eligible_of(image, topic, one)
            event = AssignmentsChanged("t", TOPIC, {number: structs.replace(one, isr=isr, eligible=eligible)})
            guards = [
                Guard(keys.partition_key(TOPIC, number), one.partition_epoch),
                SessionGuard(keys.session_key(self.node_id), self.session.epoch),
                SessionGuard(keys.session_key(follower), image.sessions[follower]),
            ]
            held = cluster.data[number][follower]
            try:
                await self.metadata.commit([event], guards)
            except GoQueueError:
                pass
            else:
                # What was promised while the write was under way reached it, too.
                if cluster.truth(number)[0].isr.count(follower):
                    cluster.data[number][follower] = max(held, cluster.data[number][follower])
            return

    def _task(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(work))

    def _fresh_id(self) -> UUID:
        return UUID(int=self.cluster.rng.getrandbits(128), version=4)


class ControlPlane:
    """Three nodes and one topic."""

    def __init__(self, clock: ManualClock, rng: Random, partitions: int = 4) -> None:
        self.clock = clock
        self.rng = rng
        self.faults = KvFaults(
            unavailable=0.02, lost_call=0.01, lost_reply=0.02, late=0.01, watch_broken=0.02, delay_s_max=0.02
        )
        self.model = KvModel(leases_expire=True)
        self.data: dict[int, dict[int, int]] = {number: dict.fromkeys((1, 2, 3), 0) for number in range(partitions)}
        self.promised = dict.fromkeys(range(partitions), 0)
        self.members = {number: Member(self, number) for number in (1, 2, 3)}
        self.leaders: dict[tuple[int, int], int] = {}
        self._seen = 0

    async def found(self) -> None:
        """Start all, and create the topic."""
        for member in self.members.values():
            member.start()
        await self.settled(lambda: len(self.living()) == 3)
        metadata = next(member.metadata for member in self.members.values() if member.metadata is not None)
        placement = ClusterPlacement(lambda: metadata.image, (1, 2, 3), copies_default=0, min_insync=0)
        topic = Topic("t", TOPIC, len(self.data), 3, dict(placement.settings(3)))
        await metadata.commit([TopicCreated(topic, placement.place(len(self.data), 3))])

    def truth(self, partition: int) -> tuple[Assignment, int]:
        """The assignment as it is stored, and its revision."""
        pair = self.model.pairs[f"{PREFIX}{keys.partition_key(TOPIC, partition)}"]
        return msgspec.json.decode(pair.value, type=Assignment), pair.mod_revision

    def living(self) -> set[int]:
        """Nodes that are unfenced in the session that they have."""
        found = set()
        for number in self.members:
            node = self.model.pairs.get(f"{PREFIX}{keys.node_key(number)}")
            session = self.model.pairs.get(f"{PREFIX}{keys.session_key(number)}")
            if node is not None and session is not None:
                value = msgspec.json.decode(node.value, type=Node)
                if not value.fenced and value.broker_epoch == session.create_revision:
                    found.add(number)
        return found

    def promise(self) -> int:
        """Write with acks=all to every partition that can take it; returns how many could."""
        made = 0
        for number in self.data:
            one, _ = self.truth(number)
            if (
                one.leader < 0
                or len(one.isr) < MIN_INSYNC
                or not all(self.members[node].is_serving for node in one.isr)
            ):
                continue
            self.promised[number] += 1
            for node in one.isr:
                self.data[number][node] = self.promised[number]
            made += 1
        return made

    def check(self) -> None:
        """Every leader that was elected since the last look has all promises, and an epoch of its own."""
        for delta in self.model.history[self._seen :]:
            for pair in delta.written:
                key = pair.key.removeprefix(PREFIX)
                if not key.startswith(keys.PARTITIONS):
                    continue
                _, number = keys.parse_partition_key(key)
                one = msgspec.json.decode(pair.value, type=Assignment)
                known = self.leaders.setdefault((number, one.leader_epoch), one.leader)
                assert known == one.leader, f"epoch {one.leader_epoch} of {number} is led by {known} and {one.leader}"
        self._seen = len(self.model.history)
        for number in self.data:
            one, _ = self.truth(number)
            if one.leader >= 0 and self.members[one.leader].is_serving:
                has = self.data[number][one.leader]
                assert has == self.promised[number], f"node {one.leader} leads {number} with {has}: {one}"

    async def settled(self, is_so: Callable[[], bool], seconds_max: float = 120) -> None:
        """Wait until it is so."""
        async with asyncio.timeout(seconds_max):
            while not is_so():  # noqa: ASYNC110 - virtual time
                await asyncio.sleep(0.1)

    def is_whole_without(self, node_id: int) -> bool:
        """Whether every promise is held by the other nodes, all of them in sync."""
        others = {1, 2, 3} - {node_id}
        return all(others <= set(self.truth(number)[0].isr) for number in self.data)

    def is_whole(self) -> bool:
        """Every node serves, every partition is led, and all of its replicas are in sync."""
        serving = all(member.is_serving for member in self.members.values())
        return (
            serving
            and len(self.living()) == 3
            and all(self.truth(number)[0].leader >= 0 and len(self.truth(number)[0].isr) == 3 for number in self.data)
        )

"""Three whole nodes in one simulated loop, with real sessions and controllers, and all that can be done to them.

The nodes are the real ones, from their composition root. Each has a disk, a clock, threads, a way to the shared store
and a place in the network of its own; one seed decides everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from goqueue.config import (
    BrokerConfig,
    Config,
    DelayConfig,
    DeliveryConfig,
    DurabilityConfig,
    GroupsConfig,
    LogConfig,
    TransactionsConfig,
)
from goqueue.errors import GoQueueError, PeerUnreachable, wire_of
from goqueue.metadata.events import Assignment, Topic
from goqueue.metadata.shared.kv_store import KvMetadata
from goqueue.node.assemble import assemble
from goqueue.node.node import Node, Running
from goqueue.servers.services import Services
from goqueue.testing.clock import ManualClock, NodeClock, seeded_rng
from goqueue.testing.cluster.cluster import GatedKv
from goqueue.testing.cluster.loop import ClusterLoop, Life
from goqueue.testing.disk import Survival
from goqueue.testing.faults import Crash
from goqueue.testing.kv_model import KvFaults, KvModel
from goqueue.testing.memory_files import MemoryFiles
from goqueue.testing.sim_loop import DelayedOffload
from goqueue.testing.sim_network import SimNetwork, SimPeerNetwork
from goqueue.testing.sim_node import bury

NODES = (1, 2, 3)
T = TypeVar("T")
_CALL_S_MAX = 8.0

CONFIG = Config(
    broker=BrokerConfig(default_partitions=2),
    log=LogConfig(segment_bytes=4096, index_interval_bytes=128, retention_ms=-1, retention_check_ms=1000),
    durability=DurabilityConfig(flush_interval_ms=40, checkpoint_interval_ms=150),
    groups=GroupsConfig(offsets_partitions=1),
    transactions=TransactionsConfig(state_partitions=1),
    delay=DelayConfig(near_ms=1000, near_max=1000),
    # Nobody dies of too many deliveries here: only a rejection makes a dead letter.
    delivery=DeliveryConfig(visibility_ms=2_000, retries_max=10_000),
)


class Slot:
    """One node through its lives."""

    def __init__(self, node_id: int, clock: ManualClock, files: MemoryFiles) -> None:
        self.node_id = node_id
        self.clock = NodeClock(clock)
        self.files = files
        self.life: Life | None = None
        self.member: SimPeerNetwork | None = None
        self.kv: GatedKv | None = None
        self.offload: DelayedOffload | None = None
        self.node: Node | None = None
        self.running: Running | None = None
        self.slowness = 1.0

    @property
    def services(self) -> Services | None:
        """What it serves, if it has started."""
        return None if self.running is None else self.running.services


class WholeCluster:
    """Nodes 1 to 3."""

    def __init__(self, seed: int, *, kv_faults: KvFaults | None = None, config: Config = CONFIG) -> None:
        self.seed = seed
        self.config = config
        self.rng = seeded_rng(seed, "cluster")
        self.clock = ManualClock()
        self.loop = ClusterLoop(self.clock, order=seeded_rng(seed, "order"))
        self.network = SimNetwork(seeded_rng(seed, "network"))
        self.kv_faults = kv_faults or KvFaults(delay_s_max=0.005)
        self.slots = {
            node: Slot(node, self.clock, MemoryFiles(seed=seeded_rng(seed, "disk", node).getrandbits(64)))
            for node in NODES
        }
        self.lives: list[Life] = []
        self.model: KvModel
        # A look at the metadata from outside, without faults.
        self.metadata: KvMetadata

    def play(self, story: Callable[[], Awaitable[None]]) -> None:
        """Start all nodes, and play a story to its end."""

        async def run() -> None:
            self.model = KvModel(leases_expire=True)
            await asyncio.gather(*(self.start(node) for node in NODES))
            prefix = self.config.metadata.prefix
            rng = seeded_rng(self.seed, "outside")
            self.metadata = await KvMetadata.open(self.model.client(), prefix=prefix, rng=rng)
            await story()

        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(run())
        finally:
            for life in self.lives:
                self.loop.thaw(life)
            bury(self.loop)
            asyncio.set_event_loop(None)

    # --- what is done to nodes --------------------------------------------------------------

    async def start(self, node_id: int) -> None:
        """Begin a life, and wait until the node serves, or until that life is over."""
        slot, config = self.slots[node_id], self.config
        config = replace(
            config,
            broker=replace(config.broker, node_id=node_id),
            tracing=replace(config.tracing, enabled=False),
            cluster=replace(
                config.cluster,
                peers=tuple(f"{node}=node-{node}:1" for node in NODES),
                replica_lag_ms_max=3_000,
            ),
        )
        life = slot.life = Life(node_id)
        self.lives.append(life)
        slot.member = self.network.join(node_id)
        rng = seeded_rng(self.seed, node_id, len(self.lives))
        slot.kv = GatedKv(self.model.client(seeded_rng(self.seed, "kv", len(self.lives)), self.kv_faults))
        slot.offload = DelayedOffload(seeded_rng(self.seed, "threads", len(self.lives)))
        slot.offload.slowness = slot.slowness
        slot.node = assemble(
            config,
            files=slot.files,
            clock=slot.clock,
            rng=rng,
            offload=slot.offload,
            kv=slot.kv,
            network=slot.member,
        )
        starting = self.loop.start(life, slot.node.start())
        while not starting.done() and not life.is_over:
            await asyncio.wait([starting], timeout=0.1)
        if not life.is_over:
            slot.running = starting.result()

    def kill(self, node_id: int) -> None:
        """End the process: nothing that was written is lost."""
        slot = self._end(node_id, silently=False)
        slot.files = slot.files.kill()

    def cut_power(self, node_id: int, survival: Survival) -> None:
        """End the machine: what was not synced may be lost, and nobody is told."""
        slot = self._end(node_id, silently=True)
        slot.files = slot.files.crash(survival)

    async def stop(self, node_id: int) -> None:
        """Stop a node in order: it hands its leaderships over first."""
        slot = self.slots[node_id]
        life, node = slot.life, slot.node
        if life is None or node is None or slot.running is None:
            return
        stopping = self.loop.start(life, node.stop())
        await asyncio.wait([stopping], timeout=60)
        if stopping.done() and not stopping.cancelled():
            stopping.exception()
        if slot.life is life:
            self.kill(node_id)

    def _end(self, node_id: int, *, silently: bool) -> Slot:
        slot = self.slots[node_id]
        if slot.life is not None:
            slot.life.is_over, slot.life.is_frozen = True, False
        if slot.member is not None:
            self.network.leave(slot.member, silently=silently)
        slot.life = slot.running = slot.node = slot.kv = slot.member = slot.offload = None
        return slot

    def cut_off(self, node_id: int, *, from_store: bool = True) -> None:
        """Cut a node off from its peers, and from the shared store."""
        self.network.isolate(node_id)
        kv = self.slots[node_id].kv
        if kv is not None:
            kv.is_cut_off = from_store

    def heal(self) -> None:
        """Repair the network."""
        self.network.heal()
        for slot in self.slots.values():
            if slot.kv is not None:
                slot.kv.is_cut_off = False

    # --- what there is ----------------------------------------------------------------------

    def assignments(self) -> list[tuple[Topic, int, Assignment]]:
        """All partitions, as the shared store has them."""
        image = self.metadata.image
        return [
            (topic, number, one)
            for topic in image.topics()
            for number, one in enumerate(image.assignments(topic.topic_id))
        ]

    def can_be_emptied(self, node_id: int) -> bool:
        """Whether every partition has an in-sync replica elsewhere: its disk has all that was promised."""
        return all(set(one.isr) - {node_id} for _, _, one in self.assignments() if node_id in one.replicas)

    def is_in_sync(self, node_id: int) -> bool:
        """Whether a node is in sync in all partitions of which it has a replica."""
        return all(node_id in one.isr for _, _, one in self.assignments() if node_id in one.replicas)

    # --- what clients do --------------------------------------------------------------------

    async def call(
        self, node_id: int, work: Callable[[Services], Coroutine[Any, Any, T]], *, patience_s: float = _CALL_S_MAX
    ) -> T:
        """Ask a node; raises what it answers, or PeerUnreachable if no answer comes."""
        await asyncio.sleep(self.rng.random() * 0.002)
        slot = self.slots[node_id]
        services, life = slot.services, slot.life
        if services is None or life is None:
            raise PeerUnreachable(node_id, "connection refused")
        task = self.loop.start(life, work(services))
        done, _ = await asyncio.wait([task], timeout=patience_s)
        await asyncio.sleep(self.rng.random() * 0.002)
        if not done or life.is_over or self.rng.random() < 0.02:
            task.add_done_callback(_ignored)
            raise PeerUnreachable(node_id, "no answer")
        try:
            return task.result()
        except Crash:
            raise PeerUnreachable(node_id, "no answer") from None

    async def somewhere(self, work: Callable[[Services], Coroutine[Any, Any, T]]) -> T:
        """Ask one node after the other, as a client does that looks for a leader or a coordinator.

        Only for what may be done twice. Raises what is not retriable.
        """
        for _ in range(2000):
            for node_id in self.rng.sample(NODES, len(NODES)):
                try:
                    return await self.call(node_id, work)
                except GoQueueError as error:
                    if not isinstance(error, PeerUnreachable) and not wire_of(error).retriable:
                        raise
            await asyncio.sleep(0.02 + self.rng.random() * 0.1)
        raise AssertionError("nobody answers")


def _ignored(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()

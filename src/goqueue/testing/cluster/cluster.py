"""SimCluster: some nodes, their disks, the network between them and the shared store, all by one seed.

    cluster = SimCluster(seed=7)
    cluster.run(story(cluster))

Every method that does something to a node happens at once. A node whose session ended is a zombie until it is killed
and started again: it knows nothing of what was decided since, and must do no harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from random import Random
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from goqueue.broker.replicas.partition import Partition
from goqueue.errors import PeerUnreachable
from goqueue.metadata.events import Assignment, FeatureFinalised, Topic, TopicCreated
from goqueue.metadata.features import METADATA_VERSION
from goqueue.metadata.keys import partition_key
from goqueue.metadata.shared.kv import Compare, KeyValue, KvDelta, KvUnavailable, Range, TxnResult, Write
from goqueue.metadata.shared.kv_store import KvMetadata
from goqueue.testing.clock import ManualClock, NodeClock, seeded_rng
from goqueue.testing.cluster.loop import ClusterLoop, Life
from goqueue.testing.cluster.replica_node import PREFIX, ReplicaNode
from goqueue.testing.cluster.scripted_controller import ScriptedController
from goqueue.testing.disk import Survival
from goqueue.testing.kv_model import KvClient, KvFaults, KvModel
from goqueue.testing.memory_files import MemoryFiles
from goqueue.testing.sim_network import SimNetwork
from goqueue.testing.sim_node import bury

T = TypeVar("T")

TOPIC = "orders"
TOPIC_ID = UUID(int=7)
MIN_INSYNC = 2
# What a client waits for a node that does not answer.
_REQUEST_S_MAX = 4.0


class SimNodeSlot:
    """One node through its lives: its disk stays, its process comes and goes."""

    def __init__(self, node_id: int, files: MemoryFiles, clock: ManualClock) -> None:
        self.node_id = node_id
        self.files = files
        self.clock = NodeClock(clock)
        self.life: Life | None = None
        self.node: ReplicaNode | None = None
        self.kv: GatedKv | None = None


class SimCluster:
    """Nodes 1 to `size`, and a topic of which each has a replica."""

    def __init__(
        self,
        seed: int,
        *,
        size: int = 3,
        partitions: int = 2,
        kv_faults: KvFaults | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """`config` has further settings of the topic."""
        self.seed = seed
        self._config = dict(config or {})
        self.rng = seeded_rng(seed, "cluster")
        self.clock = ManualClock()
        self.loop = ClusterLoop(self.clock, order=seeded_rng(seed, "order"))
        self.network = SimNetwork(seeded_rng(seed, "network"))
        self.partitions = partitions
        self.topic_id = TOPIC_ID
        self._kv_faults = kv_faults or KvFaults(delay_s_max=0.005)
        self.slots = {
            number: SimNodeSlot(number, MemoryFiles(seed=seeded_rng(seed, "disk", number).getrandbits(64)), self.clock)
            for number in range(1, size + 1)
        }
        self._lives: list[Life] = []
        # Told when a log of a running node was cut, emptied or repaired.
        self.on_rework: Callable[[int, Partition], None] | None = None
        # See `ReplicaNode.produce`.
        self.trusts_repeats = False
        self.model: KvModel
        self.metadata: KvMetadata
        self.controller: ScriptedController

    def run(self, story: Coroutine[Any, Any, None]) -> None:
        """Play a story to its end, on a cluster that has started."""
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self._live(story))
        finally:
            # Tasks of nodes that are gone are ended like all others. Their disks are gone as well, and take nothing.
            for life in self._lives:
                self.loop.thaw(life)
            bury(self.loop)
            asyncio.set_event_loop(None)

    async def _live(self, story: Coroutine[Any, Any, None]) -> None:
        self.model = KvModel()
        self.metadata = await KvMetadata.open(
            self.model.client(), prefix=PREFIX, rng=seeded_rng(self.seed, "controller")
        )
        self.controller = ScriptedController(self.model, self.metadata, min_insync=MIN_INSYNC)
        nodes = tuple(self.slots)
        assignments = tuple(
            Assignment(leader=order[0], leader_epoch=0, replicas=order, isr=order)
            for order in (nodes[n % len(nodes) :] + nodes[: n % len(nodes)] for n in range(self.partitions))
        )
        topic = Topic(
            TOPIC, TOPIC_ID, self.partitions, len(nodes), {"min.insync.replicas": str(MIN_INSYNC), **self._config}
        )
        for number in nodes:
            self.controller.expect(number)
        await self.metadata.commit([FeatureFinalised(METADATA_VERSION, 1)])
        await self.metadata.commit([TopicCreated(topic, assignments)])
        await asyncio.gather(*(self.start(number) for number in nodes))
        await story

    # --- what is done to nodes ------------------------------------------------------------

    async def start(self, node_id: int) -> None:
        """Begin a life of a node that has none."""
        slot = self.slots[node_id]
        life = slot.life = Life(node_id)
        self._lives.append(life)
        rng = seeded_rng(self.seed, node_id, len(self._lives))
        lease, epoch = await self.controller.begin_session(node_id)
        slot.kv = GatedKv(self.model.client(seeded_rng(self.seed, "kv", len(self._lives)), self._kv_faults))
        network = self.network.join(node_id)
        opening = ReplicaNode.open(slot.kv, network, slot.files, slot.clock, rng, lease=lease, epoch=epoch)
        starting = self.loop.start(life, opening)
        done, _ = await asyncio.wait([starting], timeout=30)
        if done and not starting.cancelled() and starting.exception() is None and not life.is_over:
            slot.node = starting.result()
            slot.node.on_rework = self._reworked
            slot.node.trusts_repeats = self.trusts_repeats
        elif done and not life.is_over:
            raise RuntimeError(f"node {node_id} did not start") from starting.exception()
        await self.controller.elect()

    def kill(self, node_id: int) -> None:
        """End the process: nothing that was written is lost, and its connections are closed."""
        slot = self._end(node_id, silently=False)
        slot.files = slot.files.kill()

    def cut_power(self, node_id: int, survival: Survival) -> None:
        """End the machine: what was not synced may be lost, and nobody is told."""
        slot = self._end(node_id, silently=True)
        slot.files = slot.files.crash(survival)

    def wipe(self, node_id: int) -> None:
        """Replace the disk of a node that does not run by an empty one."""
        slot = self.slots[node_id]
        slot.files = MemoryFiles(seed=self.rng.getrandbits(64))

    def freeze(self, node_id: int) -> None:
        """Stop a node where it stands (SIGSTOP)."""
        life = self.slots[node_id].life
        if life is not None:
            life.is_frozen = True

    def thaw(self, node_id: int) -> None:
        """Let it go on (SIGCONT)."""
        life = self.slots[node_id].life
        if life is not None and life.is_frozen:
            self.loop.thaw(life)

    def cut_off(self, node_id: int) -> None:
        """Cut a node off from its peers and from the shared store."""
        self.network.isolate(node_id)
        kv = self.slots[node_id].kv
        if kv is not None:
            kv.is_cut_off = True

    def cut_off_from_store(self, node_id: int) -> None:
        """Cut a node off from the shared store alone: it goes on with its peers and clients as it last knew them."""
        kv = self.slots[node_id].kv
        if kv is not None:
            kv.is_cut_off = True

    def heal(self) -> None:
        """Repair the network."""
        self.network.heal()
        for slot in self.slots.values():
            if slot.kv is not None:
                slot.kv.is_cut_off = False

    def stored(self, partition: int) -> Assignment:
        """The assignment as the shared store has it at this moment."""
        pair = self.model.pairs[PREFIX + partition_key(TOPIC_ID, partition)]
        return msgspec.json.decode(pair.value, type=Assignment)

    def running(self) -> list[int]:
        """The nodes that have a life, frozen or not."""
        return [number for number, slot in self.slots.items() if slot.life is not None]

    def _end(self, node_id: int, *, silently: bool) -> SimNodeSlot:
        slot = self.slots[node_id]
        if slot.life is not None:
            slot.life.is_over = True
            slot.life.is_frozen = False
        member = self.network.member(node_id)
        if member is not None:
            self.network.leave(member, silently=silently)
        slot.life, slot.node, slot.kv = None, None, None
        return slot

    def _reworked(self, node_id: int, partition: Partition) -> None:
        if self.on_rework is not None:
            self.on_rework(node_id, partition)

    # --- what clients do ------------------------------------------------------------------

    async def request(self, node_id: int, make: Any, *args: Any) -> Any:
        """Ask a node for something; raises what it answers, or PeerUnreachable if no answer comes."""
        await asyncio.sleep(self.rng.random() * 0.002)
        slot = self.slots[node_id]
        node, life = slot.node, slot.life
        if node is None or life is None:
            raise PeerUnreachable(node_id, "connection refused")
        task = self.loop.start(life, make(node, *args))
        # Whoever asked may have given up when it fails.
        task.add_done_callback(lambda one: one.cancelled() or one.exception())
        done, _ = await asyncio.wait([task], timeout=_REQUEST_S_MAX)
        await asyncio.sleep(self.rng.random() * 0.002)
        if not done or life.is_over or self.rng.random() < 0.02:
            raise PeerUnreachable(node_id, "no answer")
        return task.result()


class GatedKv:
    """A node's way to the shared store, which can be cut."""

    def __init__(self, kv: KvClient) -> None:
        self._kv = kv
        self.is_cut_off = False

    async def get(self, key: str) -> KeyValue | None:
        """See `Kv.get`."""
        self._check()
        return await self._kv.get(key)

    async def range(self, prefix: str) -> Range:
        """See `Kv.range`."""
        self._check()
        return await self._kv.range(prefix)

    async def txn(self, compares: Sequence[Compare], writes: Sequence[Write]) -> TxnResult:
        """See `Kv.txn`."""
        self._check()
        return await self._kv.txn(compares, writes)

    async def watch(self, prefix: str, from_revision: int) -> AsyncIterator[KvDelta]:
        """See `Kv.watch`."""
        async for delta in self._kv.watch(prefix, from_revision):
            self._check()
            yield delta

    async def grant(self, ttl_ms: int) -> int:
        """See `Kv.grant`."""
        self._check()
        return await self._kv.grant(ttl_ms)

    async def keep_alive(self, lease: int) -> None:
        """See `Kv.keep_alive`."""
        self._check()
        await self._kv.keep_alive(lease)

    async def revoke(self, lease: int) -> None:
        """See `Kv.revoke`."""
        self._check()
        await self._kv.revoke(lease)

    def _check(self) -> None:
        if self.is_cut_off:
            raise KvUnavailable("cut off")


def choose(rng: Random, options: Sequence[T]) -> T:
    """One of them."""
    return options[rng.randrange(len(options))]

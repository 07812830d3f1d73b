"""ReplicaNode: a simulated node with its logs and their replication, and nothing above them.

All parts are the real ones: metadata over the shared store, partitions, flusher, replication, changes of the in-sync
replicas. Front-ends, features and the real controller are left out, so that thousands of seeds can be tried.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random

from goqueue.broker.arrivals.batch_checks import check_acks
from goqueue.broker.arrivals.publish import confirm_refusal
from goqueue.broker.replicas.partition import Partition
from goqueue.broker.replicas.partitions import Partitions
from goqueue.broker.replicas.roles import Role
from goqueue.clock import Clock
from goqueue.cluster.calls import PeerCalls
from goqueue.cluster.isr import IsrChanges
from goqueue.cluster.network import CALLS, CATCHING_UP, REPLICATION
from goqueue.cluster.replication.repairs import Repairs
from goqueue.cluster.replication.service import Replication
from goqueue.cluster.replication.terms import Terms
from goqueue.cluster.replication.verification import Verification
from goqueue.codec.batch import parse_batch_header
from goqueue.config import DurabilityConfig, LogConfig
from goqueue.errors import ProducerError
from goqueue.metadata.shared.kv import Kv
from goqueue.metadata.shared.kv_store import KvMetadata
from goqueue.node.disk.flusher import Flusher
from goqueue.ports import Files
from goqueue.records import Acks, LogKind, TopicPartition
from goqueue.testing.sim_loop import DelayedOffload
from goqueue.testing.sim_network import SimPeerNetwork

PREFIX = "/goqueue"
LAG_MS_MAX = 3_000
_CATCH_UP_BYTES_PER_S = 50_000_000
_VERIFY_BYTES_PER_S = 10_000_000
_VERIFY_PAUSE_S = 5.0


class ReplicaNode:
    """One life of a node. `open` it first."""

    def __init__(
        self, metadata: KvMetadata, network: SimPeerNetwork, files: Files, clock: Clock, rng: Random, epoch: int
    ) -> None:
        offload = self.offload = DelayedOffload(rng)
        self.node_id = network.node_id
        self.metadata = metadata
        self.network = network
        self.flusher = Flusher(files, offload, DurabilityConfig())
        self.terms = Terms(
            node_id=self.node_id, metadata=metadata, syncer=self.flusher, clock=clock, acks_written=False
        )
        self.partitions = Partitions(
            node_id=self.node_id,
            files=files,
            metadata=metadata,
            syncer=self.flusher,
            offload=offload,
            clock=clock,
            log_config=LogConfig(),
            writers=self.terms.writer,
        )
        self.terms.bind(self.partitions)
        self.trusts_repeats = False
        # Told when a log of a partition was cut, emptied or repaired.
        self.on_rework: Callable[[int, Partition], None] | None = None
        self._rework = self.partitions.rework
        self.partitions.rework = self._rework_and_tell  # type: ignore[method-assign]
        self.isr = IsrChanges(
            node_id=self.node_id,
            terms=self.terms,
            metadata=metadata,
            clock=clock,
            broker_epoch=lambda: epoch,
            lag_ms_max=LAG_MS_MAX,
        )
        self.replication = Replication(
            node_id=self.node_id,
            network=network,
            partitions=self.partitions,
            terms=self.terms,
            metadata=metadata,
            syncer=self.flusher,
            offload=offload,
            clock=clock,
            broker_epoch=lambda: epoch,
            catch_up_bytes_per_s_max=_CATCH_UP_BYTES_PER_S,
        )
        self.calls = PeerCalls(network, self.node_id)
        self.repairs = Repairs(
            node_id=self.node_id,
            partitions=self.partitions,
            terms=self.terms,
            metadata=metadata,
            calls=self.calls,
            syncer=self.flusher,
            offload=offload,
            clock=clock,
            resubscribe=self.replication.resubscribe,
        )
        self.verification = Verification(
            self.partitions, offload, bytes_per_s_max=_VERIFY_BYTES_PER_S, pause_s=_VERIFY_PAUSE_S
        )
        self._clock = clock

    @classmethod
    async def open(
        cls, kv: Kv, network: SimPeerNetwork, files: Files, clock: Clock, rng: Random, *, lease: int, epoch: int
    ) -> ReplicaNode:
        """Start it, under a session that is there already."""
        metadata = await KvMetadata.open(kv, prefix=PREFIX, rng=rng, lease=lease)
        node = cls(metadata, network, files, clock, rng, epoch)
        await node.partitions.start()
        await network.listen(node._accept)
        node.replication.start()
        node.isr.start()
        node.calls.begin()
        node.repairs.start()
        node.verification.start()
        node._open_led()
        return node

    async def produce(self, place: TopicPartition, batch: bytes, slot: bytes | None) -> int:
        """Store a batch with acks=all; returns the offset behind it. With a `slot`, first one in the delay log.

        Both are written in one step, as when a record is held back: whoever has the one must have the other. With
        `trusts_repeats` a batch that is there already is believed to have its slot.
        """
        partition = await self.partitions.open_leader(*place)
        delay = None if slot is None else await self.partitions.open_member(place, LogKind.DELAY)
        partition = self.partitions.leader(*place)
        check_acks(Acks.ALL, partition.in_sync_replicas, partition.config.min_insync_replicas)
        now_ms = self._clock.now_ms()
        waits: list[Awaitable[None] | None] = []
        is_repeat = self.trusts_repeats and slot is not None and _is_known(partition, batch)
        if delay is not None and slot is not None and not is_repeat:
            slot_end = delay.writer.append(slot, now_ms=now_ms).end_offset
            waits.append(delay.writer.reached(slot_end, Acks.ALL))
        elif delay is not None:
            # Perhaps its slot is not safe yet.
            waits.append(delay.writer.reached(delay.log.end_offset, Acks.ALL))
        try:
            end = partition.writer.append(batch, now_ms=now_ms).end_offset
        except ProducerError as error:
            await confirm_refusal(partition.writer, error)
            raise
        waits.append(partition.writer.reached(end, Acks.ALL))
        for wait in waits:
            if wait is not None:
                await wait
        return end

    async def _rework_and_tell(self, partition: Partition, kind: LogKind, what: str, work: Callable[[], None]) -> None:
        await self._rework(partition, kind, what, work)
        if self.on_rework is not None:
            self.on_rework(self.node_id, partition)

    async def _accept(self, connection: object, purpose: int) -> None:
        if purpose == CALLS:
            await self.calls.accept(connection)  # type: ignore[arg-type]
        if purpose in (REPLICATION, CATCHING_UP):
            await self.replication.serve(connection, purpose)  # type: ignore[arg-type]

    def _open_led(self) -> None:
        """Open what this node leads, and whatever it comes to lead: a term begins with the open log."""
        image = self.metadata.image
        for topic in image.topics():
            for number in range(topic.partition_count):
                self.partitions.opening(topic.name, number)
        self.partitions.on_role(self._on_role)

    def _on_role(self, place: TopicPartition, role: Role | None) -> None:
        if role is not None:
            self.partitions.opening(*place)


def _is_known(partition: Partition, batch: bytes) -> bool:
    try:
        return partition.log.producers.check(parse_batch_header(batch)) is not None
    except ProducerError:
        # The append says so, once it is certain that this node leads.
        return False

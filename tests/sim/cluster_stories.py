"""What stories about a simulated cluster need: records for partition 0, and waiting in the time of the simulation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from goqueue.broker.replicas.roles import Leading
from goqueue.codec.batch_encode import encode_batch
from goqueue.errors import GoQueueError
from goqueue.metadata.shared.kv import Compare, TxnResult, Write
from goqueue.records import LogKind, NewRecord, TopicPartition
from goqueue.testing.cluster.cluster import TOPIC, SimCluster
from goqueue.testing.cluster.replica_node import ReplicaNode

PLACE = TopicPartition(TOPIC, 0)


def batch(sequence: int, producer_id: int = 1) -> bytes:
    records = [NewRecord(None, b"%d/%d" % (producer_id, sequence))]
    return encode_batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, now_ms=1)


async def produce(cluster: SimCluster, node: int, sequence: int, producer_id: int = 1, *, slot: bool = False) -> None:
    """Store a record with acks=all; answers get lost now and then, and the batch is sent again."""
    await until(lambda: is_leading(cluster, node))
    held = encode_batch([NewRecord(b"%d" % sequence, b"slot")], now_ms=1) if slot else None
    for _ in range(20):
        try:
            await cluster.request(node, lambda one: one.produce(PLACE, batch(sequence, producer_id), held))
        except GoQueueError:
            await asyncio.sleep(0.2)
        else:
            return
    raise AssertionError(f"node {node} did not store sequence {sequence}")


def is_leading(cluster: SimCluster, number: int) -> bool:
    node = cluster.slots[number].node
    return node is not None and any(
        one.key == PLACE and isinstance(one.role, Leading) for one in node.partitions.all_open()
    )


def end_of(cluster: SimCluster, number: int, kind: LogKind = LogKind.DATA) -> int:
    node = cluster.slots[number].node
    member = None if node is None else node.partitions.replica(*PLACE).member(kind)
    return 0 if member is None else member.log.end_offset


async def until(holds: Callable[[], bool], seconds: float = 30) -> None:
    """Wait, in the time of the simulation."""
    for _ in range(round(seconds / 0.01)):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError


async def node_2_is_ahead(cluster: SimCluster) -> None:
    """Node 2 led in epoch 1 and wrote what nobody got; node 1 leads in epoch 2. The network is not healed yet."""
    await produce(cluster, 1, 0)
    topic = cluster.metadata.image.topic(TOPIC)
    assert topic is not None
    await cluster.controller.move(topic, 0)
    await until(lambda: is_leading(cluster, 2))
    cluster.network.isolate(2)
    await cluster.request(2, written_alone)
    await cluster.controller.move(topic, 0)
    await until(lambda: is_leading(cluster, 1))


def heal(cluster: SimCluster) -> None:
    """Let nodes reach each other again; what was on its way is delivered."""
    cluster.network._blocked.clear()
    for wire in list(cluster.network._wires):
        wire.go_on()


class HeldAssignment:
    """The next assignments that a node writes to the shared store: they wait until they may go."""

    def __init__(self, cluster: SimCluster, node: int) -> None:
        kv = cluster.slots[node].kv
        assert kv is not None
        self._is_sent, self._may_go, self._txn = asyncio.Event(), asyncio.Event(), kv.txn
        kv.txn = self._held  # type: ignore[method-assign]

    async def is_sent(self) -> None:
        """Wait until the node writes one."""
        await asyncio.wait_for(self._is_sent.wait(), 60)

    def let_go(self) -> None:
        """Let it be written."""
        self._may_go.set()

    async def _held(self, compares: Sequence[Compare], writes: Sequence[Write]) -> TxnResult:
        if any("/p/" in write.key for write in writes):
            self._is_sent.set()
            await self._may_go.wait()
        return await self._txn(compares, writes)


async def written_alone(node: ReplicaNode) -> None:
    node.partitions.leader(*PLACE).writer.append(batch(1), now_ms=1)


def ignored(task: asyncio.Future[object]) -> None:
    if not task.cancelled():
        task.exception()

"""What stories about a simulated cluster need: records for partition 0, and waiting in the time of the simulation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from goqueue.broker.replicas.roles import Leading
from goqueue.codec.batch_encode import encode_batch
from goqueue.errors import GoQueueError
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


async def written_alone(node: ReplicaNode) -> None:
    node.partitions.leader(*PLACE).writer.append(batch(1), now_ms=1)


def ignored(task: asyncio.Future[object]) -> None:
    if not task.cancelled():
        task.exception()

"""A damaged log that was compacted is emptied and copied anew, but only once nobody counts on what it still has."""

from __future__ import annotations

import asyncio
import logging

import pytest
from tests.sim.cluster_stories import PLACE, HeldAssignment, batch, end_of, produce, until
from tests.sim.test_cluster_damage import HOME, frames_of, log_of

from goqueue.cluster.replication.follower_stream import FollowerStream
from goqueue.cluster.replication.messages import Round
from goqueue.log.partition_log import PartitionLog
from goqueue.metadata.events import Assignment
from goqueue.testing.cluster.cluster import SimCluster
from goqueue.testing.cluster.loop import LIFE
from goqueue.testing.cluster.replica_node import ReplicaNode


@pytest.fixture(autouse=True)
def _compacted(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.CRITICAL, logger="goqueue.cluster")
    # As if compaction had taken something.
    monkeypatch.setattr(PartitionLog, "is_dense", property(lambda _self: False))


def assignment_in(cluster: SimCluster) -> Assignment:
    return cluster.metadata.image.assignments(cluster.topic_id)[PLACE.partition]


def spoil(cluster: SimCluster, node: int) -> None:
    """Flip a bit in the first record of a node's log."""
    files = cluster.slots[node].files
    name = next(name for name in sorted(files.list(HOME)) if name.endswith(".log"))
    files.flip_bit(f"{HOME}/{name}", files.size(f"{HOME}/{name}") // 4)


def resets_of(cluster: SimCluster, number: int) -> int:
    node = cluster.slots[number].node
    return 0 if node is None else node.partitions.repairs.resets


def test_a_damaged_in_sync_replica_leaves_is_copied_anew_and_comes_back() -> None:
    cluster = SimCluster(1)

    async def story() -> None:
        for sequence in range(8):
            await produce(cluster, 1, sequence)
        spoil(cluster, 3)
        await until(lambda: resets_of(cluster, 3) == 1, seconds=60)
        await until(lambda: 3 in assignment_in(cluster).isr, seconds=60)
        assert frames_of(log_of(cluster, 3)) == frames_of(log_of(cluster, 1))

    cluster.run(story())


def test_a_replica_is_not_emptied_while_the_write_that_lets_it_in_is_on_its_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Node 3 has caught up, and its leader lets it in. Before that is written, damage is found in its log."""
    cluster = SimCluster(1)
    take = FollowerStream._take_round

    async def nothing_to_an_empty_log(self: FollowerStream, message: Round, frames: memoryview) -> None:
        life = LIFE.get()
        if life is not None and life.node_id == 3 and end_of(cluster, 3) == 0:
            await asyncio.Event().wait()
        await take(self, message, frames)

    async def story() -> None:
        for sequence in range(8):
            await produce(cluster, 1, sequence)
        cluster.kill(3)
        await cluster.controller.end_session(3)
        await produce(cluster, 1, 8)
        assignment = HeldAssignment(cluster, 1)
        await cluster.start(3)
        await assignment.is_sent()
        monkeypatch.setattr(FollowerStream, "_take_round", nothing_to_an_empty_log)
        spoil(cluster, 3)
        await asyncio.sleep(20)
        assignment.let_go()
        await asyncio.sleep(0.5)
        assert not (3 in assignment_in(cluster).isr and end_of(cluster, 3) == 0), "it may be elected with an empty log"

    cluster.run(story())


def test_an_eligible_replica_leaves_the_list_and_is_copied_anew() -> None:
    """Without that it could neither be repaired nor join, and acks=all would be refused for ever."""
    cluster = SimCluster(1)

    async def story() -> None:
        for sequence in range(8):
            await produce(cluster, 1, sequence)
        for node in (3, 2):
            cluster.kill(node)
            await cluster.controller.end_session(node)
        await until(lambda: assignment_in(cluster).isr == (1,))
        assert 2 in assignment_in(cluster).eligible
        spoil(cluster, 2)
        await cluster.request(1, _goes_on_alone)
        await cluster.start(2)
        await until(lambda: 2 in assignment_in(cluster).isr, seconds=60)
        assert frames_of(log_of(cluster, 2)) == frames_of(log_of(cluster, 1))

    cluster.run(story())


async def _goes_on_alone(node: ReplicaNode) -> None:
    node.partitions.leader(*PLACE).writer.append(batch(8), now_ms=1)

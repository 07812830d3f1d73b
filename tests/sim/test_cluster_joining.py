"""Who may join the in-sync replicas: only a follower that has, on its disk, all that was ever acknowledged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest
from tests.sim.cluster_stories import PLACE, end_of, produce, until

from goqueue.cluster.replication.follower_stream import FollowerStream
from goqueue.cluster.replication.messages import Progress, Round
from goqueue.metadata.events import Assignment
from goqueue.node.disk.flusher import Flusher
from goqueue.records import LogKind
from goqueue.testing.cluster.cluster import SimCluster
from goqueue.testing.cluster.loop import LIFE
from goqueue.testing.cluster.replica_node import ReplicaNode


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="goqueue.cluster")


def assignment_in(cluster: SimCluster) -> Assignment:
    return cluster.metadata.image.assignments(cluster.topic_id)[PLACE.partition]


def held_wires(cluster: SimCluster, sender: int, receiver: int) -> Callable[[], None]:
    """What is on its way between two nodes, and what is sent after it on the same connections, is late.

    Returns what lets all of it arrive.
    """
    wires = [
        wire for wire in cluster.network._wires if (wire.sender.node_id, wire.receiver.node_id) == (sender, receiver)
    ]
    deliver = {wire: wire._deliver for wire in wires}
    for wire in wires:
        wire._deliver = lambda: None  # type: ignore[method-assign]

    def release() -> None:
        for wire in wires:
            for _ in range(len(wire._under_way)):
                deliver[wire]()

    return release


async def _empty_and_connect_again(node: ReplicaNode) -> None:
    """As a repair does with a damaged log that was compacted; then the connection breaks."""
    partition = node.partitions.replica(*PLACE)
    await node.partitions.rework(partition, LogKind.DATA, "it is emptied", lambda: partition.log.reset_to(0))
    for stream in node.replication._streams.values():
        stream.renew()


def test_what_a_follower_said_on_an_earlier_connection_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Node 3 has caught up, and says so on a connection on which it is late. Then its log is emptied."""
    cluster = SimCluster(1)
    take = FollowerStream._take_round
    is_empty = asyncio.Event()

    async def later(self: FollowerStream, message: Round, frames: memoryview) -> None:
        life = LIFE.get()
        if is_empty.is_set() and life is not None and life.node_id == 3:
            await asyncio.Event().wait()
        await take(self, message, frames)

    monkeypatch.setattr(FollowerStream, "_take_round", later)

    async def story() -> None:
        for sequence in range(3):
            await produce(cluster, 1, sequence)
        cluster.kill(3)
        await cluster.controller.end_session(3)
        cluster.wipe(3)
        await produce(cluster, 1, 3)
        await cluster.start(3)
        await until(lambda: end_of(cluster, 3) > 0)
        release = held_wires(cluster, 3, 1)
        await until(lambda: end_of(cluster, 3) == 4)
        # Its sync is reported as well.
        await asyncio.sleep(1)
        assert 3 not in assignment_in(cluster).isr
        is_empty.set()
        await cluster.request(3, _empty_and_connect_again)
        await until(lambda: end_of(cluster, 3) == 0)
        # The new connection is made, and the log is matched on it.
        await asyncio.sleep(1)
        release()
        await asyncio.sleep(1)
        assert 3 not in assignment_in(cluster).isr, "its log is empty"

    cluster.run(story())


def test_a_follower_does_not_join_without_what_was_acknowledged_while_another_has_just_connected_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Node 3 has written everything and synced nothing; node 2 has not said yet how far it has synced."""
    cluster = SimCluster(1)
    start_rounds, progress = Flusher._start_rounds, FollowerStream._progress
    silent: set[int] = set()

    def on_a_slow_disk(self: Flusher) -> None:
        life = LIFE.get()
        if life is None or life.node_id != 3:
            start_rounds(self)

    def later(self: FollowerStream) -> Progress:
        said, life = progress(self), LIFE.get()
        is_silent = life is not None and life.node_id in silent
        return Progress(said.round, ()) if is_silent else said

    monkeypatch.setattr(FollowerStream, "_progress", later)

    async def connect_again(node: ReplicaNode) -> None:
        for stream in node.replication._streams.values():
            stream.renew()

    async def story() -> None:
        await produce(cluster, 1, 0)
        cluster.kill(3)
        await cluster.controller.end_session(3)
        monkeypatch.setattr(Flusher, "_start_rounds", on_a_slow_disk)
        await cluster.start(3)
        await produce(cluster, 1, 1)
        await until(lambda: end_of(cluster, 3) == 2)
        silent.add(2)
        await cluster.request(2, connect_again)
        await asyncio.sleep(2)
        assert 3 not in assignment_in(cluster).isr, "a power cut would take what was acknowledged"

    cluster.run(story())


def test_a_follower_that_subscribes_between_two_sessions_joins_once_it_has_one() -> None:
    """It is told so late of its new session that it subscribes without one, to a leader that knows of none either."""
    cluster = SimCluster(1)
    epoch = 0

    async def without_session(node: ReplicaNode) -> None:
        for stream in node.replication._streams.values():
            stream._broker_epoch = lambda: epoch
        node.replication._broker_epoch = lambda: epoch

    async def story() -> None:
        nonlocal epoch
        await produce(cluster, 1, 0)
        await cluster.request(2, without_session)
        await cluster.controller.end_session(2)
        await until(lambda: 2 not in assignment_in(cluster).isr)
        await asyncio.sleep(0.5)
        # The leader has no word of the session while the follower subscribes under the news of it.
        kv = cluster.slots[1].kv
        assert kv is not None
        kv.is_cut_off = True
        _, began = await cluster.controller.begin_session(2)
        await asyncio.sleep(1)
        epoch = began
        kv.is_cut_off = False
        await produce(cluster, 1, 1)
        await until(lambda: 2 in assignment_in(cluster).isr)

    cluster.run(story())


async def _want_it_between_two_cuts(node: ReplicaNode) -> int:
    partition, before = node.partitions.replica(*PLACE), node.partitions.opened_on_loop
    cuts = [
        asyncio.create_task(node.partitions.rework(partition, LogKind.DATA, "it is cut", lambda: None))
        for _ in range(2)
    ]
    await asyncio.sleep(0)
    member, *_ = await asyncio.gather(node.partitions.follow_member(PLACE, LogKind.DELAY), *cuts)
    assert member is partition.member(LogKind.DELAY)
    return node.partitions.opened_on_loop - before


@pytest.mark.parametrize("seed", [2, 3])
def test_whoever_waits_for_the_first_of_two_cuts_waits_for_the_second_as_well(seed: int) -> None:
    """The second, of a log of a gigabyte perhaps, was done on the event loop, or that waited for the thread."""
    cluster = SimCluster(seed)

    async def story() -> None:
        await produce(cluster, 1, 0, slot=True)
        await until(lambda: end_of(cluster, 3, LogKind.DELAY) == 1)
        assert await cluster.request(3, _want_it_between_two_cuts) == 0

    cluster.run(story())

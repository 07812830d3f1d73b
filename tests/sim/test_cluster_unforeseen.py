"""What nobody foresaw goes wrong once, in one of the loops that a node lives by: it is logged, and the node goes on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from errno import EIO
from random import Random
from typing import Any

import pytest
from tests.sim.cluster_stories import PLACE, end_of, produce, until
from tests.sim.control_plane import ControlPlane

from goqueue.broker.replicas.partition_files import directory_name
from goqueue.broker.replicas.partitions import Partitions
from goqueue.cluster.control import controller
from goqueue.cluster.replication.follower_stream import FollowerStream
from goqueue.cluster.replication.verification import Verification
from goqueue.errors import MetadataUnavailable, StorageError
from goqueue.log.partition_log import PartitionLog
from goqueue.metadata.shared.kv_store import KvMetadata
from goqueue.records import LogKind, TopicPartition
from goqueue.testing.clock import ManualClock
from goqueue.testing.cluster.checks import settle
from goqueue.testing.cluster.cluster import SimCluster
from goqueue.testing.cluster.loop import LIFE
from goqueue.testing.cluster.replica_node import ReplicaNode
from goqueue.testing.kv_model import KvFaults
from goqueue.testing.sim_loop import run
from goqueue.testing.sim_network import SimPeerNetwork


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="goqueue.cluster")


def fails_once(work: Callable[..., Any], *, on_node: int) -> Callable[..., Any]:
    """The same, but for the first call on that node for each leader that it follows."""
    failed: set[int] = set()

    def failing(self: Any, *args: Any) -> Any:
        life = LIFE.get()
        leader = self._leader if isinstance(self, FollowerStream) else args[0]
        if leader not in failed and life is not None and life.node_id == on_node:
            failed.add(leader)
            raise ValueError("nobody foresaw this")
        return work(self, *args)

    return failing


@pytest.mark.parametrize(
    ("where", "name"),
    [
        (FollowerStream, "_take_round"),
        (FollowerStream, "_take_answer"),
        (FollowerStream, "_subscribe"),
        (FollowerStream, "_progress"),
        (SimPeerNetwork, "connect"),
    ],
)
def test_a_follower_goes_on_copying(where: type, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise nothing that this leader leads would be copied to it until another leads, or the node starts again."""
    cluster = SimCluster(1)

    async def story() -> None:
        await produce(cluster, 1, 0)
        cluster.kill(2)
        await cluster.controller.end_session(2)
        monkeypatch.setattr(where, name, fails_once(getattr(where, name), on_node=2))
        await cluster.start(2)
        await produce(cluster, 1, 1)
        await until(lambda: end_of(cluster, 2) == 2)
        await until(lambda: 2 in cluster.stored(0).isr)

    cluster.run(story())


def test_a_partition_that_cannot_be_opened_is_tried_ever_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt is a line in the log, for each of perhaps a thousand partitions on a disk that is gone."""
    cluster = SimCluster(1)
    opening, attempts = Partitions.opening, list[int]()

    def failing(self: Partitions, topic: str, partition: int, *, to_write: bool = False) -> Any:
        life = LIFE.get()
        if life is not None and life.node_id == 2 and TopicPartition(topic, partition) == PLACE and is_gone:
            attempts.append(2)
            raise StorageError("the disk is gone")
        return opening(self, topic, partition, to_write=to_write)

    is_gone = True

    async def story() -> None:
        nonlocal is_gone
        await produce(cluster, 1, 0)
        cluster.kill(2)
        await cluster.controller.end_session(2)
        monkeypatch.setattr(ReplicaNode, "_open_led", lambda _self: None)
        monkeypatch.setattr(Partitions, "opening", failing)
        await cluster.start(2)
        await asyncio.sleep(60)
        assert 5 < len(attempts) < 40
        is_gone = False
        await until(lambda: 2 in cluster.stored(0).isr)

    cluster.run(story())


def test_verification_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage in what nobody reads would not be found before it is needed."""
    cluster, verify, failed = SimCluster(1), Verification._verify, list[str]()

    async def failing(self: Verification, log: PartitionLog) -> None:
        if not failed:
            failed.append(log.directory)
            raise ValueError("nobody foresaw this")
        await verify(self, log)
        verified.append(log.directory)

    verified = list[str]()

    async def story() -> None:
        monkeypatch.setattr(Verification, "_verify", failing)
        await produce(cluster, 1, 0)
        cluster.kill(2)
        cluster.kill(3)
        await asyncio.sleep(30)
        assert failed
        assert verified, "of the node whose verification failed, the only one"

    cluster.run(story())


def test_a_partition_that_fails_again_and_again_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection was closed each time, before anything was copied of any partition of that leader."""
    # Node 1 leads the first and the last of them.
    cluster, subscribe, failed = SimCluster(1, partitions=4), FollowerStream._subscribe, list[float]()

    def failing(self: FollowerStream, place: TopicPartition, leader_epoch: int, kind: LogKind) -> None:
        life = LIFE.get()
        if place.partition == 3 and life is not None and life.node_id == 2:
            failed.append(asyncio.get_running_loop().time())
            raise ValueError("nobody foresaw this")
        subscribe(self, place, leader_epoch, kind)

    async def story() -> None:
        await produce(cluster, 1, 0)
        cluster.kill(2)
        await cluster.controller.end_session(2)
        monkeypatch.setattr(FollowerStream, "_subscribe", failing)
        await cluster.start(2)
        await produce(cluster, 1, 1)
        await until(lambda: end_of(cluster, 2) == 2)
        await until(lambda: 2 in cluster.stored(0).isr)
        await asyncio.sleep(30)
        assert len(failed) < 20, "ever less often"
        monkeypatch.setattr(FollowerStream, "_subscribe", subscribe)
        await until(lambda: 2 in cluster.stored(3).isr)

    cluster.run(story())


def played(scene: Callable[[ControlPlane], Any]) -> None:
    """A scene of three nodes that have started, with a shared store that does what it should."""
    clock = ManualClock()

    async def play() -> None:
        cluster = ControlPlane(clock, Random(1))
        cluster.faults = KvFaults()
        await cluster.found()
        await scene(cluster)
        for member in cluster.members.values():
            await member.kill()

    run(play(), clock=clock, order=Random(1))


def test_the_controller_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds the office as long as its session lasts: without its loop nobody would ever be elected."""
    decide, failed = controller.decide, list[object]()

    def failing(*args: Any, **kwargs: Any) -> Any:
        if not failed:
            failed.append(args)
            raise ValueError("nobody foresaw this")
        return decide(*args, **kwargs)

    async def scene(cluster: ControlPlane) -> None:
        office = next(one for one in cluster.members.values() if one.metadata and one.metadata.image.controller)
        assert office.metadata is not None
        assert office.metadata.image.controller is not None
        chief = office.metadata.image.controller[0]
        victim = next(number for number in cluster.members if number != chief)
        monkeypatch.setattr(controller, "decide", failing)
        await cluster.members[victim].kill()
        await cluster.settled(
            lambda: all(cluster.truth(number)[0].leader not in (victim, -1) for number in cluster.data)
        )
        assert failed

    played(scene)


def test_a_node_keeps_its_session() -> None:
    async def scene(cluster: ControlPlane) -> None:
        member = cluster.members[2]
        assert member.session is not None
        assert member.client is not None
        keep_alive, failed = member.client.keep_alive, list[int]()

        async def failing(lease: int) -> None:
            if not failed:
                failed.append(lease)
                raise ValueError("nobody foresaw this")
            await keep_alive(lease)

        member.client.keep_alive = failing  # type: ignore[method-assign]
        await asyncio.sleep(30)
        assert failed
        assert member.session.is_alive()
        assert cluster.living() == {1, 2, 3}

    played(scene)


def test_a_node_registers_again() -> None:
    async def scene(cluster: ControlPlane) -> None:
        member = cluster.members[2]
        assert member.registration is not None
        assert member.session is not None
        assert member.client is not None
        keep_epoch, failed = member.registration._keep_epoch, list[int]()

        async def failing(epoch: int) -> None:
            if not failed:
                failed.append(epoch)
                raise ValueError("nobody foresaw this")
            await keep_epoch(epoch)

        member.registration._keep_epoch = failing
        await member.client.revoke(member.session.lease)
        await cluster.settled(lambda: bool(failed))
        await cluster.settled(lambda: cluster.living() == {1, 2, 3})

    played(scene)


def test_who_waits_for_metadata_that_cannot_be_followed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(cluster: ControlPlane) -> None:
        metadata = cluster.members[2].metadata
        assert metadata is not None
        take = KvMetadata._take

        def failing(self: KvMetadata, change: Any) -> None:
            if self is metadata:
                raise TypeError("nobody foresaw this")
            take(self, change)

        monkeypatch.setattr(KvMetadata, "_take", failing)
        with pytest.raises(MetadataUnavailable, match="cannot be followed"):
            await asyncio.wait_for(metadata.catch_up(), 60)
        assert metadata.problem() is not None

    played(scene)


@pytest.mark.parametrize("kind", [LogKind.DATA, LogKind.DELAY])
def test_a_partition_that_its_leader_cannot_open_is_led_by_another_replica(
    kind: LogKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node is alive and in sync, so that no election takes the partition away from it."""
    cluster, open_log = SimCluster(1), PartitionLog.open
    home = directory_name(0, kind)

    def failing(files: Any, directory: str, **options: Any) -> PartitionLog:
        if files is cluster.slots[2].files and directory.endswith(f"/{home}"):
            raise OSError(EIO, "the disk is bad", directory)
        return open_log(files, directory, **options)

    async def reopen(node: ReplicaNode) -> None:
        await node.partitions.reopen(node.partitions.replica(*PLACE))

    async def story() -> None:
        await produce(cluster, 1, 0, slot=True)
        await settle(cluster)
        # As when a sync has failed. Nothing is written, so that it stays in sync.
        monkeypatch.setattr(PartitionLog, "open", failing)
        with suppress(StorageError):
            await cluster.request(2, reopen)
        cluster.kill(1)
        await cluster.controller.end_session(1)
        assert (cluster.stored(0).leader, cluster.stored(0).isr) == (2, (2, 3))
        await until(lambda: cluster.stored(0).leader == 3, seconds=10)
        assert cluster.stored(0).isr == (3,)
        assert 2 not in cluster.stored(0).eligible, "what its log has is not known"

    cluster.run(story())

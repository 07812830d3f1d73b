"""A follower's log is cut in a thread: nobody uses it meanwhile, and a role that comes meanwhile is taken then."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from tests.sim.cluster_stories import PLACE, end_of, heal, is_leading, node_2_is_ahead, produce, until

from goqueue.broker.replicas.partition import Partition
from goqueue.errors import StorageError
from goqueue.log.partition_log import PartitionLog
from goqueue.metadata.events import TopicDeleted
from goqueue.testing.cluster.checks import settle
from goqueue.testing.cluster.cluster import TOPIC, SimCluster

T = TypeVar("T")


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="goqueue.cluster")


def partition_of(cluster: SimCluster, number: int) -> Partition:
    node = cluster.slots[number].node
    assert node is not None
    return node.partitions.replica(*PLACE)


class HeldThreads:
    """An offload whose work begins only when it may."""

    def __init__(self, offload: Callable[[Callable[[], T]], Awaitable[T]]) -> None:
        self._offload = offload
        self.may_run = asyncio.Event()
        self.asked = 0

    async def __call__(self, work: Callable[[], T]) -> T:
        self.asked += 1
        await self.may_run.wait()
        return await self._offload(work)


def test_a_log_that_is_being_cut_takes_neither_reads_nor_frames_and_its_new_role_waits() -> None:
    cluster = SimCluster(1)

    async def story() -> None:
        await node_2_is_ahead(cluster)
        partition = partition_of(cluster, 2)
        node = cluster.slots[2].node
        assert node is not None
        assert partition.log.end_offset == 2, "one record that nobody else has"
        held = node.partitions._openings._offload = HeldThreads(node.partitions._openings._offload)
        heal(cluster)
        await until(lambda: bool(partition.log.busy_with))
        with pytest.raises(StorageError, match="cannot be used now: it is cut to what node 1 has"):
            partition.log.read_frames(0, max_bytes=1000, upper=1)
        with pytest.raises(StorageError, match="cannot be used now"):
            partition.log.append_frames(b"", continues=2)
        assert partition.log.begin_sync() is None
        topic = cluster.metadata.image.topic(TOPIC)
        assert topic is not None
        await cluster.controller.move(topic, 0)
        await until(lambda: node.metadata.image.assignments(cluster.topic_id)[0].leader == 2)
        await asyncio.sleep(1)
        assert node.partitions.at_hand(*PLACE) is None, "it leads once its log is cut"
        assert partition.log.end_offset == 2
        held.may_run.set()
        await until(lambda: is_leading(cluster, 2))
        assert partition_of(cluster, 2) is partition
        assert end_of(cluster, 2) == 1
        await produce(cluster, 2, 0, producer_id=2)
        await settle(cluster)
        assert [end_of(cluster, number) for number in (1, 2, 3)] == [2, 2, 2]

    cluster.run(story())


def test_a_topic_that_is_deleted_while_a_log_of_it_is_cut_stays_deleted() -> None:
    cluster = SimCluster(2)

    async def story() -> None:
        await node_2_is_ahead(cluster)
        partition = partition_of(cluster, 2)
        node = cluster.slots[2].node
        assert node is not None
        held = node.partitions._openings._offload = HeldThreads(node.partitions._openings._offload)
        heal(cluster)
        await until(lambda: bool(partition.log.busy_with))
        topic = cluster.metadata.image.topic(TOPIC)
        assert topic is not None
        await cluster.metadata.commit([TopicDeleted(TOPIC, topic.topic_id)])
        await until(lambda: node.metadata.image.topic(TOPIC) is None)
        held.may_run.set()
        await asyncio.sleep(1)
        assert not node.partitions.all_open()
        assert not cluster.slots[2].files.exists(f"logs/{TOPIC}")

    cluster.run(story())


def test_a_log_that_a_failed_cut_left_unusable_is_recovered_without_a_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = SimCluster(3)
    cuts: list[int] = []
    cut = PartitionLog.truncate_to

    def counted(self: PartitionLog, offset: int) -> int:
        cuts.append(offset)
        return cut(self, offset)

    monkeypatch.setattr(PartitionLog, "truncate_to", counted)

    async def story() -> None:
        await node_2_is_ahead(cluster)
        slot = cluster.slots[2]
        assert slot.node is not None
        life = slot.life
        slot.files.faults.fail("truncate", "*/0/*.log")
        heal(cluster)
        await until(lambda: slot.node is not None and slot.node.partitions.repairs.reopened == 1)
        assert cuts == [1], "the one that failed"
        await settle(cluster)
        assert slot.life is life, "the node was not started again"
        assert [end_of(cluster, number) for number in (1, 2, 3)] == [1, 1, 1]
        await produce(cluster, 1, 0, producer_id=2)
        await settle(cluster)
        assert end_of(cluster, 2) == 2

    cluster.run(story())


def test_a_follower_whose_sync_failed_is_recovered_without_a_restart() -> None:
    cluster = SimCluster(4)

    async def story() -> None:
        await produce(cluster, 1, 0)
        slot = cluster.slots[2]
        life, node = slot.life, slot.node
        assert node is not None
        slot.files.faults.fail("sync", "*/0/*.log")
        await produce(cluster, 1, 1)
        await until(lambda: node.partitions.repairs.reopened == 1)
        await settle(cluster)
        assert slot.life is life
        assert [end_of(cluster, number) for number in (1, 2, 3)] == [2, 2, 2]
        assert not any(log.poisoned for log in node.partitions.open_logs())

    cluster.run(story())

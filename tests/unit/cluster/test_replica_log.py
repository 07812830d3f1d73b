"""One log of a follower: what it is asked to sync."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast
from uuid import UUID

from tests.unit.cluster.test_replicated_writer import PLACE, HeldDisk, Led

from goqueue.broker.replicas.family import FamilyLog
from goqueue.broker.replicas.partition import Partition
from goqueue.broker.replicas.roles import Following
from goqueue.cluster.replication.messages import LogRound
from goqueue.cluster.replication.replica_log import ReplicaLog
from goqueue.errors import StorageError
from goqueue.log.partition_log import PartitionLog
from goqueue.log.settings import LogSettings
from goqueue.records import LogKind
from goqueue.testing.memory_files import MemoryFiles


def a_copy(disk: HeldDisk) -> tuple[ReplicaLog, PartitionLog]:
    copy = PartitionLog.open(MemoryFiles(), "logs/orders/0", settings=LogSettings(), topic_id=UUID(int=1), now_ms=0)
    partition = SimpleNamespace(key=PLACE, id=0, topic_id=UUID(int=1), role=Following(4, 1))
    member = SimpleNamespace(kind=LogKind.DATA, log=copy)
    return ReplicaLog(cast("Partition", partition), cast("FamilyLog", member), 4, disk), copy


async def test_tombstones_count_as_seen_once_they_are_on_the_disk() -> None:
    """A checkpoint says so, and a power cut may take them: what they deleted would stay in this copy for ever."""
    leader = Led(records=3).log
    disk = HeldDisk()
    log, copy = a_copy(disk)
    frames = b"".join(leader.read_frames(0, max_bytes=1 << 20, upper=3).batches)
    copy.make_first_segment()
    log.subscribe(1, 7)
    log.take(LogRound(1, 0, len(frames), 3, 3, 0, tombstones_gone_to=2), frames, lambda _: None)
    assert copy.tombstones_gone_to == 0
    await disk.sync()
    log.take(LogRound(1, 3, 0, 3, 3, 0, tombstones_gone_to=2), b"", lambda _: None)
    assert copy.tombstones_gone_to == 2


async def test_a_sync_that_failed_is_told_until_the_leader_is_asked_anew() -> None:
    """The leader asks once: acks=all waited until this replica was not in sync any more."""
    leader = Led(records=3).log
    disk, told = HeldDisk(), list[bool]()
    log, copy = a_copy(disk)
    frames = b"".join(leader.read_frames(0, max_bytes=1 << 20, upper=3).batches)
    copy.make_first_segment()
    log.subscribe(1, 7)
    log.take(LogRound(1, 0, len(frames), 3, 3, 0), frames, lambda one: told.append(one.has_failed_sync))
    await disk.sync(StorageError("no room"))
    await asyncio.sleep(0)
    assert told == [True]
    log.subscribe(2, 7)
    log.take(LogRound(2, 3, 0, 3, 3, 0), b"", lambda one: told.append(one.has_failed_sync))
    await disk.sync()
    await asyncio.sleep(0)
    assert told == [True, False]


async def test_an_empty_copy_of_a_log_without_tombstones_lacks_them_from_its_first_record_on() -> None:
    """Or it would begin anew whenever it connects again."""
    log, copy = a_copy(HeldDisk())
    log.note_tombstones_gone(80)
    assert copy.tombstones_gone_to == 80


async def test_a_log_that_was_emptied_is_synced_again_when_the_leader_asks_for_what_it_had_before() -> None:
    """Otherwise nothing says that its copy is safe, and on an idle topic it never joins the in-sync replicas."""
    leader = Led(records=3).log
    disk, synced = HeldDisk(), list[ReplicaLog]()
    log, copy = a_copy(disk)
    frames = b"".join(leader.read_frames(0, max_bytes=1 << 20, upper=3).batches)
    copy.make_first_segment()
    for subscription in (1, 2):
        log.subscribe(subscription, 7)
        log.take(LogRound(subscription, 0, len(frames), 3, 3, 0), frames, synced.append)
        await disk.sync()
        await asyncio.sleep(0)
        assert len(synced) == subscription
        assert log.reached().synced_end == 3
        copy.reset_to(0)
        copy.make_first_segment()

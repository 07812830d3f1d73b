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
from goqueue.log.partition_log import PartitionLog
from goqueue.log.settings import LogSettings
from goqueue.records import LogKind
from goqueue.testing.memory_files import MemoryFiles


async def test_a_log_that_was_emptied_is_synced_again_when_the_leader_asks_for_what_it_had_before() -> None:
    """Otherwise nothing says that its copy is safe, and on an idle topic it never joins the in-sync replicas."""
    leader = Led(records=3).log
    disk, synced = HeldDisk(), list[ReplicaLog]()
    copy = PartitionLog.open(MemoryFiles(), "logs/orders/0", settings=LogSettings(), topic_id=UUID(int=1), now_ms=0)
    partition = SimpleNamespace(key=PLACE, id=0, topic_id=UUID(int=1), role=Following(4, 1))
    member = SimpleNamespace(kind=LogKind.DATA, log=copy)
    log = ReplicaLog(cast("Partition", partition), cast("FamilyLog", member), 4, disk)
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

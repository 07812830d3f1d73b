"""The one writer of a partition: what it tells to whom."""

from __future__ import annotations

import asyncio
from uuid import UUID

from goqueue.broker.reading.waiters import Waiter, Waiters
from goqueue.broker.replicas.local_writer import LocalWriter
from goqueue.codec.batch_encode import encode_batch
from goqueue.errors import GoQueueError
from goqueue.log.partition_log import PartitionLog
from goqueue.log.settings import LogSettings
from goqueue.records import Acks, NewRecord
from goqueue.testing.memory_files import MemoryFiles

NOW_MS = 1_700_000_000_000


class CountingSyncer:
    def __init__(self) -> None:
        self.dirty = 0
        self.waits: list[int] = []
        self.given_up: GoQueueError | None = None

    def mark_dirty(self, log: PartitionLog) -> None:
        self.dirty += 1

    def flush_soon(self) -> None: ...

    def give_up(self, log: PartitionLog, reason: GoQueueError) -> None:
        self.given_up = reason

    def synced(self, log: PartitionLog, end_offset: int) -> asyncio.Future[None]:
        self.waits.append(end_offset)
        return asyncio.get_running_loop().create_future()


def a_writer(*, syncs_every_batch: bool = False) -> tuple[LocalWriter, PartitionLog, CountingSyncer, Waiters]:
    log = PartitionLog.open(MemoryFiles(), "logs/t/0", settings=LogSettings(), topic_id=UUID(int=1), now_ms=NOW_MS)
    syncer, waiters = CountingSyncer(), Waiters()
    writer = LocalWriter(log, syncer, waiters, leader_epoch=4, syncs_every_batch=syncs_every_batch)
    return writer, log, syncer, waiters


def a_batch(sequence: int = -1) -> bytes:
    producer = {"producer_id": 5, "producer_epoch": 0, "base_sequence": sequence} if sequence >= 0 else {}
    return encode_batch([NewRecord(None, b"v")], now_ms=NOW_MS, **producer)


async def test_an_append_is_readable_dirty_and_of_the_leaders_epoch() -> None:
    writer, log, syncer, _ = a_writer()
    appended = writer.append(a_batch(), now_ms=NOW_MS)
    assert (appended.base_offset, log.high_watermark, log.leader_epoch) == (0, 1, 4)
    assert syncer.dirty == 1


async def test_a_retry_changes_nothing_and_wakes_nobody() -> None:
    writer, _, syncer, waiters = a_writer()
    writer.append(a_batch(0), now_ms=NOW_MS)
    waiting = asyncio.create_task(Waiter(1).wait([waiters], 60))
    await asyncio.sleep(0)
    assert writer.append(a_batch(0), now_ms=NOW_MS).duplicate
    await asyncio.sleep(0)
    assert not waiting.done()
    assert syncer.dirty == 1
    writer.append(a_batch(1), now_ms=NOW_MS)
    await waiting


async def test_only_those_who_asked_for_the_disk_wait_for_it() -> None:
    writer, _, syncer, _ = a_writer()
    writer.append(a_batch(), now_ms=NOW_MS)
    assert writer.reached(1, Acks.NONE) is None
    assert writer.reached(1, Acks.LEADER) is None
    assert writer.reached(1, Acks.ALL) is not None
    assert writer.reached(0, Acks.ALL) is None
    assert syncer.waits == [1]


async def test_with_flush_messages_1_the_leader_waits_for_the_disk_too() -> None:
    writer, _, _, _ = a_writer(syncs_every_batch=True)
    writer.append(a_batch(), now_ms=NOW_MS)
    assert writer.reached(1, Acks.NONE) is None
    assert writer.reached(1, Acks.LEADER) is not None

"""The writer of a log with copies: when a write may be read, when it is acknowledged, and when it is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest

from goqueue.broker.reading.waiters import Waiters
from goqueue.broker.replicas.writers import TermLog
from goqueue.cluster.replicated_writer import ReplicatedWriter
from goqueue.cluster.replication.term import PartitionTerm
from goqueue.codec.batch_encode import encode_batch
from goqueue.errors import (
    GoQueueError,
    LogPoisoned,
    MetadataUnavailable,
    NotEnoughReplicasAfterAppend,
    NotLeader,
    StorageError,
)
from goqueue.log.partition_log import PartitionLog
from goqueue.log.settings import LogSettings
from goqueue.records import Acks, LogKind, NewRecord, TopicPartition
from goqueue.testing.memory_files import MemoryFiles

PLACE = TopicPartition("orders", 0)


class HeldDisk:
    """A syncer that syncs when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[PartitionLog, asyncio.Future[None]]] = []

    def mark_dirty(self, log: PartitionLog) -> None:
        pass

    def flush_soon(self) -> None:
        pass

    def synced(self, log: PartitionLog, end_offset: int) -> Awaitable[None]:
        assert end_offset <= log.end_offset
        future = asyncio.get_running_loop().create_future()
        self.waiting.append((log, future))
        return future

    def give_up(self, log: PartitionLog, reason: GoQueueError) -> None:
        pass

    async def sync(self, error: GoQueueError | None = None) -> None:
        waiting, self.waiting = self.waiting, []
        for log, future in waiting:
            if error is not None:
                future.set_exception(error)
                continue
            sync = log.begin_sync()
            if sync is not None:
                sync.run()
                log.end_sync(sync, None)
            future.set_result(None)
        await asyncio.sleep(0)


class Led:
    """A partition that node 1 leads, with followers 2 and 3."""

    def __init__(self, *, isr: tuple[int, ...] = (1, 2, 3), acks_written: bool = False, records: int = 0) -> None:
        self.disk = HeldDisk()
        self.failures: list[StorageError] = []
        # What the metadata shows when it is asked.
        self.on_confirm: Callable[[], None] = lambda: None
        self.log = PartitionLog.open(
            MemoryFiles(), "logs/orders/0", settings=LogSettings(), topic_id=UUID(int=1), now_ms=0
        )
        for number in range(records):
            self.log.append_batch(_batch(number), now_ms=1, leader_epoch=3)
        self.log.begin_epoch(4)
        self.term = PartitionTerm(PLACE, UUID(int=1), node_id=1, leader_epoch=4, isr=isr, partition_epoch=1, now_ms=0)
        self.writer = ReplicatedWriter(
            TermLog(PLACE, UUID(int=1), LogKind.DATA, self.log, Waiters(), 4, syncs_every_batch=False),
            self.term,
            self.disk,
            min_insync=lambda: 2,
            eligible_below=lambda: 2,
            confirm=self._confirm,
            acks_written=acks_written,
            on_change=lambda _writer, *, is_urgent=True: None,
            on_failure=self.failures.append,
        )

    async def _confirm(self) -> None:
        self.on_confirm()

    def report(self, follower: int, written_end: int, synced_end: int) -> None:
        data = self.writer.term
        if follower not in data.positions:
            self.term.subscribe(follower, LogKind.DATA, broker_epoch=follower, end=written_end, now_ms=1)
        data.positions[follower].report(written_end, synced_end, data, 2)
        self.writer.advance()

    def write(self, number: int = 0) -> asyncio.Future[None]:
        end = self.writer.append(_batch(number), now_ms=2).end_offset
        reached = self.writer.reached(end, Acks.ALL)
        assert reached is not None
        return asyncio.ensure_future(reached)


def _batch(number: int) -> bytes:
    return encode_batch([NewRecord(None, b"%d" % number)], now_ms=1)


async def test_a_write_may_be_read_when_all_have_written_it_and_is_acknowledged_when_all_have_synced_it() -> None:
    led = Led()
    done = led.write()
    led.report(2, 1, 0)
    assert led.log.high_watermark == 0
    led.report(3, 1, 1)
    assert led.log.high_watermark == 1
    await led.disk.sync()
    assert not done.done(), "node 2 has not synced it"
    led.report(2, 1, 1)
    await done


async def test_the_disk_of_the_leader_counts_like_any_other() -> None:
    led = Led()
    done = led.write()
    led.report(2, 1, 1)
    led.report(3, 1, 1)
    assert not done.done()
    await led.disk.sync()
    await done


async def test_written_is_enough_where_the_settings_say_so() -> None:
    led = Led(acks_written=True)
    done = led.write()
    led.report(2, 1, 0)
    led.report(3, 1, 0)
    await done
    assert led.disk.waiting == []


async def test_a_write_is_refused_afterwards_when_the_in_sync_replicas_became_too_few() -> None:
    led = Led()
    done = led.write()
    led.term.take_isr((1,), 2)
    led.writer.advance()
    await led.disk.sync()
    with pytest.raises(NotEnoughReplicasAfterAppend, match=r"min\.insync\.replicas=2"):
        await done


async def test_what_was_acknowledged_stays_so_when_replicas_leave() -> None:
    led = Led()
    done = led.write()
    await led.disk.sync()
    for follower in (2, 3):
        led.report(follower, 1, 1)
    await done
    led.term.take_isr((1,), 2)
    assert led.writer.reached(1, Acks.ALL) is None


async def test_a_new_leader_is_settled_when_the_followers_have_what_was_there_at_its_election() -> None:
    led = Led(records=5)
    settled = [led.writer.is_settled]
    readable = led.writer.readable(5)
    assert readable is not None
    waiting = asyncio.ensure_future(readable)
    await asyncio.sleep(0)
    led.report(2, 5, 5)
    led.report(3, 4, 4)
    settled.append(led.writer.is_settled)
    led.report(3, 5, 4)
    settled.append(led.writer.is_settled)
    assert settled == [False, False, True]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done(), "coordinators load only what is on the leader's own disk, too"
    await led.disk.sync()
    await waiting


async def test_what_was_written_in_a_term_that_ended_too_early_is_told_apart_from_what_was_not() -> None:
    """The next leader may have it: whoever sends it again for the client may store it twice."""
    led = Led()
    waiting = led.write()
    end = led.writer.append(_batch(1), now_ms=2).end_offset
    led.writer.end(NotLeader("node 2 leads", leader=2, leader_epoch=5))
    with pytest.raises(NotLeader) as waited:
        await waiting
    with pytest.raises(NotLeader) as asked_later:
        led.writer.reached(end, Acks.ALL)
    with pytest.raises(NotLeader) as refused:
        led.writer.append(_batch(2), now_ms=3)
    assert (waited.value.may_be_done, asked_later.value.may_be_done, refused.value.may_be_done) == (True, True, False)


async def test_whoever_waits_is_told_when_the_term_ends_and_nothing_is_written_after_it() -> None:
    led = Led()
    done = led.write()
    led.writer.end(NotLeader("node 2 leads", leader=2, leader_epoch=5))
    with pytest.raises(NotLeader):
        await done
    with pytest.raises(NotLeader) as refused:
        led.writer.append(_batch(1), now_ms=2)
    assert (refused.value.leader, led.log.end_offset) == (2, 1)


async def test_a_disk_that_fails_fails_who_waits_and_is_told_to_whoever_hands_over() -> None:
    led = Led()
    done = led.write()
    await led.disk.sync(LogPoisoned("logs/orders/0", "Input/output error"))
    with pytest.raises(LogPoisoned):
        await done
    assert len(led.failures) == 1


async def test_what_is_sent_again_after_a_sync_that_failed_is_synced() -> None:
    """As with a disk without room for a checkpoint, for a moment. Nobody else would ever have asked for that sync."""
    led = Led(isr=(1, 2))
    failed = led.write()
    led.report(2, 1, 1)
    await led.disk.sync(StorageError("no room"))
    with pytest.raises(StorageError):
        await failed
    again = led.writer.reached(1, Acks.ALL)
    assert again is not None
    await led.disk.sync()
    await asyncio.wait_for(again, 1)


async def test_leadership_is_confirmed_by_the_metadata_and_not_by_what_the_node_believes() -> None:
    led = Led()
    sure = led.writer.confirmed()
    assert sure is not None
    await sure
    led.on_confirm = lambda: led.writer.end(NotLeader("node 2 leads", leader=2, leader_epoch=5))
    unsure = led.writer.confirmed()
    assert unsure is not None
    with pytest.raises(NotLeader) as refused:
        await unsure
    assert refused.value.leader == 2


async def test_a_leader_that_does_not_reach_the_metadata_does_not_confirm_that_it_leads() -> None:
    led = Led()

    def fail() -> None:
        raise MetadataUnavailable("cut off")

    led.on_confirm = fail
    unsure = led.writer.confirmed()
    assert unsure is not None
    with pytest.raises(NotLeader, match="is not known"):
        await unsure

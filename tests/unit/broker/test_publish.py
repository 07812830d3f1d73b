"""Closed batches on their way in."""

from __future__ import annotations

import asyncio
import errno

import pytest
from tests.unit.broker.stack import Stack, records_in, values_in

from goqueue.codec.batch import parse_batch_header
from goqueue.codec.batch_encode import encode_batch
from goqueue.config import Config, DurabilityConfig, LogConfig
from goqueue.errors import (
    CorruptBatch,
    DiskFull,
    GoQueueError,
    InternalTopic,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTimestamp,
    InvalidTransactionState,
    LogPoisoned,
    MessageTooLarge,
    NotEnoughReplicas,
    OutOfOrderSequence,
    PartitionNotFound,
    TopicNotFound,
)
from goqueue.records import Acks, NewRecord, TimestampType
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import Survival
from goqueue.testing.memory_files import MemoryFiles
from goqueue.testing.sim_loop import simulated


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def test_a_batch_gets_the_next_offsets_and_is_readable_at_once() -> None:
    stack = Stack()
    await stack.topic()
    first = stack.publish.append("t", 0, stack.batch(b"a", b"b"), acks=Acks.LEADER)
    second = stack.publish.append("t", 0, stack.batch(b"c"), acks=Acks.LEADER)
    assert (first.appended.base_offset, first.appended.last_offset) == (0, 1)
    assert (second.appended.base_offset, second.appended.last_offset) == (2, 2)
    assert first.durable is None
    fetched = await stack.read()
    assert values_in(fetched) == [b"a", b"b", b"c"]
    assert [record.offset for record in records_in(fetched)] == [0, 1, 2]
    assert fetched.high_watermark == 3


async def test_acks_all_means_disk_and_not_page_cache() -> None:
    """Acks came before the sync."""
    files = MemoryFiles()
    stack = Stack(files)
    await stack.topic()
    pending = stack.publish.append("t", 0, stack.batch(b"safe"), acks=Acks.ALL)
    assert pending.durable is not None
    await pending.durable
    stack.publish.append("t", 0, stack.batch(b"not yet"), acks=Acks.LEADER)
    again = Stack(files.crash(Survival.NOTHING))
    assert [record.value for record in await again.read_all()] == [b"safe"]


async def test_one_sync_covers_every_segment_that_was_sealed_before_it() -> None:
    """More segments are sealed between two syncs than the node keeps open."""
    files = MemoryFiles()
    # One sync per file, so that each of them counts.
    durability = DurabilityConfig(syncfs_files_min=10**6)
    stack = Stack(files, config=Config(log=LogConfig(open_files_max=8), durability=durability))
    await stack.topic("t", segment_bytes="1024")
    for _ in range(30):
        stack.publish.append("t", 0, stack.batch(bytes(600)), acks=Acks.LEADER)
    await stack.write(b"last")
    again = Stack(files.crash(Survival.NOTHING))
    assert [record.offset for record in await again.read_all()] == list(range(31))


async def test_acks_all_of_what_is_on_the_disk_already_waits_for_nothing() -> None:
    stack = Stack()
    await stack.topic()
    await stack.write(b"v")
    assert stack.partitions.leader("t", 0).writer.reached(1, Acks.ALL) is None


async def test_flush_messages_1_makes_acks_leader_wait_for_the_disk() -> None:
    files = MemoryFiles()
    stack = Stack(files)
    await stack.topic("t", flush_messages="1")
    assert stack.publish.append("t", 0, stack.batch(b"v"), acks=Acks.NONE).durable is None
    pending = stack.publish.append("t", 0, stack.batch(b"v"), acks=Acks.LEADER)
    assert pending.durable is not None
    await pending.durable
    again = Stack(files.crash(Survival.NOTHING))
    assert len(await again.read_all()) == 2


@simulated
async def test_acks_leader_is_synced_within_a_second(clock: ManualClock) -> None:
    stack = Stack(clock=clock)
    await stack.topic()
    stack.publish.append("t", 0, stack.batch(b"v"), acks=Acks.LEADER)
    log = stack.partitions.leader("t", 0).log
    assert log.synced_end == 0
    await asyncio.sleep(1)
    assert log.synced_end == 1


@pytest.mark.parametrize("acks", [2, -2, 100])
async def test_other_acks_are_refused(acks: int) -> None:
    stack = Stack()
    await stack.topic()
    with pytest.raises(InvalidRequiredAcks):
        stack.publish.append("t", 0, stack.batch(b"v"), acks=acks)


async def test_acks_all_is_refused_where_there_are_too_few_copies() -> None:
    stack = Stack()
    await stack.topic("t", min_insync_replicas="2")
    with pytest.raises(NotEnoughReplicas):
        stack.publish.append("t", 0, stack.batch(b"v"), acks=Acks.ALL)
    assert stack.publish.append("t", 0, stack.batch(b"v"), acks=Acks.LEADER).appended.base_offset == 0


async def test_what_is_not_there_is_not_found() -> None:
    stack = Stack()
    await stack.topic()
    with pytest.raises(TopicNotFound):
        stack.publish.append("nope", 0, stack.batch(b"v"), acks=Acks.LEADER)
    with pytest.raises(PartitionNotFound):
        stack.publish.append("t", 1, stack.batch(b"v"), acks=Acks.LEADER)


async def test_clients_do_not_write_to_the_brokers_own_topics() -> None:
    stack = Stack()
    await stack.topics.ensure_internal("__own", 1, {})
    with pytest.raises(InternalTopic):
        stack.publish.append("__own", 0, stack.batch(b"v"), acks=Acks.LEADER)
    assert await stack.read_all("__own") == []


async def test_a_refused_batch_leaves_no_trace() -> None:
    stack = Stack()
    await stack.topic("t", max_message_bytes="200")
    await stack.write(b"v")
    good = stack.batch(b"w")
    flipped = bytearray(good)
    flipped[-1] ^= 1
    future = encode_batch([NewRecord(None, b"v", (), stack.clock.now_ms() * 2)], now_ms=0)
    for refused, error in (
        (flipped, CorruptBatch),
        (good[:-1], CorruptBatch),
        (good + good, InvalidRecord),
        (stack.batch(b"x" * 200), MessageTooLarge),
        (future, InvalidTimestamp),
        (b"", CorruptBatch),
    ):
        with pytest.raises(error):
            stack.publish.append("t", 0, refused, acks=Acks.LEADER)
    assert await stack.write(b"w") == 1


async def test_a_compacted_topic_takes_only_records_with_a_key() -> None:
    stack = Stack()
    await stack.topic("t", cleanup_policy="compact")
    with pytest.raises(InvalidRecord, match="no key"):
        stack.publish.append("t", 0, stack.batch(b"v"), acks=Acks.LEADER)
    stack.publish.append("t", 0, stack.batch(b"v", key=b"k"), acks=Acks.LEADER)
    assert [record.key for record in await stack.read_all()] == [b"k"]


async def test_where_the_broker_stamps_records_its_clock_is_stored_and_told() -> None:
    stack = Stack()
    await stack.topic("t", message_timestamp_type="LogAppendTime")
    old = encode_batch([NewRecord(None, b"v", (), 5), NewRecord(None, b"w", (), 6)], now_ms=0)
    pending = stack.publish.append("t", 0, old, acks=Acks.LEADER)
    now_ms = stack.clock.now_ms()
    assert pending.appended.stamped_ms == now_ms
    fetched = await stack.read()
    assert [record.timestamp_ms for record in records_in(fetched)] == [now_ms, now_ms]
    assert parse_batch_header(fetched.batches[0]).timestamp_type is TimestampType.LOG_APPEND_TIME
    damaged = bytearray(old)
    damaged[-1] ^= 1
    with pytest.raises(CorruptBatch):
        stack.publish.append("t", 0, damaged, acks=Acks.LEADER)


async def test_where_the_producer_stamps_records_nothing_is_told() -> None:
    stack = Stack()
    await stack.topic()
    assert stack.publish.append("t", 0, stack.batch(b"v"), acks=Acks.LEADER).appended.stamped_ms == -1


async def test_a_nearly_full_disk_refuses_writes_serves_reads_and_recovers() -> None:
    files = MemoryFiles(capacity_bytes=2_000_000)
    stack = Stack(files, config=Config(durability=DurabilityConfig(disk_free_bytes_min=1_000_000)))
    await stack.topic()
    written = 0
    with pytest.raises(DiskFull):  # noqa: PT012 - how many fit is the question
        while written < 100:
            await stack.write(bytes(50_000))
            written += 1
    assert 10 < written < 21
    assert len(await stack.read_all()) == written
    files.faults.capacity_bytes = 4_000_000
    assert await stack.write(b"again") == written


async def test_a_write_that_the_disk_refuses_is_not_in_the_log() -> None:
    files = MemoryFiles()
    stack = Stack(files)
    await stack.topic()
    await stack.write(b"a")
    files.faults.fail("append", "logs/*", code=errno.ENOSPC)
    with pytest.raises(DiskFull):
        stack.publish.append("t", 0, stack.batch(b"b"), acks=Acks.ALL)
    assert await stack.write(b"c") == 1
    assert [record.value for record in await stack.read_all()] == [b"a", b"c"]


async def test_after_a_failed_sync_nothing_more_is_promised_for_that_partition() -> None:
    files = MemoryFiles()
    stack = Stack(files)
    await stack.topic("t", 2)
    await stack.write(b"a")
    files.faults.fail("sync", "logs/t/0/*")
    pending = stack.publish.append("t", 0, stack.batch(b"b"), acks=Acks.ALL)
    assert pending.durable is not None
    with pytest.raises(GoQueueError):
        await pending.durable
    with pytest.raises(LogPoisoned):
        stack.publish.append("t", 0, stack.batch(b"c"), acks=Acks.LEADER)
    assert await stack.write(b"d", partition=1) == 0


def idempotent(stack: Stack, sequence: int, *values: bytes, epoch: int = 0) -> bytes:
    return encode_batch(
        [NewRecord(None, value) for value in values],
        producer_id=7,
        producer_epoch=epoch,
        base_sequence=sequence,
        now_ms=stack.clock.now_ms(),
    )


async def test_a_retry_is_answered_with_the_original_offset_and_stored_once() -> None:
    told: list[tuple[int, int]] = []
    stack = Stack(after_append=[lambda _arrival, first, last: told.append((first, last))])
    await stack.topic()
    await stack.write(b"before")
    batch = idempotent(stack, 0, b"a", b"b")
    first = stack.publish.append("t", 0, batch, acks=Acks.LEADER).appended
    retry = stack.publish.append("t", 0, batch, acks=Acks.ALL)
    assert (retry.appended.base_offset, retry.appended.last_offset, retry.appended.duplicate) == (1, 2, True)
    assert not first.duplicate
    # The retry asks for more than the first attempt did: it waits for the disk.
    assert retry.durable is not None
    await retry.durable
    assert len(await stack.read_all()) == 3
    assert told == [(0, 0), (1, 2)]


async def test_a_failed_append_is_not_taken_for_a_stored_one() -> None:
    """The sequence was recorded before the append."""
    files = MemoryFiles()
    stack = Stack(files)
    await stack.topic()
    batch = idempotent(stack, 0, b"a")
    files.faults.fail("append", "logs/*", code=errno.ENOSPC)
    with pytest.raises(DiskFull):
        stack.publish.append("t", 0, batch, acks=Acks.LEADER)
    assert not stack.publish.append("t", 0, batch, acks=Acks.LEADER).appended.duplicate
    assert [record.value for record in await stack.read_all()] == [b"a"]


async def test_a_gap_in_a_producers_sequence_is_refused() -> None:
    stack = Stack()
    await stack.topic()
    stack.publish.append("t", 0, idempotent(stack, 0, b"a"), acks=Acks.LEADER)
    with pytest.raises(OutOfOrderSequence):
        stack.publish.append("t", 0, idempotent(stack, 2, b"c"), acks=Acks.LEADER)


async def test_a_transactional_batch_is_refused_while_nobody_could_end_it() -> None:
    stack = Stack()
    await stack.topic()
    batch = encode_batch(
        [NewRecord(None, b"v")],
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
        now_ms=stack.clock.now_ms(),
    )
    with pytest.raises(InvalidTransactionState):
        stack.publish.append("t", 0, batch, acks=Acks.LEADER)

"""Reading closed batches: bounded, patient, and exact about what went wrong where."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.broker.stack import Stack, records_in, values_in

from goqueue.broker.reading.fetch import FetchQuery, PartitionRead
from goqueue.broker.replicas.roles import Following
from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.markers import encode_marker
from goqueue.config import Config, LimitsConfig
from goqueue.errors import (
    CorruptFrame,
    FencedLeaderEpoch,
    NotLeader,
    OffsetOutOfRange,
    PartitionNotFound,
    TopicNotFound,
    UnknownLeaderEpoch,
)
from goqueue.log.partition_log import PartitionLog
from goqueue.log.reads import Read
from goqueue.records import Acks, Isolation, NewRecord
from goqueue.testing.clock import ManualClock
from goqueue.testing.memory_files import MemoryFiles
from goqueue.testing.sim_loop import simulated


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def query(*reads: PartitionRead, max_bytes: int = 2**20, **more: int) -> FetchQuery:
    return FetchQuery(reads, max_bytes, **more)  # type: ignore[arg-type]


def at(partition: int, offset: int = 0, *, topic: str = "t", max_bytes: int = 2**20, epoch: int = -1) -> PartitionRead:
    return PartitionRead(topic, partition, offset, max_bytes, epoch)


async def test_batches_come_as_they_lie_in_the_log() -> None:
    stack = Stack()
    await stack.topic()
    await stack.write(b"a", b"b")
    await stack.write(b"c")
    (fetched,) = stack.fetch.fetch_now(query(at(0))) or []
    assert len(fetched.batches) == 2
    assert values_in(fetched) == [b"a", b"b", b"c"]
    assert (fetched.log_start_offset, fetched.high_watermark, fetched.last_stable_offset) == (0, 3, 3)
    assert fetched.error is None


async def test_a_read_inside_a_batch_gets_the_whole_batch() -> None:
    stack = Stack()
    await stack.topic()
    await stack.write(b"a", b"b", b"c")
    assert [record.offset for record in records_in(await stack.read(1))] == [0, 1, 2]


async def test_at_the_end_there_is_nothing_and_beyond_it_an_error() -> None:
    stack = Stack()
    await stack.topic()
    await stack.write(b"a")
    assert (await stack.read(1)).error is None
    for offset in (2, -1):
        fetched = await stack.read(offset)
        assert isinstance(fetched.error, OffsetOutOfRange)
        assert fetched.batches == ()


async def test_errors_concern_one_partition_and_come_at_once() -> None:
    stack = Stack()
    await stack.topic("t", 2)
    await stack.write(b"v", partition=1)
    await stack.partitions.open_leader("t", 0)
    answers = stack.fetch.fetch_now(
        query(
            at(0, topic="nope"),
            at(9),
            at(0, epoch=1),
            at(0, 5),
            at(1, epoch=0),
            at(0),
            min_bytes=10**6,
            max_wait_ms=60_000,
        )
    )
    assert answers is not None
    assert [type(one.error) for one in answers] == [
        TopicNotFound,
        PartitionNotFound,
        UnknownLeaderEpoch,
        OffsetOutOfRange,
        type(None),
        type(None),
    ]
    assert values_in(answers[4]) == [b"v"]
    assert values_in(answers[5]) == []


async def test_an_old_leader_epoch_is_fenced() -> None:
    stack = Stack()
    await stack.topic()
    stack.partitions.leader("t", 0).leader_epoch = 3
    (fetched,) = stack.fetch.fetch_now(query(at(0, epoch=2))) or []
    assert isinstance(fetched.error, FencedLeaderEpoch)


async def test_the_first_batch_comes_whatever_its_size() -> None:
    stack = Stack()
    await stack.topic("t", 3)
    for partition in range(3):
        for _ in range(3):
            await stack.write(bytes(1000), partition=partition)
    reads = [at(partition, max_bytes=1) for partition in range(3)]
    answers = stack.fetch.fetch_now(query(*reads, max_bytes=1)) or []
    assert [len(one.batches) for one in answers] == [1, 0, 0]
    nothing_wanted = [at(partition, max_bytes=0) for partition in range(3)]
    answers = stack.fetch.fetch_now(query(*nothing_wanted, max_bytes=0)) or []
    assert [len(one.batches) for one in answers] == [1, 0, 0]


async def test_the_whole_answer_stays_below_its_limit() -> None:
    stack = Stack()
    await stack.topic("t", 3)
    for partition in range(3):
        for _ in range(3):
            await stack.write(bytes(1000), partition=partition)
    answers = stack.fetch.fetch_now(query(*(at(partition) for partition in range(3)), max_bytes=5500)) or []
    assert [len(one.batches) for one in answers] == [3, 2, 0]
    assert sum(len(batch) for one in answers for batch in one.batches) <= 5500
    empty_first = stack.fetch.fetch_now(query(at(0, 3), at(1), at(2), max_bytes=10)) or []
    assert [len(one.batches) for one in empty_first] == [0, 1, 0]


async def test_once_a_batch_does_not_fit_nothing_is_read_for_this_answer() -> None:
    files = MemoryFiles()
    stack = Stack(files)
    await stack.topic("t", 50)
    for partition in range(50):
        await stack.write(bytes(1000), partition=partition)
    stack.fetch.fetch_now(query(at(0), max_bytes=1))
    before = files.faults.counts["pread"]
    answers = stack.fetch.fetch_now(query(*(at(partition) for partition in range(50)), max_bytes=1500)) or []
    assert [len(one.batches) for one in answers] == [1, *[0] * 49]
    assert files.faults.counts["pread"] - before <= 4


async def test_a_partitions_own_limit_is_obeyed_after_the_first_batch() -> None:
    stack = Stack()
    await stack.topic("t", 2)
    for partition in range(2):
        for _ in range(3):
            await stack.write(bytes(1000), partition=partition)
    answers = stack.fetch.fetch_now(query(at(0, max_bytes=2200), at(1, max_bytes=500))) or []
    assert [len(one.batches) for one in answers] == [2, 0]


async def test_the_nodes_own_limit_stands_above_the_clients() -> None:
    stack = Stack(config=Config(limits=LimitsConfig(fetch_bytes_max=2200)))
    await stack.topic()
    for _ in range(5):
        await stack.write(bytes(1000))
    assert len((await stack.read()).batches) == 2


async def test_without_records_an_answer_that_may_wait_is_not_given_now() -> None:
    stack = Stack()
    await stack.topic()
    await stack.partitions.open_leader("t", 0)
    assert stack.fetch.fetch_now(query(at(0), max_wait_ms=1)) is None
    assert stack.fetch.fetch_now(query(at(0), max_wait_ms=0)) is not None
    assert stack.fetch.fetch_now(query(at(0), min_bytes=0, max_wait_ms=1)) is not None
    assert stack.fetch.fetch_now(query(max_wait_ms=1000)) == []


@simulated
async def test_a_wait_ends_with_its_time(clock: ManualClock) -> None:
    stack = Stack(clock=clock)
    await stack.topic()
    before_ms = clock.monotonic_ms()
    fetched = await stack.read(max_wait_ms=500)
    assert fetched.batches == ()
    assert fetched.error is None
    assert 500 <= clock.monotonic_ms() - before_ms <= 501
    assert len(stack.partitions.leader("t", 0).waiters) == 0


@simulated
async def test_a_wait_longer_than_the_node_allows_is_cut_short(clock: ManualClock) -> None:
    stack = Stack(clock=clock, config=Config(limits=LimitsConfig(fetch_wait_ms_max=100)))
    await stack.topic()
    before_ms = clock.monotonic_ms()
    await stack.read(max_wait_ms=10**9)
    assert clock.monotonic_ms() - before_ms <= 101


@simulated
async def test_a_record_in_any_of_the_partitions_ends_the_wait(clock: ManualClock) -> None:
    stack = Stack(clock=clock)
    await stack.topic("t", 3)
    waiting = asyncio.create_task(stack.fetch.fetch(query(at(0), at(1), at(2), max_wait_ms=10_000)))
    await asyncio.sleep(1)
    assert not waiting.done()
    before_ms = clock.monotonic_ms()
    stack.publish.append("t", 2, stack.batch(b"v"), acks=Acks.LEADER)
    answers = await waiting
    assert clock.monotonic_ms() == before_ms
    assert [values_in(one) for one in answers] == [[], [], [b"v"]]
    assert all(len(one.waiters) == 0 for one in stack.partitions.all_open())


@simulated
async def test_a_patient_reader_is_woken_once_there_is_enough(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    read_batches = PartitionLog.read_batches

    def counted(log: PartitionLog, offset: int, **more: int) -> Read:
        reads.append(offset)
        return read_batches(log, offset, **more)

    monkeypatch.setattr(PartitionLog, "read_batches", counted)
    stack = Stack(clock=clock)
    await stack.topic("t", 2)
    one = len(stack.batch(bytes(100)))
    waiting = asyncio.create_task(stack.fetch.fetch(query(at(0), at(1), min_bytes=10 * one, max_wait_ms=10_000)))
    await asyncio.sleep(0.1)
    for number in range(9):
        stack.publish.append("t", number % 2, stack.batch(bytes(100)), acks=Acks.LEADER)
        await asyncio.sleep(0.1)
    assert not waiting.done()
    assert reads == []
    stack.publish.append("t", 0, stack.batch(bytes(100)), acks=Acks.LEADER)
    answers = await waiting
    assert sum(len(batch) for part in answers for batch in part.batches) == 10 * one


@simulated
async def test_what_there_is_is_given_when_the_time_is_up(clock: ManualClock) -> None:
    stack = Stack(clock=clock)
    await stack.topic()
    await stack.write(b"v")
    before_ms = clock.monotonic_ms()
    fetched = await stack.read(min_bytes=10**6, max_wait_ms=300)
    assert values_in(fetched) == [b"v"]
    assert clock.monotonic_ms() - before_ms >= 300


@simulated
async def test_a_client_that_hangs_up_leaves_nothing_behind(clock: ManualClock) -> None:
    stack = Stack(clock=clock)
    await stack.topic("t", 3)
    waiting = asyncio.create_task(stack.fetch.fetch(query(at(0), at(1), at(2), max_wait_ms=10_000)))
    await asyncio.sleep(0.1)
    assert [len(one.waiters) for one in stack.partitions.all_open()] == [1, 1, 1]
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert [len(one.waiters) for one in stack.partitions.all_open()] == [0, 0, 0]


@simulated
async def test_a_thousand_readers_of_one_partition_are_all_woken(clock: ManualClock) -> None:
    stack = Stack(clock=clock)
    await stack.topic()
    readers = [asyncio.create_task(stack.read(max_wait_ms=10_000)) for _ in range(1000)]
    await asyncio.sleep(0.1)
    stack.publish.append("t", 0, stack.batch(b"v"), acks=Acks.LEADER)
    before_ms = clock.monotonic_ms()
    answers = await asyncio.gather(*readers)
    assert clock.monotonic_ms() == before_ms
    assert all(values_in(one) == [b"v"] for one in answers)


async def test_a_cold_read_goes_where_blocking_is_allowed() -> None:
    files = MemoryFiles()
    stack = Stack(files)
    await stack.topic("t", 2)
    await stack.write(b"cold", partition=0)
    await stack.write(b"warm", partition=1)
    files.faults.cold = lambda path: path.startswith("logs/t/0/")
    asked = query(at(0), at(1))
    assert stack.fetch.fetch_now(asked) is None
    assert [values_in(one) for one in await stack.fetch.fetch(asked)] == [[b"cold"], [b"warm"]]


@simulated
async def test_what_arrives_during_a_cold_read_is_not_slept_over(clock: ManualClock) -> None:
    files = MemoryFiles()
    hidden: list[Stack] = []

    async def slow(work):  # type: ignore[no-untyped-def]
        if hidden:
            # While the second partition is read from the disk, the first one grows.
            stack = hidden.pop()
            stack.publish.append("t", 0, stack.batch(bytes(500)), acks=Acks.LEADER)
        await asyncio.sleep(0)
        return work()

    stack = Stack(files, clock, offload=slow)
    await stack.topic("t", 2)
    await stack.write(bytes(100), partition=1)
    files.faults.cold = lambda path: path.startswith("logs/t/1/")
    hidden.append(stack)
    before_ms = clock.monotonic_ms()
    answers = await stack.fetch.fetch(query(at(0), at(1), min_bytes=500, max_wait_ms=10_000))
    assert [len(one.batches) for one in answers] == [1, 1]
    assert clock.monotonic_ms() == before_ms


async def test_a_damaged_frame_is_an_error_of_its_partition_alone() -> None:
    """Damage is told, not skipped."""
    files = MemoryFiles()
    stack = Stack(files)
    await stack.topic("t", 2)
    for partition in (0, 1):
        await stack.write(b"value", partition=partition)
    files.flip_bit("logs/t/0/00000000000000000000.log", 80)
    answers = await stack.fetch.fetch(query(at(0), at(1)))
    assert isinstance(answers[0].error, CorruptFrame)
    assert values_in(answers[1]) == [b"value"]


async def test_a_damaged_frame_that_other_replicas_have_sends_readers_to_the_next_leader() -> None:
    files = MemoryFiles()
    stack = Stack(files)
    await stack.topic("t", 1)
    await stack.write(b"value", partition=0)
    files.flip_bit("logs/t/0/00000000000000000000.log", 80)
    stack.partitions.leader("t", 0).unreadable.waits_for_repair = True
    (answer,) = await stack.fetch.fetch(query(at(0)))
    assert isinstance(answer.error, NotLeader)
    assert "is damaged on this node" in str(answer.error)


async def test_damage_that_was_met_while_another_replica_took_over_sends_readers_there(monkeypatch: Any) -> None:
    files = MemoryFiles()
    stack = Stack(files)
    await stack.topic("t", 1)
    await stack.write(b"value", partition=0)
    files.flip_bit("logs/t/0/00000000000000000000.log", 80)
    place = stack.partitions.leader("t", 0)
    read = PartitionLog.read_batches

    def hand_over(*arguments: Any, **options: Any) -> Read:
        if place.is_led_here:
            place.become(Following(place.leader_epoch + 1, 2))
        return read(*arguments, **options)

    monkeypatch.setattr(PartitionLog, "read_batches", hand_over)
    (answer,) = await stack.fetch.fetch(query(at(0)))
    assert isinstance(answer.error, NotLeader)


async def test_a_disk_that_cannot_be_read_is_an_error_of_its_partition_alone() -> None:
    files = MemoryFiles()
    stack = Stack(files)
    await stack.topic("t", 2)
    for partition in (0, 1):
        await stack.write(b"value", partition=partition)
    files.faults.fail("pread", "logs/t/0/*.log")
    answers = await stack.fetch.fetch(query(at(0), at(1)))
    assert answers[0].error is not None
    assert values_in(answers[1]) == [b"value"]


def transactional(stack: Stack, producer_id: int, sequence: int, value: bytes) -> bytes:
    return encode_batch(
        [NewRecord(None, value)],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
        now_ms=stack.clock.now_ms(),
    )


def end(stack: Stack, producer_id: int, *, commit: bool) -> None:
    marker = encode_marker(
        commit, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, now_ms=stack.clock.now_ms()
    )
    stack.partitions.leader("t", 0).writer.append(marker, now_ms=stack.clock.now_ms(), marker=True)


@simulated
async def test_readers_of_committed_records_stop_at_the_first_open_transaction(clock: ManualClock) -> None:
    stack = Stack(clock=clock, transactions=True)
    await stack.topic()
    await stack.write(b"before")
    stack.publish.append("t", 0, transactional(stack, 1, 0, b"open"), acks=Acks.LEADER)
    await stack.write(b"after")
    committed = await stack.read(isolation=Isolation.READ_COMMITTED)
    assert values_in(committed) == [b"before"]
    assert (committed.last_stable_offset, committed.high_watermark) == (1, 3)
    assert values_in(await stack.read()) == [b"before", b"open", b"after"]
    waiting = asyncio.create_task(stack.read(1, isolation=Isolation.READ_COMMITTED, max_wait_ms=10_000))
    await asyncio.sleep(1)
    # A large write does not wake it for good: it is still behind the open transaction.
    stack.publish.append("t", 0, stack.batch(bytes(1000)), acks=Acks.LEADER)
    await asyncio.sleep(1)
    assert not waiting.done()
    before_ms = clock.monotonic_ms()
    end(stack, 1, commit=True)
    shown = await waiting
    assert clock.monotonic_ms() == before_ms
    assert values_in(shown)[:2] == [b"open", b"after"]
    assert shown.aborted == []


@simulated
async def test_a_marker_uncovers_more_than_its_own_size(clock: ManualClock) -> None:
    stack = Stack(clock=clock, transactions=True)
    await stack.topic()
    stack.publish.append("t", 0, transactional(stack, 1, 0, bytes(5000)), acks=Acks.LEADER)
    waiting = asyncio.create_task(stack.read(isolation=Isolation.READ_COMMITTED, min_bytes=4000, max_wait_ms=10_000))
    await asyncio.sleep(1)
    before_ms = clock.monotonic_ms()
    end(stack, 1, commit=True)
    assert len((await waiting).batches) == 2
    assert clock.monotonic_ms() == before_ms


async def test_readers_of_committed_records_are_told_what_was_aborted() -> None:
    stack = Stack(transactions=True)
    await stack.topic()
    stack.publish.append("t", 0, transactional(stack, 1, 0, b"aborted"), acks=Acks.LEADER)
    stack.publish.append("t", 0, transactional(stack, 2, 0, b"kept"), acks=Acks.LEADER)
    end(stack, 1, commit=False)
    end(stack, 2, commit=True)
    fetched = await stack.read(isolation=Isolation.READ_COMMITTED)
    assert [(one.producer_id, one.first_offset) for one in fetched.aborted] == [(1, 0)]
    assert len(fetched.batches) == 4
    assert (await stack.read()).aborted == ()
    assert (await stack.read(3, isolation=Isolation.READ_COMMITTED)).aborted == []

"""Records from front-ends: placed, packed, stored, and answered one by one."""

from __future__ import annotations

import errno
from collections import Counter

import pytest
from tests.unit.broker.stack import Stack

from goqueue.errors import (
    DiskFull,
    InternalTopic,
    InvalidRecord,
    InvalidRequest,
    InvalidRequiredAcks,
    InvalidTimestamp,
    LogPoisoned,
    MessageTooLarge,
    PartitionNotFound,
    TopicNotFound,
)
from goqueue.partitioner import partition_for_key
from goqueue.records import Acks, NewRecord
from goqueue.testing.disk import Survival
from goqueue.testing.memory_files import MemoryFiles


def records(*values: bytes, key: bytes | None = None) -> list[NewRecord]:
    return [NewRecord(key, value) for value in values]


async def test_every_record_is_answered_with_its_own_place() -> None:
    files = MemoryFiles()
    stack = Stack(files)
    await stack.topic("t", 3)
    sent = [NewRecord(b"key-%d" % (number % 5), b"%d" % number) for number in range(50)]
    results = await stack.publish.publish_records("t", sent, acks=Acks.ALL)
    again = Stack(files.crash(Survival.NOTHING))
    stored = {
        (partition, record.offset): (record.key, record.value, record.timestamp_ms)
        for partition in range(3)
        for record in await again.read_all("t", partition)
    }
    assert len(stored) == 50
    for record, result in zip(sent, results, strict=True):
        assert result.error is None
        assert record.key is not None
        assert result.partition == partition_for_key(record.key, 3)
        assert stored[result.partition, result.offset] == (record.key, record.value, result.timestamp_ms)


async def test_records_of_one_request_make_one_batch_per_partition() -> None:
    stack = Stack()
    await stack.topic("t", 3)
    await stack.publish.publish_records("t", records(*[b"v"] * 30), acks=Acks.LEADER)
    for partition in range(3):
        assert len((await stack.read(partition=partition)).batches) == 1


@pytest.mark.parametrize("partitions", [2, 3, 6])
async def test_records_without_a_key_are_spread_evenly(partitions: int) -> None:
    """With 2 partitions everything went to one, with 6 to three."""
    stack = Stack()
    await stack.topic("t", partitions)
    counts: Counter[int] = Counter()
    for _ in range(10 * partitions):
        (result,) = await stack.publish.publish_records("t", records(b"v"), acks=Acks.LEADER)
        counts[result.partition] += 1
    for result in await stack.publish.publish_records("t", records(*[b"v"] * 6), acks=Acks.LEADER):
        counts[result.partition] += 1
    assert counts == dict.fromkeys(range(partitions), 10 + 6 // partitions)


async def test_a_named_partition_is_obeyed_even_if_it_is_number_zero_and_there_are_keys() -> None:
    """Zero was taken for "not named"."""
    stack = Stack()
    await stack.topic("t", 3)
    for partition in (0, 2):
        sent = records(*[b"v"] * 5, key=b"some key") + records(b"w")
        results = await stack.publish.publish_records("t", sent, acks=Acks.LEADER, partition=partition)
        assert {result.partition for result in results} == {partition}
        assert [result.offset for result in results] == list(range(6))


async def test_a_topic_can_place_keys_where_java_clients_do() -> None:
    stack = Stack()
    await stack.topic("t", 7, goqueue_partitioner="murmur2")
    (result,) = await stack.publish.publish_records("t", records(b"v", key=b"foobar"), acks=Acks.LEADER)
    assert result.partition == (-790332482 & 0x7FFFFFFF) % 7


async def test_what_concerns_the_whole_request_is_raised() -> None:
    stack = Stack()
    await stack.topic("t", 2)
    await stack.topics.ensure_internal("__own", 1, {})
    with pytest.raises(TopicNotFound):
        await stack.publish.publish_records("nope", records(b"v"), acks=Acks.LEADER)
    with pytest.raises(PartitionNotFound):
        await stack.publish.publish_records("t", records(b"v"), acks=Acks.LEADER, partition=2)
    with pytest.raises(InternalTopic):
        await stack.publish.publish_records("__own", records(b"v"), acks=Acks.LEADER)
    with pytest.raises(InvalidRequiredAcks):
        await stack.publish.publish_records("t", records(b"v"), acks=5)  # type: ignore[arg-type]
    assert await stack.publish.publish_records("t", [], acks=Acks.LEADER) == []


async def test_a_bad_record_does_not_take_the_good_ones_with_it() -> None:
    """Per-record errors that nobody saw."""
    stack = Stack()
    await stack.topic("t", cleanup_policy="compact", max_message_bytes="1000")
    future_ms = stack.clock.now_ms() * 2
    sent = [
        NewRecord(b"k", b"good"),
        NewRecord(None, b"no key"),
        NewRecord(b"k", b"from the future", (), future_ms),
        NewRecord(b"k", bytes(2000)),
        NewRecord(b"k", b"good too"),
    ]
    results = await stack.publish.publish_records("t", sent, acks=Acks.ALL)
    assert [type(result.error) for result in results] == [
        type(None),
        InvalidRecord,
        InvalidTimestamp,
        MessageTooLarge,
        type(None),
    ]
    assert [result.offset for result in results] == [0, -1, -1, -1, 1]
    assert [record.value for record in await stack.read_all()] == [b"good", b"good too"]


async def test_many_records_are_cut_into_batches_that_the_topic_takes() -> None:
    stack = Stack()
    await stack.topic("t", max_message_bytes="1000")
    results = await stack.publish.publish_records("t", records(*[bytes(100)] * 40), acks=Acks.ALL)
    assert [result.offset for result in results] == list(range(40))
    assert all(result.error is None for result in results)
    fetched = await stack.read()
    assert len(fetched.batches) > 4
    assert all(len(batch) <= 1000 for batch in fetched.batches)


async def test_a_partition_that_fails_is_named_and_the_others_are_stored() -> None:
    files = MemoryFiles()
    stack = Stack(files)
    await stack.topic("t", 3)
    files.faults.fail("append", "logs/t/1/*", code=errno.ENOSPC, times=2)
    results = await stack.publish.publish_records("t", records(b"a", b"b", b"c"), acks=Acks.ALL)
    assert [type(result.error) for result in results] == [type(None), DiskFull, type(None)]
    assert results[1].offset == -1


async def test_a_failed_sync_is_told_to_those_it_concerns() -> None:
    files = MemoryFiles()
    stack = Stack(files)
    await stack.topic("t", 2)
    await stack.publish.publish_records("t", records(b"a", b"b"), acks=Acks.ALL)
    files.faults.fail("sync", "logs/t/1/*")
    results = await stack.publish.publish_records("t", records(b"c", b"d"), acks=Acks.ALL)
    assert [type(result.error) for result in results] == [type(None), LogPoisoned]


async def test_timestamps_are_the_senders_or_ours() -> None:
    stack = Stack()
    await stack.topic()
    await stack.topic("stamped", message_timestamp_type="LogAppendTime")
    now_ms = stack.clock.now_ms()
    sent = [NewRecord(None, b"v", (), 5), NewRecord(None, b"v")]
    results = await stack.publish.publish_records("t", sent, acks=Acks.LEADER)
    assert [result.timestamp_ms for result in results] == [5, now_ms]
    assert [record.timestamp_ms for record in await stack.read_all()] == [5, now_ms]
    results = await stack.publish.publish_records("stamped", sent, acks=Acks.LEADER)
    assert [result.timestamp_ms for result in results] == [now_ms, now_ms]
    assert [record.timestamp_ms for record in await stack.read_all("stamped")] == [now_ms, now_ms]


async def send(stack: Stack, sequence: int, *values: bytes, **more: int) -> list[tuple[int, bool]]:
    results = await stack.publish.publish_records(
        "t", records(*values), acks=Acks.ALL, producer_id=9, producer_epoch=0, sequence=sequence, **more
    )
    assert all(result.error is None for result in results)
    return [(result.offset, result.duplicate) for result in results]


async def test_a_retry_with_a_sequence_is_stored_once() -> None:
    stack = Stack()
    await stack.topic("t", 2)
    assert await send(stack, 0, b"a", b"b", partition=1) == [(0, False), (1, False)]
    assert await send(stack, 0, b"a", b"b", partition=1) == [(0, True), (1, True)]
    assert await send(stack, 2, b"c", partition=1) == [(2, False)]
    assert len(await stack.read_all("t", 1)) == 3


async def test_with_a_sequence_records_must_go_to_one_sure_partition() -> None:
    stack = Stack()
    await stack.topic("t", 5)
    with pytest.raises(InvalidRequest) as keyless:
        await send(stack, 0, b"a")
    assert keyless.value.field == "partition"
    spread = [NewRecord(b"key-%d" % number, b"v") for number in range(20)]
    with pytest.raises(InvalidRequest) as several:
        await stack.publish.publish_records("t", spread, acks=Acks.ALL, producer_id=9, producer_epoch=0, sequence=0)
    assert several.value.field == "partition"
    assert all(stack.queries.offsets("t", partition).end_offset == 0 for partition in range(5))


async def test_with_a_sequence_all_records_are_taken_or_none() -> None:
    stack = Stack()
    await stack.topic("t", cleanup_policy="compact")
    sent = [NewRecord(b"k", b"good"), NewRecord(None, b"bad")]
    with pytest.raises(InvalidRecord):
        await stack.publish.publish_records(
            "t", sent, acks=Acks.ALL, partition=0, producer_id=9, producer_epoch=0, sequence=0
        )
    assert stack.queries.offsets("t", 0).end_offset == 0

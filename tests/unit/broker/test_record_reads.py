"""Reading records: how much of what is stored is opened for one answer."""

from __future__ import annotations

import asyncio

from tests.unit.broker.stack import Stack

from goqueue.broker.reading.record_reads import RecordReader
from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.compression import Codec
from goqueue.records import Acks, NewRecord, TopicPartition

AT = TopicPartition("t", 0)


async def test_an_answer_is_bounded_by_what_it_unpacks_to() -> None:
    """A few kilobytes on the disk may be gigabytes in memory."""
    stack = await Stack().start()
    await stack.topic()
    for _ in range(20):
        batch = encode_batch([NewRecord(b"k", bytes(1_000_000))], codec=Codec.ZSTD, now_ms=stack.clock.now_ms())
        stack.publish.append("t", 0, batch, acks=Acks.LEADER)
    reader = RecordReader(stack.fetch, stack.partitions, offload=asyncio.to_thread, answers=stack.answers)

    first = (await reader.read({AT: 0}, limit=10_000, max_bytes=2_500_000))[AT]

    assert [record.offset for record in first.records] == [0, 1, 2]
    assert first.next_offset == 3
    rest = (await reader.read({AT: 3}, limit=10_000, max_bytes=50_000_000))[AT]
    assert (len(rest.records), rest.next_offset) == (17, 20)
    await stack.stop()


async def test_a_limit_inside_a_batch_goes_on_behind_the_last_record_given() -> None:
    stack = await Stack().start()
    await stack.topic()
    await stack.write(b"a", b"b", b"c")
    reader = RecordReader(stack.fetch, stack.partitions, offload=asyncio.to_thread, answers=stack.answers)

    first = (await reader.read({AT: 0}, limit=2, max_bytes=1_000_000))[AT]
    second = (await reader.read({AT: first.next_offset}, limit=2, max_bytes=1_000_000))[AT]

    assert [record.value for record in first.records] == [b"a", b"b"]
    assert ([record.value for record in second.records], second.next_offset) == ([b"c"], 3)
    await stack.stop()


async def test_a_long_backlog_keeps_no_other_partition_waiting() -> None:
    stack = await Stack().start()
    await stack.topic(partitions=3)
    await stack.write(*[b"many"] * 100, partition=0)
    await stack.write(b"one", partition=1)
    reader = RecordReader(stack.fetch, stack.partitions, offload=asyncio.to_thread, answers=stack.answers)

    found = await reader.read({TopicPartition("t", number): 0 for number in range(3)}, limit=10, max_bytes=1_000_000)

    assert [(at.partition, len(read.records), read.next_offset) for at, read in found.items()] == [
        (0, 9, 9),
        (1, 1, 1),
        (2, 0, 0),
    ]
    await stack.stop()

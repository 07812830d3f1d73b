"""Appending to any partition: repeats are recognised by their range of sequences, also with empty places in it."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.broker.stack import Stack

from goqueue.broker.arrivals.append_anywhere import LocalAppends
from goqueue.broker.topics import NewTopic
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import encode_with_gaps
from goqueue.errors import OutOfOrderSequence, TopicNotFound
from goqueue.records import Acks, NewRecord, TopicPartition

PLACE = TopicPartition("letters", 0)
DAY_MS = 24 * 3_600_000


def batch_of(*values: bytes | None, sequence: int) -> bytes:
    """A batch of the internal producer 7; None is the empty place of a record that is gone."""
    records = [None if one is None else NewRecord(None, one) for one in values]
    return encode_with_gaps(records, producer_id=7, producer_epoch=0, base_sequence=sequence, now_ms=1)


async def opened(stack: Stack) -> LocalAppends:
    await stack.topics.create(NewTopic("letters", 1))
    return LocalAppends(stack.partitions, stack.publish, stack.clock)


def stored(stack: Stack) -> list[tuple[int, bytes | None]]:
    log = stack.partitions.leader(*PLACE).log
    read = log.read_batches(0, max_bytes=2**20, upper=log.end_offset)
    return [(one.offset, one.value) for batch in read.batches for one in decode_records(batch)]


def test_a_repeat_with_fewer_records_left_is_recognised_and_the_next_batch_follows() -> None:
    async def story() -> None:
        stack = Stack()
        append = await opened(stack)
        first = await append(PLACE, batch_of(b"a", b"b", b"c", sequence=0), Acks.ALL)
        again = await append(PLACE, batch_of(b"a", None, None, sequence=0), Acks.ALL)
        nothing_left = await append(PLACE, batch_of(None, None, None, sequence=0), Acks.ALL)
        assert not first.appended.duplicate
        assert again.appended.duplicate
        assert nothing_left.appended.duplicate
        await append(PLACE, batch_of(b"d", sequence=3), Acks.ALL)
        assert stored(stack) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]

    asyncio.run(story())


def test_empty_places_take_offsets_and_sequences() -> None:
    async def story() -> None:
        stack = Stack()
        append = await opened(stack)
        await append(PLACE, batch_of(None, b"b", None, sequence=0), Acks.ALL)
        await append(PLACE, batch_of(None, None, sequence=3), Acks.ALL)
        await append(PLACE, batch_of(b"f", sequence=5), Acks.ALL)
        assert stored(stack) == [(1, b"b"), (5, b"f")]

    asyncio.run(story())


def test_a_repeat_so_old_that_its_offsets_are_forgotten_counts_as_stored() -> None:
    async def story() -> None:
        stack = Stack()
        append = await opened(stack)
        for sequence in range(20):
            await append(PLACE, batch_of(b"%d" % sequence, sequence=sequence), Acks.ALL)
        again = await append(PLACE, batch_of(b"0", sequence=0), Acks.ALL)
        assert (again.appended.duplicate, again.appended.base_offset) == (True, -1)
        assert len(stored(stack)) == 20

    asyncio.run(story())


def test_an_internal_producer_does_not_expire_while_its_partition_is_open() -> None:
    async def story() -> None:
        stack = Stack()
        append = await opened(stack)
        await append(PLACE, batch_of(b"a", sequence=0), Acks.ALL)
        stack.partitions.leader(*PLACE).log.apply_retention(stack.clock.now_ms() + 3 * DAY_MS)
        assert (await append(PLACE, batch_of(b"a", sequence=0), Acks.ALL)).appended.duplicate

    asyncio.run(story())


def test_a_gap_in_the_sequences_and_an_unknown_topic_are_refused() -> None:
    async def story() -> None:
        stack = Stack()
        append = await opened(stack)
        await append(PLACE, batch_of(b"a", sequence=0), Acks.ALL)
        with pytest.raises(OutOfOrderSequence):
            await append(PLACE, batch_of(b"c", sequence=2), Acks.ALL)
        with pytest.raises(TopicNotFound):
            await append(TopicPartition("none", 0), batch_of(b"a", sequence=0), Acks.ALL)

    asyncio.run(story())

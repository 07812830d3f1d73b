"""What is read for acquired offsets: every one of them once, wherever in the batches they lie."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.reading.unreadable import UnreadableStretches
from goqueue.codec.batch import PREFIX_BYTES, encode_prefix, parse_batch_header
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.compression import Codec
from goqueue.delivery.reading.acquired_batches import AcquiredBatches, AcquiredReads
from goqueue.delivery.values import AcquiredRange
from goqueue.log.reads import Read
from goqueue.records import NewRecord, TopicPartition

AT = TopicPartition("jobs", 0)
_batches = st.lists(st.tuples(st.integers(1, 12), st.sampled_from(list(Codec))), min_size=1, max_size=6)


class Log:
    """Batches in a list, some of which compaction may have taken."""

    def __init__(self, batches: Sequence[bytes]) -> None:
        self._batches = [memoryview(one) for one in batches]
        self.start_offset = 0
        self.last_stable_offset = parse_batch_header(batches[-1]).last_offset + 1

    def read_batches(self, offset: int, *, max_bytes: int, upper: int, nowait: bool = False) -> Read:
        found: list[memoryview] = []
        for batch in self._batches:
            header = parse_batch_header(batch)
            if header.last_offset < offset:
                continue
            if header.last_offset >= upper or (found and sum(map(len, found)) + len(batch) > max_bytes):
                break
            found.append(batch)
        next_offset = parse_batch_header(found[-1]).last_offset + 1 if found else offset
        return Read(found, next_offset, sum(map(len, found)))


def reads_over(batches: Sequence[bytes]) -> AcquiredReads:
    partition = SimpleNamespace(log=Log(batches), topic_id=UUID(int=1), key=AT, unreadable=UnreadableStretches(2**20))

    async def open_leader(*_: object) -> object:
        return partition

    partitions: Any = SimpleNamespace(open_leader=open_leader)
    return AcquiredReads(partitions, asyncio.to_thread)


def read(reads: AcquiredReads, acquired: Sequence[AcquiredRange], bytes_left: int = 2**20) -> AcquiredBatches:
    return asyncio.run(reads.read("g", AT, acquired, bytes_left, must=True))


def batches_of(sizes: Sequence[tuple[int, Codec]]) -> list[bytes]:
    found, offset = [], 0
    for count, codec in sizes:
        records = [NewRecord(None, b"%d" % (offset + at)) for at in range(count)]
        batch = encode_batch(records, codec=codec, now_ms=1)
        found.append(encode_prefix(offset, len(batch) - 12, 0) + batch[PREFIX_BYTES:])
        offset += count
    return found


def acquired_of(counts: Sequence[int]) -> list[AcquiredRange]:
    """One delivery count for each offset, 0 where it was not acquired."""
    found: list[AcquiredRange] = []
    for offset, count in enumerate(counts):
        if found and count and found[-1].last == offset - 1 and found[-1].delivery_count == count:
            found[-1] = found[-1]._replace(last=offset)
        elif count:
            found.append(AcquiredRange(offset, offset, count))
    return found


@given(data=st.data(), sizes=_batches, room=st.integers(1, 2_000))
def test_no_offset_is_sent_twice_and_none_that_was_acquired_is_missing(
    data: st.DataObject, sizes: list[tuple[int, Codec]], room: int
) -> None:
    batches = batches_of(sizes)
    total = sum(count for count, _ in sizes)
    counts = data.draw(st.lists(st.integers(0, 2), min_size=total, max_size=total))
    gone = data.draw(st.sets(st.integers(0, len(batches) - 2), max_size=2)) if len(batches) > 1 else set()
    left = [batch for number, batch in enumerate(batches) if number not in gone]
    there = {record.offset for batch in left for record in decode_records(batch)}
    reads, acquired, wanted = reads_over(left), acquired_of(counts), set[int]()
    sent: list[int] = []

    while acquired:
        found = read(reads, acquired, room)
        bases = [parse_batch_header(batch).base_offset for batch in found.batches]
        assert all(one < other for one, other in pairwise(bases))
        assert found.covered_to >= acquired[0].first
        here = [record.offset for batch in found.batches for record in decode_records(batch)]
        assert len(here) == len(set(here))
        within = {offset for one in acquired for offset in range(one.first, min(one.last, found.covered_to) + 1)}
        sent += [offset for offset in here if offset in within]
        wanted |= within
        acquired = [
            one._replace(first=max(one.first, found.covered_to + 1)) for one in acquired if one.last > found.covered_to
        ]

    assert sorted(sent) == sorted(wanted & there)
    assert wanted == {offset for offset, count in enumerate(counts) if count}


def test_messages_scattered_over_a_batch_with_another_behind_it_come_once() -> None:
    batches = batches_of([(10, Codec.ZSTD), (10, Codec.ZSTD)])
    acquired = [AcquiredRange(2, 3, 2), AcquiredRange(5, 6, 3), AcquiredRange(9, 9, 2)]

    found = read(reads_over(batches), acquired)

    assert [parse_batch_header(one).base_offset for one in found.batches] == [0]
    assert found.covered_to == 9

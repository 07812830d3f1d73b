"""Many producers at once: what was acknowledged is what can be read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from random import Random

from tests.integration.conftest import OpenStack, copy_as_after_kill
from tests.unit.broker.stack import Stack

from goqueue.broker.reading.fetch import FetchQuery, PartitionRead
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.compression import Codec
from goqueue.records import Acks, NewRecord

PARTITIONS = 3
Place = tuple[int, int]


async def produce(stack: Stack, producer: int, batches: int) -> dict[Place, bytes]:
    """Publish in every way there is; returns what was acknowledged, by place."""
    chance = Random(producer)
    acknowledged: dict[Place, bytes] = {}
    for number in range(batches):
        values = [b"%d/%d/%d" % (producer, number, at) for at in range(chance.randint(1, 8))]
        acks = chance.choice([Acks.LEADER, Acks.ALL])
        records = [NewRecord(None, value) for value in values]
        if chance.random() < 0.5:
            for value, result in zip(values, await stack.publish.publish_records("t", records, acks=acks), strict=True):
                assert result.error is None
                acknowledged[result.partition, result.offset] = value
        else:
            partition = chance.randrange(PARTITIONS)
            codec = chance.choice(list(Codec))
            batch = encode_batch(records, codec=codec, now_ms=stack.clock.now_ms())
            pending = stack.publish.append("t", partition, batch, acks=acks)
            if pending.durable is not None:
                await pending.durable
            for at, value in enumerate(values, pending.appended.base_offset):
                acknowledged[partition, at] = value
        await asyncio.sleep(0)
    return acknowledged


async def readable(stack: Stack, *, max_bytes: int) -> dict[Place, bytes]:
    """Everything that a consumer of all partitions gets, in answers of a given size."""
    found: dict[Place, bytes] = {}
    positions = dict.fromkeys(range(PARTITIONS), 0)
    while True:
        reads = [PartitionRead("t", partition, offset, max_bytes) for partition, offset in positions.items()]
        query = FetchQuery(reads, max_bytes=max_bytes)
        answers = stack.fetch.fetch_now(query) or await stack.fetch.fetch(query)
        if not any(answer.batches for answer in answers):
            return found
        for answer in answers:
            assert answer.error is None
            for batch in answer.batches:
                for record in decode_records(batch):
                    if record.offset >= positions[answer.partition]:
                        assert record.value is not None
                        found[answer.partition, record.offset] = record.value
                        positions[answer.partition] = record.offset + 1


def merged(parts: Iterable[dict[Place, bytes]]) -> dict[Place, bytes]:
    whole: dict[Place, bytes] = {}
    for part in parts:
        assert not whole.keys() & part.keys(), "two records were given the same offset"
        whole |= part
    return whole


def differences(acknowledged: dict[Place, bytes], found: dict[Place, bytes]) -> str:
    """A mismatch names the offsets, so that nobody explains it away as lag."""
    return (
        f"missing {sorted(acknowledged.keys() - found.keys())}, invented {sorted(found.keys() - acknowledged.keys())}"
    )


async def test_the_set_acknowledged_is_the_set_readable(open_stack: OpenStack, data_dir: Path, tmp_path: Path) -> None:
    """74 of 500 offsets could not be reached with 8 producers."""
    stack = await open_stack()
    await stack.topic("t", PARTITIONS, segment_bytes="20000", index_interval_bytes="512")
    acknowledged = merged(await asyncio.gather(*(produce(stack, number, 40) for number in range(16))))
    for max_bytes in (1, 4000, 10**6):
        found = await readable(stack, max_bytes=max_bytes)
        assert found == acknowledged, differences(acknowledged, found)
    for partition in range(PARTITIONS):
        offsets = sorted(offset for place, offset in acknowledged if place == partition)
        assert offsets == list(range(len(offsets)))
    killed = await open_stack(copy_as_after_kill(data_dir, tmp_path / "killed"))
    found = await readable(killed, max_bytes=10**6)
    assert found == acknowledged, differences(acknowledged, found)
    await stack.stop()
    again = await open_stack()
    found = await readable(again, max_bytes=10**6)
    assert found == acknowledged, differences(acknowledged, found)
    await again.stop()
    await killed.stop()


async def test_readers_beside_writers_see_every_record_once_and_in_order(open_stack: OpenStack) -> None:
    stack = await open_stack()
    await stack.topic("t", PARTITIONS, segment_bytes="20000")
    total = 600

    async def write(partition: int) -> None:
        for number in range(total // 3):
            values = [b"%d" % (number * 3 + at) for at in range(3)]
            stack.publish.append("t", partition, stack.batch(*values), acks=Acks.LEADER)
            if number % 7 == 0:
                await asyncio.sleep(0)

    async def follow() -> list[list[int]]:
        seen: list[list[int]] = [[] for _ in range(PARTITIONS)]
        while any(len(one) < total for one in seen):
            reads = [PartitionRead("t", partition, len(seen[partition]), 500) for partition in range(PARTITIONS)]
            query = FetchQuery(reads, max_bytes=2000, max_wait_ms=10_000)
            for answer in stack.fetch.fetch_now(query) or await stack.fetch.fetch(query):
                assert answer.error is None
                mine = seen[answer.partition]
                for batch in answer.batches:
                    mine += [record.offset for record in decode_records(batch) if record.offset >= len(mine)]
            await asyncio.sleep(0)
        return seen

    async with asyncio.timeout(60):
        *_, first, second = await asyncio.gather(*(write(one) for one in range(PARTITIONS)), follow(), follow())
    assert first == second == [list(range(total))] * PARTITIONS
    assert all(len(one.waiters) == 0 for one in stack.partitions.all_open())
    await stack.stop()

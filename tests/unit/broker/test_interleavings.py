"""Producers, syncs, deletions and power cuts in every order that a seed can draw."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from tests.unit.broker.stack import Stack, records_in

from goqueue.broker.reading.fetch import FetchQuery, PartitionRead
from goqueue.broker.topics import NewTopic
from goqueue.errors import GoQueueError, TopicExists, TopicNotFound
from goqueue.records import Acks, NewRecord
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import Survival
from goqueue.testing.memory_files import MemoryFiles
from goqueue.testing.sim_loop import DelayedOffload, run

Place = tuple[int, int]


async def everything(stack: Stack, partitions: int) -> dict[Place, bytes | None]:
    return {
        (partition, record.offset): record.value
        for partition in range(partitions)
        for record in await stack.read_all("t", partition)
    }


@pytest.mark.parametrize("seed", range(15))
def test_acknowledged_records_are_readable_now_and_after_a_power_cut(seed: int) -> None:
    """With acks=all and a disk that forgets whatever was not synced."""
    files, clock = MemoryFiles(seed=seed), ManualClock()
    acknowledged: dict[Place, bytes | None] = {}

    async def produce(stack: Stack, producer: int) -> None:
        for number in range(8):
            records = [NewRecord(None, b"%d/%d/%d" % (producer, number, at)) for at in range(3)]
            for record, result in zip(
                records, await stack.publish.publish_records("t", records, acks=Acks.ALL), strict=True
            ):
                assert result.error is None
                assert (result.partition, result.offset) not in acknowledged
                acknowledged[result.partition, result.offset] = record.value

    async def live() -> None:
        stack = Stack(files, clock, offload=DelayedOffload(Random(seed)))
        await stack.topic("t", 2)
        await asyncio.gather(*(produce(stack, producer) for producer in range(8)))
        assert await everything(stack, 2) == acknowledged

    async def check(survivor: MemoryFiles) -> None:
        assert await everything(Stack(survivor, clock), 2) == acknowledged

    run(live(), clock=clock, order=Random(seed))
    assert len(acknowledged) == 8 * 8 * 3
    run(check(files.crash(Survival.NOTHING)), clock=clock)


@pytest.mark.parametrize("seed", range(15))
def test_topics_that_come_and_go_never_see_each_others_records(seed: int) -> None:
    """Every record read belongs to the topic that was read."""
    files, clock, chance = MemoryFiles(seed=seed), ManualClock(), Random(seed)

    async def come_and_go(stack: Stack) -> None:
        for _ in range(6):
            await asyncio.sleep(chance.random() / 100)
            try:
                await stack.topics.create(NewTopic("t", 1))
            except TopicExists:
                await stack.topics.delete("t")

    async def write(stack: Stack) -> None:
        for _ in range(20):
            await asyncio.sleep(chance.random() / 200)
            try:
                value = str(stack.topics.get("t").topic_id).encode()
                await stack.write(value, acks=chance.choice([Acks.LEADER, Acks.ALL]))
            except GoQueueError:
                continue

    async def read(stack: Stack) -> None:
        for _ in range(20):
            await asyncio.sleep(chance.random() / 200)
            try:
                topic_id = str(stack.topics.get("t").topic_id).encode()
            except TopicNotFound:
                continue
            fetched = stack.fetch.fetch_now(FetchQuery([PartitionRead("t", 0, 0, 10**6)], 10**6))
            if fetched is not None and fetched[0].error is None:
                assert {record.value for record in records_in(fetched[0])} <= {topic_id}

    async def live() -> None:
        stack = Stack(files, clock, offload=DelayedOffload(Random(seed)))
        await asyncio.gather(come_and_go(stack), write(stack), write(stack), read(stack))
        await stack.stop()
        assert files.list("deleted") == []
        assert stack.metadata.image.deletions() == {}

    run(live(), clock=clock, order=Random(seed))

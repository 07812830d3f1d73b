"""Stopping and starting on real files."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from tests.integration.conftest import OpenStack, copy_as_after_kill

from goqueue.broker.topics import NewTopic
from goqueue.errors import TopicNotFound
from goqueue.records import Acks


async def test_a_start_with_a_thousand_partitions_opens_none_of_them(open_stack: OpenStack) -> None:
    stack = await open_stack()
    await asyncio.gather(*(stack.topics.create(NewTopic(f"t{number}", 10)) for number in range(100)))
    for number in range(50, 60):
        for partition in range(10):
            stack.publish.append(f"t{number}", partition, stack.batch(b"v"), acks=Acks.LEADER)
    await stack.stop()
    started = time.perf_counter()
    again = await open_stack()
    seconds = time.perf_counter() - started
    assert again.partitions.all_open() == []
    assert len(again.topics.list()) == 100
    assert seconds < 3
    assert len(again.partitions.on_disk()) == 100
    assert again.queries.offsets("t57", 3).end_offset == 1
    await again.stop()


async def test_everything_comes_back_after_a_stop_and_after_a_kill(
    open_stack: OpenStack, data_dir: Path, tmp_path: Path
) -> None:
    stack = await open_stack()
    cluster_id = stack.metadata.cluster_id
    topic = await stack.topic("t", 2, retention_ms="-1")
    first_id = await stack.producer_ids.allocate()
    for partition in (0, 1):
        await stack.write(b"a", b"b", partition=partition)
    killed = await open_stack(copy_as_after_kill(data_dir, tmp_path / "killed"))
    await stack.stop()
    # A kill begins a new leader epoch, for the end of a log may be lost; a stop does not.
    for again, epoch in ((killed, 1), (await open_stack(), 0)):
        assert again.metadata.cluster_id == cluster_id
        assert again.topics.get("t") == topic
        assert [one.leader_epoch for one in again.topics.assignments(topic)] == [epoch] * 2
        assert await again.producer_ids.allocate() > first_id
        for partition in (0, 1):
            assert [record.value for record in await again.read_all("t", partition)] == [b"a", b"b"]
            assert await again.write(b"c", partition=partition) == 2
        await again.stop()


async def test_a_deleted_topic_is_gone_from_the_disk(open_stack: OpenStack, data_dir: Path) -> None:
    stack = await open_stack()
    await stack.topic("t", 3)
    for partition in range(3):
        await stack.write(bytes(100_000), partition=partition)
    await stack.topics.delete("t")
    with pytest.raises(TopicNotFound):
        stack.publish.append("t", 0, stack.batch(b"v"), acks=Acks.LEADER)
    await stack.stop()
    assert not (data_dir / "logs" / "t").exists()
    assert list((data_dir / "deleted").iterdir()) == []


async def test_readers_of_a_topic_that_is_deleted_under_them_get_an_answer(open_stack: OpenStack) -> None:
    stack = await open_stack()
    for round_ in range(10):
        await stack.topic("t", 1, segment_bytes="2000")
        for _ in range(20):
            stack.publish.append("t", 0, stack.batch(bytes(500)), acks=Acks.LEADER)

        async def read() -> int:
            answers = 0
            while True:
                fetched = await stack.read(0, max_wait_ms=1000)
                answers += 1
                if fetched.error is not None:
                    return answers
                await asyncio.sleep(0)

        readers = [asyncio.create_task(read()) for _ in range(5)]
        pending = stack.publish.append("t", 0, stack.batch(b"last"), acks=Acks.ALL)
        await asyncio.sleep(0.001 * round_)
        await stack.topics.delete("t")
        async with asyncio.timeout(20):
            await asyncio.gather(*readers)
            assert pending.durable is not None
            await asyncio.gather(pending.durable, return_exceptions=True)
    await stack.stop()

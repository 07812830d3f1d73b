"""Groups of aiokafka and kafka-python: clients with implementations of their own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from tests.e2e.group_members import create_topic, produce, quick_broker
from tests.e2e.kafka_python import KafkaConsumer
from tests.e2e.kafka_python import TopicPartition as PythonPartition

SECONDS_MAX = 20.0


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with quick_broker(tmp_path_factory.mktemp("broker")) as process:
        yield process.kafka


# --- aiokafka ---------------------------------------------------------------------------


@asynccontextmanager
async def aio_member(address: str, topic: str, assignor: type, **more: object) -> AsyncIterator[AIOKafkaConsumer]:
    member = AIOKafkaConsumer(
        topic,
        bootstrap_servers=address,
        group_id=topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6_000,
        heartbeat_interval_ms=200,
        partition_assignment_strategy=(assignor,),
        **more,
    )
    await member.start()
    try:
        yield member
    finally:
        await member.stop()


async def aio_read(member: AIOKafkaConsumer, count: int) -> list[str]:
    values: list[str] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(values) < count:
        assert time.monotonic() < deadline, f"read only {len(values)} of {count}"
        for records in (await member.getmany(timeout_ms=100)).values():
            values += [(one.value or b"").decode() for one in records]
    return values


@pytest.mark.parametrize("assignor", [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor])
async def test_aiokafka_shares_commits_and_takes_over(address: str, assignor: type) -> None:
    topic = f"aio-{assignor.__name__}"
    create_topic(address, topic, 4)
    values = produce(address, topic, 4, 100)

    async with aio_member(address, topic, assignor) as first:
        assert sorted(await aio_read(first, 100)) == sorted(values)
        await first.commit()

        async with aio_member(address, topic, assignor) as second:
            async with asyncio.timeout(SECONDS_MAX):
                while not (len(first.assignment()) == len(second.assignment()) == 2):
                    await asyncio.gather(first.getmany(timeout_ms=50), second.getmany(timeout_ms=50))
            assert not first.assignment() & second.assignment()

        async with asyncio.timeout(SECONDS_MAX):
            while len(first.assignment()) != 4:
                await first.getmany(timeout_ms=50)
        assert [await first.committed(AioPartition(topic, one)) for one in range(4)] == [25] * 4


async def test_aiokafka_returns_as_a_static_member(address: str) -> None:
    topic = "aio-static"
    create_topic(address, topic, 2)
    async with aio_member(address, topic, RangePartitionAssignor, group_instance_id="one") as first:
        generation = first._coordinator.generation

    async with aio_member(address, topic, RangePartitionAssignor, group_instance_id="one") as second:
        assert len(second.assignment()) == 2
        assert second._coordinator.generation == generation, "no rebalance was needed"


# --- kafka-python -----------------------------------------------------------------------


def python_member(address: str, topic: str, **more: object) -> KafkaConsumer:
    return KafkaConsumer(
        topic,
        bootstrap_servers=address,
        group_id=topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6_000,
        heartbeat_interval_ms=200,
        **more,
    )


def python_read(member: KafkaConsumer, count: int) -> list[str]:
    values: list[str] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(values) < count:
        assert time.monotonic() < deadline, f"read only {len(values)} of {count}"
        for records in member.poll(timeout_ms=100).values():
            values += [(one.value or b"").decode() for one in records]
    return values


def test_kafka_python_shares_commits_and_takes_over(address: str) -> None:
    topic = "python"
    create_topic(address, topic, 4)
    values = produce(address, topic, 4, 100)
    first = python_member(address, topic)
    try:
        assert sorted(python_read(first, 100)) == sorted(values)
        first.commit()
        second = python_member(address, topic)
        try:
            deadline = time.monotonic() + SECONDS_MAX
            while not (len(first.assignment()) == len(second.assignment()) == 2):
                assert time.monotonic() < deadline
                first.poll(timeout_ms=50)
                second.poll(timeout_ms=50)
            assert not first.assignment() & second.assignment()
        finally:
            second.close()
        deadline = time.monotonic() + SECONDS_MAX
        while len(first.assignment()) != 4:
            assert time.monotonic() < deadline
            first.poll(timeout_ms=50)
        assert [first.committed(PythonPartition(topic, one)) for one in range(4)] == [25] * 4
    finally:
        first.close()


def test_clients_of_different_kinds_are_members_of_one_group(address: str) -> None:
    """What one leads, the other follows: the broker does not care whose bytes they are."""
    topic = "mixed"
    create_topic(address, topic, 4)
    python = python_member(address, topic)
    try:

        async def both() -> None:
            async with aio_member(address, topic, RangePartitionAssignor) as aio:
                async with asyncio.timeout(SECONDS_MAX):
                    while not (len(python.assignment()) == len(aio.assignment()) == 2):
                        await asyncio.gather(aio.getmany(timeout_ms=50), asyncio.to_thread(python.poll, timeout_ms=50))
                theirs = {(one.topic, one.partition) for one in python.assignment()}
                assert theirs.isdisjoint({(one.topic, one.partition) for one in aio.assignment()})

        asyncio.run(both())
    finally:
        python.close()

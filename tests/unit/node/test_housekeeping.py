"""Retention, compaction and checkpoints, in a whole node on a disk in memory and in simulated time."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from goqueue.broker.topics import NewTopic
from goqueue.config import Config, DurabilityConfig, LogConfig
from goqueue.errors import DiskFull
from goqueue.log.partition_log import PartitionLog
from goqueue.node.assemble import assemble
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.clock import ManualClock, seeded_rng
from goqueue.testing.memory_files import MemoryFiles
from goqueue.testing.sim_loop import InlineOffload, simulated

CONFIG = Config(log=LogConfig(retention_check_ms=1000), durability=DurabilityConfig(checkpoint_interval_ms=5000))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@asynccontextmanager
async def running(files: MemoryFiles, clock: ManualClock, config: Config = CONFIG) -> AsyncIterator[Services]:
    node = assemble(config, files=files, clock=clock, rng=seeded_rng(1), offload=InlineOffload())
    yield (await node.start()).services
    await node.stop()


async def publish(services: Services, key: bytes, value: bytes, *, timestamp_ms: int | None = None) -> None:
    results = await services.publish.publish_records(
        "orders", [NewRecord(key, value, timestamp_ms=timestamp_ms)], acks=Acks.LEADER, partition=0
    )
    if results[0].error is not None:
        raise results[0].error


async def stored(services: Services) -> list[tuple[bytes | None, bytes | None]]:
    start = services.queries.offsets("orders", 0).log_start_offset
    place = TopicPartition("orders", 0)
    read = (await services.reads.read({place: start}, limit=10_000, max_bytes=1 << 20))[place]
    return [(record.key, record.value) for record in read.records]


@simulated
async def test_segments_past_their_retention_go(clock: ManualClock) -> None:
    """Retention logged success and never deleted anything."""
    async with running(MemoryFiles(), clock) as services:
        await services.topics.create(NewTopic("orders", 1, config={"retention.ms": "10000", "segment.ms": "1000"}))
        for number in range(5):
            await publish(services, b"key", b"old %d" % number)
            await asyncio.sleep(1.1)
        assert len(await stored(services)) == 5
        await asyncio.sleep(30)
        await publish(services, b"key", b"new")
        await asyncio.sleep(2)
        assert await stored(services) == [(b"key", b"new")]


@simulated
async def test_partitions_that_nobody_used_since_the_start_are_cleaned_too(clock: ManualClock) -> None:
    files = MemoryFiles()
    async with running(files, clock) as services:
        await services.topics.create(NewTopic("orders", 1, config={"retention.ms": "10000"}))
        await publish(services, b"key", b"x" * 1000)
    clock.advance(days=1)
    async with running(files, clock) as services:
        assert services.queries.log_dirs() is not None
        await asyncio.sleep(2)
        assert services.queries.offsets("orders", 0).log_start_offset == 1


@simulated
async def test_a_compacted_topic_keeps_the_newest_record_of_each_key(clock: ManualClock) -> None:
    config = {"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"}
    async with running(MemoryFiles(), clock) as services:
        await services.topics.create(NewTopic("orders", 1, config=config))
        for number in range(10):
            await publish(services, b"a" if number % 2 else b"b", b"%d" % number)
            await asyncio.sleep(1.1)
        await asyncio.sleep(5)
        # The last record is in the active segment, which takes no part in it.
        assert await stored(services) == [(b"a", b"7"), (b"b", b"8"), (b"a", b"9")]


@simulated
async def test_a_checkpoint_follows_a_log_that_has_grown_and_only_such_a_one(clock: ManualClock) -> None:
    files = MemoryFiles()
    async with running(files, clock) as services:
        await services.topics.create(NewTopic("orders", 1))
        await publish(services, b"key", b"value")
        await asyncio.sleep(6)
        first = files.read("logs/orders/0/partition.ckpt")
        await asyncio.sleep(60)
        assert files.read("logs/orders/0/partition.ckpt") == first
        await publish(services, b"key", b"value")
        await asyncio.sleep(12)
        assert files.read("logs/orders/0/partition.ckpt") != first


@simulated
async def test_one_partition_that_fails_does_not_keep_the_others_from_their_turn(clock: ManualClock) -> None:
    files = MemoryFiles()
    async with running(files, clock) as services:
        await services.topics.create(NewTopic("broken", 1))
        await services.topics.create(NewTopic("orders", 1, config={"retention.ms": "1000"}))
        await services.publish.publish_records("broken", [NewRecord(None, b"x")], acks=Acks.ALL)
        await publish(services, b"key", b"old")
        files.faults.fail("rename", "logs/broken/*", code=errno.EIO, times=1000)
        await publish(services, b"key", b"old")
        await asyncio.sleep(30)
        assert services.queries.offsets("orders", 0).log_start_offset == 2
        files.faults.clear()


@simulated
async def test_a_mistake_of_our_own_does_not_end_the_rounds(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task would end unheard, and no partition would be cleaned again until the next start."""
    apply_retention = PartitionLog.apply_retention

    def stumble(log: PartitionLog, now_ms: int) -> int:
        if "broken" in log.directory:
            raise AssertionError("cannot be")
        return apply_retention(log, now_ms)

    monkeypatch.setattr(PartitionLog, "apply_retention", stumble)
    async with running(MemoryFiles(), clock) as services:
        for name in ("broken", "orders"):
            await services.topics.create(NewTopic(name, 1, config={"retention.ms": "10000"}))
            await services.publish.publish_records(name, [NewRecord(None, b"old")], acks=Acks.LEADER, partition=0)
        await asyncio.sleep(30)
        assert services.queries.offsets("orders", 0).log_start_offset == 1


async def fill(services: Services) -> None:
    for _ in range(1000):
        await publish(services, b"key", b"x" * 4000)
        await asyncio.sleep(0.01)


@simulated
async def test_a_full_disk_refuses_writes_serves_reads_and_recovers(clock: ManualClock) -> None:
    files = MemoryFiles(capacity_bytes=1 << 20)
    config = Config(log=CONFIG.log, durability=DurabilityConfig(disk_free_bytes_min=1 << 19))
    async with running(files, clock, config) as services:
        await services.topics.create(NewTopic("orders", 1, config={"retention.ms": "60000", "segment.bytes": "16384"}))
        with pytest.raises(DiskFull, match="no space left"):
            await fill(services)
        count = services.queries.offsets("orders", 0).end_offset
        assert 50 < count < 200
        assert len(await stored(services)) == count
        assert {one.name: one.problem is None for one in services.checks()}["disk"] is False
        # Time passes, retention frees the disk, and writes go on by themselves.
        await asyncio.sleep(90)
        await publish(services, b"key", b"room again")
        assert (await stored(services))[-1] == (b"key", b"room again")
        assert all(one.problem is None for one in services.checks())


@simulated
async def test_damage_is_told_once_and_what_was_done_is_counted(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    files = MemoryFiles()
    async with running(files, clock) as services:
        await services.topics.create(NewTopic("orders", 1, config={"retention.ms": "10000", "segment.ms": "1000"}))
        await publish(services, b"key", b"value")
        files.flip_bit("logs/orders/0/00000000000000000000.log", 60)
        assert await stored(services) == []
        await asyncio.sleep(5)
        told = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
        assert len(told) == 1
        assert "orders-0: logs/orders/0/00000000000000000000.log is damaged at byte 0" in told[0]
        assert services.metrics is not None
        assert b"goqueue_storage_segments_deleted_total 0.0" in await services.metrics()
        await asyncio.sleep(30)
        page = await services.metrics()
        assert b"goqueue_storage_segments_deleted_total 1.0" in page
        assert b"goqueue_storage_housekeeping_errors_total 0.0" in page
        assert b'goqueue_storage_damaged_frames{topic="orders"} 0.0' in page

"""Readiness that can fail: health checks that always pass are worse than none."""

from __future__ import annotations

import errno

import pytest

from goqueue.broker.topics import NewTopic
from goqueue.config import Config, DurabilityConfig
from goqueue.errors import GoQueueError
from goqueue.node.assemble import assemble
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.clock import ManualClock, seeded_rng
from goqueue.testing.memory_files import MemoryFiles
from goqueue.testing.sim_loop import InlineOffload, simulated


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def start(files: MemoryFiles, clock: ManualClock, config: Config | None = None) -> Services:
    node = assemble(config or Config(), files=files, clock=clock, rng=seeded_rng(1), offload=InlineOffload())
    return (await node.start()).services


async def page(services: Services) -> str:
    assert services.metrics is not None
    return (await services.metrics()).decode()


def problems(services: Services) -> dict[str, str]:
    return {check.name: check.problem for check in services.checks() if check.problem is not None}


@simulated
async def test_a_sound_node_has_no_problem_until_it_stops(clock: ManualClock) -> None:
    node = assemble(Config(), files=MemoryFiles(), clock=clock, rng=seeded_rng(1), offload=InlineOffload())
    services = (await node.start()).services
    assert problems(services) == {}
    await node.stop()
    assert "listeners" in problems(services)


@simulated
async def test_a_log_whose_sync_failed_is_named(clock: ManualClock) -> None:
    files = MemoryFiles()
    services = await start(files, clock)
    await services.topics.create(NewTopic("orders", 1))
    files.faults.fail("sync", "logs/orders/*.log")
    result = await services.publish.publish_records("orders", [NewRecord(None, b"x")], acks=Acks.ALL)
    assert result[0].error is not None
    problem = problems(services)["logs"]
    assert problem.startswith(
        "1 of them take no writes since a sync failed, until a restart: orders-0 (OSError: [Errno 5]"
    )


@simulated
async def test_damage_that_was_found_is_shown_though_the_node_serves(clock: ManualClock) -> None:
    files = MemoryFiles()
    services = await start(files, clock)
    await services.topics.create(NewTopic("orders", 1))
    await services.topics.create(NewTopic("sound", 1))
    for topic in ("orders", "sound"):
        await services.publish.publish_records(topic, [NewRecord(None, b"x")], acks=Acks.ALL)
    place = TopicPartition("orders", 0)
    assert all(check.warning is None for check in services.checks())

    files.flip_bit("logs/orders/0/00000000000000000000.log", 60)
    read = await services.reads.read({place: 0}, limit=1, max_bytes=1000)

    assert [(one.first, one.last) for one in read[place].unreadable] == [(0, 0)]
    (warning,) = [check.warning for check in services.checks() if check.warning is not None]
    assert warning.startswith("1 of them have damaged frames, which are not served: orders-0; run 'goqueue log verify'")
    assert problems(services) == {}
    assert 'goqueue_storage_damaged_frames{topic="orders"} 1.0' in await page(services)


@simulated
async def test_damage_that_retention_took_away_is_shown_no_more(clock: ManualClock) -> None:
    files = MemoryFiles()
    services = await start(files, clock)
    await services.topics.create(NewTopic("orders", 1))
    await services.publish.publish_records("orders", [NewRecord(None, b"x")], acks=Acks.ALL)
    files.flip_bit("logs/orders/0/00000000000000000000.log", 60)
    await services.reads.read({TopicPartition("orders", 0): 0}, limit=1, max_bytes=1000)
    assert any(check.warning for check in services.checks())
    log = services.fetch._partitions.leader("orders", 0).log
    log.roll()
    log.delete_before(log.end_offset)
    assert not any(check.warning for check in services.checks())


@simulated
async def test_metadata_that_cannot_be_changed_any_more_is_a_problem(clock: ManualClock) -> None:
    files = MemoryFiles()
    services = await start(files, clock)
    files.faults.fail("sync", "metadata/*")
    with pytest.raises(GoQueueError):
        await services.topics.create(NewTopic("orders", 1))
    assert "metadata" in problems(services)


@simulated
async def test_a_disk_that_is_nearly_full_is_a_problem_until_there_is_room(clock: ManualClock) -> None:
    files = MemoryFiles(capacity_bytes=1 << 20)
    services = await start(files, clock, Config(durability=DurabilityConfig(disk_free_bytes_min=1 << 21)))
    assert "fewer than 2097152" in problems(services)["disk"]
    files.faults.capacity_bytes = 1 << 22
    assert problems(services) == {}


@pytest.mark.parametrize("name", ["EIO", "EROFS", "ENOSPC", "EDQUOT", "EMFILE"])
@simulated
async def test_writes_that_fail_are_told_counted_and_shown_until_one_succeeds(
    clock: ManualClock, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    files = MemoryFiles()
    services = await start(files, clock)
    await services.topics.create(NewTopic("orders", 1))
    await services.publish.publish_records("orders", [NewRecord(None, b"x")], acks=Acks.ALL)
    files.faults.fail("append", "logs/orders/*.log", code=getattr(errno, name), times=3)
    for _ in range(3):
        (result,) = await services.publish.publish_records("orders", [NewRecord(None, b"x")], acks=Acks.ALL)
        assert result.error is not None

    assert f"writes fail: {name}" in problems(services)["disk"]
    assert "logs/orders/0" in problems(services)["disk"]
    assert [line.levelname for line in caplog.records if "writing fails" in line.message] == ["ERROR"]
    assert f'goqueue_storage_write_errors_total{{error="{name}"}} 3.0' in await page(services)

    (result,) = await services.publish.publish_records("orders", [NewRecord(None, b"x")], acks=Acks.ALL)

    assert result.error is None
    assert problems(services) == {}
    assert "writing succeeds again" in caplog.text
    assert "after 3 failures" in caplog.text

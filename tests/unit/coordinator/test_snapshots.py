"""Snapshots: a shortcut for replay, thrown away at the first doubt."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from goqueue.coordinator.shard import Transaction
from goqueue.coordinator.snapshots import Snapshot, Snapshots
from goqueue.testing.register import Put, Read, Register
from goqueue.testing.sim_loop import simulated

PATH = "snapshots/__registers/2.snapshot"


async def put(stage: Any, *numbers: int, transaction: Transaction | None = None) -> None:
    for number in numbers:
        reply = stage.coordinator.submit("a", Put("a", number, transaction=transaction))
        await stage.settle()
        stage.partition_of("a").sync()
        await reply


async def read_after_restart(stage: Any) -> tuple[int | None, list[int]]:
    """The number, and the offsets that replay read from."""
    log = stage.partition_of("a").log
    log.reads.clear()
    number = await stage.restart().submit("a", Read("a"))
    return number, log.reads


@simulated
async def test_after_a_clean_stop_replay_begins_behind_the_snapshot(stage: Any) -> None:
    await put(stage, 1, 2, 3)
    await stage.coordinator.close()
    assert await read_after_restart(stage) == (3, [])
    await put(stage, 4)
    assert await read_after_restart(stage) == (4, [3])


@simulated
async def test_a_snapshot_survives_a_power_cut_as_the_log_does(stage: Any) -> None:
    await put(stage, 1, 2, 3)
    await stage.coordinator.close()
    stage.files = stage.files.crash()
    assert await read_after_restart(stage) == (3, [])


@simulated
async def test_an_unchanged_shard_writes_no_snapshot_again(stage: Any) -> None:
    await put(stage, 1)
    await stage.coordinator.close()
    stage.restart()
    await stage.coordinator.submit("a", Read("a"))
    steps = stage.files.faults.steps
    await stage.coordinator.close()
    assert stage.files.faults.steps == steps


def shorter(stage: Any) -> None:
    log = stage.partition_of("a").log
    log.batches.pop()
    log.end_offset -= 1


def of_another_topic(stage: Any) -> None:
    stage.partition_of("a").log.topic_id = UUID(int=10)


def of_another_epoch(stage: Any) -> None:
    stage.partition_of("a").log.leader_epoch = 4


def begun_later(stage: Any) -> None:
    log = stage.partition_of("a").log
    log.batches.clear()
    log.start_offset = log.end_offset = 9
    stage.partition_of("a").synced = 9


@pytest.mark.parametrize(
    ("change", "number"), [(shorter, 2), (of_another_topic, 3), (of_another_epoch, 3), (begun_later, None)]
)
def test_a_snapshot_that_the_log_contradicts_is_thrown_away(stage: Any, change: Any, number: int | None) -> None:
    @simulated
    async def scene(stage: Any) -> None:
        await put(stage, 1, 2, 3)
        await stage.coordinator.close()
        change(stage)
        assert (await read_after_restart(stage))[0] == number
        assert not stage.files.exists(PATH)

    scene(stage=stage)


@simulated
async def test_a_damaged_snapshot_is_thrown_away_wherever_the_damage_is(stage: Any) -> None:
    await put(stage, 1, 2, 3)
    await stage.coordinator.close()
    content = stage.files.read(PATH)
    for position in range(len(content)):
        stage.files.replace(PATH, content)
        stage.files.flip_bit(PATH, position, position % 8)
        assert await read_after_restart(stage) == (3, [0, 1, 2])
        assert not stage.files.exists(PATH)
    stage.files.replace(PATH, content[:20])
    assert await read_after_restart(stage) == (3, [0, 1, 2])


@simulated
async def test_a_snapshot_that_the_machine_does_not_understand_is_thrown_away(stage: Any) -> None:
    await put(stage, 1)
    log = stage.partition_of("a").log
    Snapshots(stage.files, "__registers").save(2, Snapshot(log.topic_id, log.leader_epoch, 1, b"\xc1old"))
    assert await read_after_restart(stage) == (1, [0])
    assert not stage.files.exists(PATH)


@simulated
async def test_no_snapshot_is_taken_of_a_state_that_the_log_may_forget(stage: Any) -> None:
    await put(stage, 1)
    stage.coordinator.submit("a", Put("a", 2))
    await stage.settle()
    closing = asyncio.create_task(stage.coordinator.close())
    await stage.settle()
    assert not stage.files.exists(PATH)
    stage.partition_of("a").sync()
    await closing
    assert await read_after_restart(stage) == (2, [])


@simulated
async def test_no_snapshot_is_taken_in_the_middle_of_a_transaction(stage: Any) -> None:
    await put(stage, 1)
    await put(stage, 2, transaction=Transaction(5, 0))
    await stage.coordinator.close()
    assert not stage.files.exists(PATH)
    assert await read_after_restart(stage) == (1, [0, 1])


@simulated
async def test_a_long_running_shard_leaves_snapshots_on_its_way(stage: Any) -> None:
    stage.restart(snapshot_offsets=10)
    await put(stage, *range(25))
    await stage.settle()
    number, reads = await read_after_restart(stage)
    assert number == 24
    assert 10 <= reads[0] <= 24


@simulated
async def test_a_snapshot_that_cannot_be_written_is_only_a_longer_replay(stage: Any) -> None:
    await put(stage, 1)
    stage.files.faults.fail("append", times=9)
    await stage.coordinator.close()
    stage.files.faults.clear()
    assert await read_after_restart(stage) == (1, [0])


@simulated
async def test_a_machine_may_do_without_snapshots(stage: Any) -> None:
    class Plain(Register):
        def snapshot(self) -> bytes:
            return b""

    stage.machine_factory = Plain
    stage.restart()
    await put(stage, 1)
    await stage.coordinator.close()
    assert not stage.files.exists(PATH)

"""What is due happens without anybody asking, by the clock that was handed in."""

from __future__ import annotations

import asyncio
from typing import Any

from goqueue.coordinator.timers import Alarm
from goqueue.testing.clock import ManualClock
from goqueue.testing.register import Put, Read
from goqueue.testing.sim_loop import run, simulated


async def put(stage: Any, key: str, number: int, expires_at_ms: int) -> None:
    reply = stage.coordinator.submit(key, Put(key, number, expires_at_ms))
    await stage.settle()
    stage.partition_of(key).sync()
    await reply


@simulated
async def test_a_machine_ticks_when_it_asked_to(stage: Any) -> None:
    now_ms = stage.clock.now_ms()
    await put(stage, "a", 1, now_ms + 5_000)
    await put(stage, "b", 2, now_ms + 90_000)
    await asyncio.sleep(4.9)
    assert await stage.coordinator.submit("a", Read("a")) == 1
    await asyncio.sleep(0.2)
    stage.partition_of("a").sync()
    assert await stage.coordinator.submit("a", Read("a")) is None
    assert await stage.coordinator.submit("b", Read("b")) == 2
    await asyncio.sleep(90)
    stage.partition_of("b").sync()
    assert await stage.coordinator.submit("b", Read("b")) is None


@simulated
async def test_what_became_due_while_the_node_was_down_happens_when_the_shard_is_loaded(stage: Any) -> None:
    await put(stage, "a", 1, stage.clock.now_ms() + 5_000)
    await stage.coordinator.close()
    await asyncio.sleep(60)
    assert await stage.restart().submit("a", Read("a")) == 1
    await asyncio.sleep(0.01)
    stage.partition_of("a").sync()
    assert await stage.coordinator.submit("a", Read("a")) is None


@simulated
async def test_a_dropped_shard_no_longer_ticks(stage: Any) -> None:
    await put(stage, "a", 1, stage.clock.now_ms() + 5_000)
    await stage.coordinator.close()
    await asyncio.sleep(60)
    assert stage.partition_of("a").log.end_offset == 1


def rings(*steps: tuple[int, int | None]) -> list[int]:
    """Set the alarm at these times to those times; returns when it rang."""
    clock = ManualClock(now_ms=0)
    rung: list[int] = []

    async def main() -> None:
        alarm = Alarm(clock, lambda: rung.append(clock.now_ms()))
        for when_ms, at_ms in steps:
            await asyncio.sleep((when_ms - clock.now_ms()) / 1000)
            alarm.set(at_ms)
        await asyncio.sleep(400)

    run(main(), clock=clock)
    return rung


def test_an_alarm_rings_once_at_the_time_set_last() -> None:
    assert rings((0, 100)) == [100]
    assert rings((0, 100), (50, 200)) == [200]
    assert rings((0, 200), (50, 100)) == [100]
    assert rings((0, 100), (50, None)) == []
    assert rings((0, 100), (50, None), (60, 80)) == [80]
    assert rings((0, 100), (200, 150)) == [100, 201]
    assert rings((0, 200_000)) == [200_000]


def test_an_alarm_obeys_a_wall_clock_that_is_set() -> None:
    clock = ManualClock(now_ms=1_000_000)
    rung: list[int] = []

    async def main() -> None:
        alarm = Alarm(clock, lambda: rung.append(clock.monotonic_ms()))
        alarm.set(1_100_000)
        clock.jump(ms=-50_000)
        await asyncio.sleep(149)
        assert rung == []
        await asyncio.sleep(2)
        alarm.set(clock.now_ms() + 3_600_000)
        clock.jump(ms=3_600_000)
        await asyncio.sleep(61)

    run(main(), clock=clock)
    assert len(rung) == 2
    assert rung[0] == 150_000

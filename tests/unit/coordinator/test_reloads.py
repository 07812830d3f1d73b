"""A dropped shard comes back by itself: its timers must not wait for somebody to ask."""

from __future__ import annotations

import asyncio
from typing import Any

from goqueue.coordinator.reloads import PAUSE_MS_MAX, PAUSE_MS_MIN
from goqueue.errors import DiskFull, LogPoisoned, NotLeader
from goqueue.testing.register import Put, Read
from goqueue.testing.sim_loop import simulated


async def put_that_expires(stage: Any, *, in_ms: int) -> None:
    reply = stage.coordinator.submit("a", Put("a", 1, expires_at_ms=stage.clock.now_ms() + in_ms))
    await stage.settle()
    stage.partition_of("a").sync()
    await reply


@simulated
async def test_a_tick_that_failed_is_made_up_for_without_any_request(stage: Any) -> None:
    partition = stage.partition_of("a")
    await put_that_expires(stage, in_ms=1000)
    partition.append_error = DiskFull("here")
    await asyncio.sleep(1.5)
    assert [type(reason) for _, reason in stage.failures] == [DiskFull]
    assert stage.coordinator.loaded() == []

    partition.append_error = None
    await asyncio.sleep(PAUSE_MS_MIN / 1000)

    assert stage.coordinator.loaded() == [2]
    assert partition.log.end_offset == 2, "the expiry is written"


@simulated
async def test_while_the_failure_lasts_the_attempts_become_rare_and_never_end(stage: Any) -> None:
    partition = stage.partition_of("a")
    await put_that_expires(stage, in_ms=1000)
    partition.append_error = DiskFull("here")
    await asyncio.sleep(100)
    # 1 + 2 + 4 seconds, then one in 8 seconds.
    assert 10 < len(stage.failures) < 20
    partition.append_error = None
    await asyncio.sleep(PAUSE_MS_MAX / 1000 + 1)
    assert partition.log.end_offset == 2


@simulated
async def test_a_shard_that_could_not_be_loaded_is_tried_again_too(stage: Any) -> None:
    partition = stage.partition_of("a")
    await put_that_expires(stage, in_ms=10_000)
    await stage.coordinator.close()
    partition.reached_error = DiskFull("here")
    reply = stage.restart().submit("a", Read("a"))
    await asyncio.gather(reply, return_exceptions=True)
    partition.reached_error = None
    await asyncio.sleep(10 + PAUSE_MS_MIN / 1000)
    assert partition.log.end_offset == 2


@simulated
async def test_a_request_does_not_wait_for_the_reload(stage: Any) -> None:
    partition = stage.partition_of("a")
    await put_that_expires(stage, in_ms=100_000)
    partition.append_error = DiskFull("here")
    await asyncio.gather(stage.coordinator.submit("a", Put("a", 2)), return_exceptions=True)
    partition.append_error = None
    assert await stage.coordinator.submit("a", Read("a")) == 1
    opened = list(stage.opened)
    await asyncio.sleep(60)
    assert stage.opened == opened, "and the reload is not due any more"


@simulated
async def test_what_another_node_leads_or_a_failed_sync_has_ended_stays_away(stage: Any) -> None:
    for reason in (NotLeader("node 2 leads now"), LogPoisoned("logs/__registers/0", "EIO")):
        await stage.coordinator.submit("a", Read("a"))
        stage.coordinator.drop(2, reason)
        opened = list(stage.opened)
        await asyncio.sleep(60)
        assert stage.opened == opened


@simulated
async def test_a_closed_coordinator_reloads_nothing(stage: Any) -> None:
    partition = stage.partition_of("a")
    await stage.coordinator.submit("a", Read("a"))
    partition.append_error = DiskFull("here")
    await asyncio.gather(stage.coordinator.submit("a", Put("a", 2)), return_exceptions=True)
    opened = list(stage.opened)
    await stage.coordinator.close()
    await asyncio.sleep(60)
    assert stage.opened == opened

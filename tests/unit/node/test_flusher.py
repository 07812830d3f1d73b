"""Group commit: who is served by which round, and what a failed sync does to whom."""

from __future__ import annotations

import asyncio
import errno
import gc
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from goqueue.config import DurabilityConfig
from goqueue.errors import LogPoisoned, StorageError
from goqueue.node.disk.flusher import Flusher
from goqueue.node.disk.offload import ThreadOffload
from goqueue.testing.memory_files import MemoryFiles

T = TypeVar("T")


class FakeSync:
    file_count = 1
    needs_whole_disk = False

    def __init__(self, log: FakeLog) -> None:
        self.end = log.end
        self._log = log

    def run(self) -> None:
        self._log.runs += 1
        if self._log.seconds:
            time.sleep(self._log.seconds)
        if self._log.failure is not None:
            raise self._log.failure

    def check_whole_disk(self) -> None:
        """Nothing was closed before its sync."""


class FakeLog:
    """A log that only counts: `append` moves its end, a sync catches up."""

    def __init__(self, name: str = "orders-0", *, seconds: float = 0.0) -> None:
        self.directory = name
        self.end = 0
        self.synced_end = 0
        self.runs = 0
        self.seconds = seconds
        self.failure: Exception | None = None
        self.checkpoint_works = True
        self.poisoned = False

    @property
    def is_dirty(self) -> bool:
        return self.end > self.synced_end

    def append(self) -> int:
        self.end += 1
        return self.end

    def begin_sync(self) -> FakeSync | None:
        return FakeSync(self) if self.synced_end < self.end and not self.poisoned else None

    def end_sync(self, sync: FakeSync, error: Exception | None) -> None:
        if error is None:
            self.synced_end = sync.end if self.checkpoint_works else self.synced_end
        else:
            self.poisoned = True


class HeldOffload:
    """Runs each piece of work when the test lets it."""

    def __init__(self) -> None:
        self.held: list[tuple[Callable[[], object], asyncio.Future[object]]] = []

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]:
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self.held.append((work, future))
        return future  # type: ignore[return-value]

    def release(self) -> int:
        """Do what is held so far; returns how many pieces that was."""
        held, self.held = self.held, []
        for work, future in held:
            future.set_result(work())
        return len(held)


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


@pytest.fixture
def held() -> HeldOffload:
    return HeldOffload()


def make(files: MemoryFiles, offload: object, **settings: int) -> Flusher:
    return Flusher(files, offload, DurabilityConfig(**settings))  # type: ignore[arg-type]


async def turn_loop(times: int = 5) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


async def test_all_who_ask_in_one_pass_share_one_sync(files: MemoryFiles, held: HeldOffload) -> None:
    flusher, log = make(files, held), FakeLog()
    waits = [flusher.synced(log, log.append()) for _ in range(64)]
    await turn_loop()
    assert held.release() == 1
    await asyncio.gather(*waits)
    assert log.runs == 1
    assert flusher.stats.rounds == 1
    assert flusher.stats.waiters_served == 64


async def test_those_who_come_during_a_round_are_served_by_the_next(files: MemoryFiles, held: HeldOffload) -> None:
    flusher, log = make(files, held), FakeLog()
    early = asyncio.ensure_future(flusher.synced(log, log.append()))
    await turn_loop()
    late = [asyncio.ensure_future(flusher.synced(log, log.append())) for _ in range(10)]
    await turn_loop()
    assert len(held.held) == 1, "one round at a time"
    held.release()
    await turn_loop()
    assert early.done()
    assert not any(one.done() for one in late), "the sync under way began before they wrote"
    held.release()
    await turn_loop()
    assert all(one.done() for one in late)
    assert flusher.stats.rounds == 2


async def test_what_is_safe_already_needs_no_round(files: MemoryFiles, held: HeldOffload) -> None:
    flusher, log = make(files, held), FakeLog()
    log.append()
    log.synced_end = 1
    await flusher.synced(log, 1)
    assert flusher.stats.rounds == 0


async def test_logs_are_synced_side_by_side(files: MemoryFiles, held: HeldOffload) -> None:
    flusher = make(files, held)
    logs = [FakeLog(f"orders-{number}") for number in range(3)]
    waits = [flusher.synced(log, log.append()) for log in logs]
    await turn_loop()
    assert held.release() == 3
    await asyncio.gather(*waits)
    assert flusher.stats.rounds == 1
    assert flusher.stats.logs_synced == 3


@pytest.mark.parametrize(("logs", "whole_disk"), [(3, 0), (4, 1), (9, 1)])
async def test_many_dirty_logs_are_synced_by_one_call_for_the_disk(
    files: MemoryFiles, held: HeldOffload, logs: int, whole_disk: int
) -> None:
    flusher = make(files, held, syncfs_files_min=4)
    dirty = [FakeLog(f"orders-{number}") for number in range(logs)]
    waits = [flusher.synced(log, log.append()) for log in dirty]
    await turn_loop()
    held.release()
    await asyncio.gather(*waits)
    assert files.faults.counts["sync_all"] == whole_disk
    assert sum(log.runs for log in dirty) == (0 if whole_disk else logs)


async def test_a_failed_sync_poisons_that_log_alone(files: MemoryFiles, held: HeldOffload) -> None:
    flusher, bad, good = make(files, held), FakeLog("bad-0"), FakeLog("good-0")
    bad.failure = OSError(errno.EIO, "io error")
    lost = [flusher.synced(bad, bad.append()) for _ in range(2)]
    safe = flusher.synced(good, good.append())
    await turn_loop()
    held.release()
    await safe
    for one in lost:
        with pytest.raises(LogPoisoned, match="bad-0"):
            await one
    assert bad.synced_end == 0
    assert flusher.stats.failures == 1
    # No later ack may pretend otherwise.
    with pytest.raises(LogPoisoned, match="bad-0"):
        await flusher.synced(bad, bad.append())


async def test_a_failed_sync_of_the_whole_disk_poisons_all_of_the_round(files: MemoryFiles, held: HeldOffload) -> None:
    flusher = make(files, held, syncfs_files_min=2)
    logs = [FakeLog(f"orders-{number}") for number in range(3)]
    files.faults.fail("sync_all")
    waits = [flusher.synced(log, log.append()) for log in logs]
    await turn_loop()
    held.release()
    for one in waits:
        with pytest.raises(LogPoisoned):
            await one
    assert all(log.poisoned for log in logs)


async def test_an_unforeseen_failure_counts_as_a_failed_sync(files: MemoryFiles, held: HeldOffload) -> None:
    flusher, log = make(files, held), FakeLog()
    log.failure = RuntimeError("nobody expected this")
    wait = flusher.synced(log, log.append())
    await turn_loop()
    held.release()
    with pytest.raises(LogPoisoned, match="nobody expected this"):
        await wait


@pytest.mark.parametrize("logs", [1, 3])
async def test_a_round_that_cannot_be_run_leaves_nobody_waiting(files: MemoryFiles, logs: int) -> None:
    """Where processes are counted, the system may refuse a thread; shards of groups would wait for ever."""

    def no_thread(_work: Callable[[], T], /) -> Awaitable[T]:
        raise RuntimeError("can't start new thread")

    flusher = Flusher(files, no_thread, DurabilityConfig())
    asked = [FakeLog(f"orders-{number}") for number in range(logs)]
    waits = [asyncio.ensure_future(flusher.synced(log, log.append())) for log in asked]  # type: ignore[arg-type]
    outcomes = await asyncio.wait_for(asyncio.gather(*waits, return_exceptions=True), 5)
    assert [type(outcome) for outcome in outcomes] == [LogPoisoned] * logs
    assert all(log.poisoned for log in asked)


async def test_a_failure_that_nobody_awaits_is_no_warning(files: MemoryFiles, held: HeldOffload) -> None:
    flusher, log = make(files, held), FakeLog()
    log.failure = OSError(errno.EIO, "io error")
    flusher.synced(log, log.append())
    await turn_loop()
    held.release()
    await turn_loop()
    gc.collect()


async def test_one_who_gives_up_takes_nobody_along(files: MemoryFiles, held: HeldOffload) -> None:
    flusher, log = make(files, held), FakeLog()
    quitter = asyncio.ensure_future(flusher.synced(log, log.append()))
    stayer = asyncio.ensure_future(flusher.synced(log, log.append()))
    await turn_loop()
    quitter.cancel()
    await turn_loop()
    held.release()
    await stayer
    assert quitter.cancelled()


async def test_a_log_closed_under_its_waiters_refuses_them(files: MemoryFiles, held: HeldOffload) -> None:
    flusher, log = make(files, held), FakeLog()
    wait = flusher.synced(log, log.append())
    log.end = 0
    with pytest.raises(StorageError, match="before its last records were safe"):
        await wait


async def test_a_round_that_saved_nothing_is_not_repeated_for_ever(files: MemoryFiles, held: HeldOffload) -> None:
    flusher, log = make(files, held), FakeLog()
    log.checkpoint_works = False
    wait = flusher.synced(log, log.append())
    await turn_loop()
    held.release()
    with pytest.raises(StorageError, match="before its last records were safe"):
        await wait
    assert flusher.stats.rounds == 1


async def test_logs_nobody_waits_for_are_synced_within_the_interval(files: MemoryFiles, held: HeldOffload) -> None:
    loop = asyncio.get_running_loop()
    flusher, logs = make(files, held, flush_interval_ms=80), [FakeLog("a"), FakeLog("b")]
    started = loop.time()
    for log in logs:
        log.append()
        flusher.mark_dirty(log)
        flusher.mark_dirty(log)
    while not held.held:
        assert loop.time() - started < 5
        await asyncio.sleep(0.002)
    assert loop.time() - started >= 0.035, "half the interval is for gathering, the rest for the disk"
    held.release()
    await turn_loop()
    assert [log.synced_end for log in logs] == [1, 1]


async def test_a_log_that_was_synced_for_a_waiter_needs_no_second_sync(files: MemoryFiles, held: HeldOffload) -> None:
    flusher, log = make(files, held, flush_interval_ms=20), FakeLog()
    end = log.append()
    flusher.mark_dirty(log)
    wait = flusher.synced(log, end)
    await turn_loop()
    held.release()
    await wait
    await asyncio.sleep(0.03)
    assert held.held == []
    assert log.runs == 1


async def test_bytes_marked_during_a_round_are_synced_by_a_later_one(files: MemoryFiles, held: HeldOffload) -> None:
    flusher, log = make(files, held), FakeLog()
    wait = flusher.synced(log, log.append())
    await turn_loop()
    log.append()
    flusher.mark_dirty(log)
    held.release()
    await wait
    assert log.synced_end == 1
    flushing = asyncio.ensure_future(flusher.flush())
    await turn_loop()
    held.release()
    await flushing
    assert log.synced_end == 2


async def test_closing_serves_all_and_leaves_nothing_dirty(files: MemoryFiles) -> None:
    offload = ThreadOffload("sync", threads_max=2)
    flusher = make(files, offload)
    waited, marked = FakeLog("a"), FakeLog("b")
    wait = flusher.synced(waited, waited.append())
    marked.append()
    flusher.mark_dirty(marked)
    await flusher.close()
    await flusher.close()
    await wait
    assert marked.synced_end == 1
    offload.close()
    offload.close()


@pytest.mark.parametrize("logs", [1, 3])
async def test_64_writers_share_their_rounds(logs: int) -> None:
    """How much faster that is, `make bench-log` measures; that syncs are shared can be counted."""
    offload = ThreadOffload("sync", threads_max=8)
    flusher = make(MemoryFiles(), offload)
    shared = [FakeLog(seconds=0.005) for _ in range(logs)]

    async def write(log: FakeLog) -> None:
        for _ in range(20):
            end = log.append()
            flusher.mark_dirty(log)
            await flusher.synced(log, end)

    await asyncio.gather(*(write(shared[number % logs]) for number in range(64)))
    await flusher.close()
    offload.close()

    assert flusher.stats.waiters_served == 64 * 20
    assert flusher.stats.rounds <= 64 * 20 / 20

"""Failed writes: whose failure it is, when it ends, and how often the log tells of it."""

from __future__ import annotations

import asyncio
import errno
import logging

import pytest

from goqueue.node.disk.write_failures import LOG_QUIET_MS, PROBE_MS, QUIET_MS, REPEAT_MS, WriteFailures
from goqueue.testing.clock import ManualClock
from goqueue.testing.memory_files import MemoryFiles
from goqueue.testing.sim_loop import InlineOffload, simulated

EIO = OSError(errno.EIO, "Input/output error")
ENOSPC = OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def clock():
    return ManualClock()


def watched(clock, files=None):
    failures = WriteFailures(files or MemoryFiles(), clock=clock, offload=InlineOffload(), free_bytes_min=0)
    failures.start()
    return failures


def lines(caplog):
    return [one.getMessage() for one in caplog.records if one.name == "goqueue.storage"]


async def pass_ms(ms):
    await asyncio.sleep(ms / 1000)


@simulated
async def test_the_success_of_a_neighbour_does_not_end_a_failure(clock):
    failures = watched(clock)
    failures.failed("logs/a/0", EIO)
    failures.succeeded("logs/b/0")
    assert failures.is_failing
    assert failures.problem() == "writes fail: EIO (Input/output error) in logs/a/0"
    failures.succeeded("logs/a/0")
    assert failures.problem() is None
    assert not failures.is_failing
    await failures.close()


@simulated
async def test_each_log_ends_its_own_failure(clock):
    failures = watched(clock)
    failures.failed("logs/a/0", EIO)
    failures.failed("logs/b/0", EIO)
    failures.failed("logs/a/0", ENOSPC)
    assert "logs/a/0 and 1 more" in failures.problem()
    failures.succeeded("logs/a/0")
    assert failures.problem() == "writes fail: EIO (Input/output error) in logs/b/0"
    await failures.close()


@simulated
async def test_the_probe_ends_what_concerns_the_whole_node_once_no_write_fails(clock):
    failures = watched(clock)
    for _ in range(5):
        failures.failed("logs/a/0", ENOSPC)
        await pass_ms(PROBE_MS)
        assert failures.problem() is not None, "a small file fits, and writes still fail"
    await pass_ms(QUIET_MS + PROBE_MS)
    assert failures.problem() is None
    await failures.close()


@simulated
async def test_a_probe_that_fails_ends_nothing(clock):
    files = MemoryFiles(capacity_bytes=10)
    failures = watched(clock, files)
    failures.failed("logs/a/0", ENOSPC)
    await pass_ms(10 * PROBE_MS)
    assert failures.problem() is not None
    files.faults.capacity_bytes = None
    await pass_ms(2 * PROBE_MS)
    assert failures.problem() is None
    assert not files.exists("write-probe")
    await failures.close()


@simulated
async def test_the_probe_does_not_end_what_belongs_to_one_log_before_that_was_quiet_for_long(clock):
    failures = watched(clock)
    failures.failed("logs/a/0", EIO)
    await pass_ms(LOG_QUIET_MS - 2 * PROBE_MS)
    assert failures.problem() is not None
    # The topic may be deleted by now: nobody will ever write there again.
    await pass_ms(4 * PROBE_MS)
    assert failures.problem() is None
    await failures.close()


@simulated
async def test_a_failure_that_comes_and_goes_is_told_once_a_minute_with_counts(clock, caplog):
    caplog.set_level(logging.INFO, logger="goqueue.storage")
    failures = watched(clock)
    for _ in range(100):
        failures.failed("logs/a/0", EIO)
        failures.succeeded("logs/a/0")
    assert lines(caplog) == [
        "writing fails: EIO (Input/output error) in logs/a/0, 1 failures since the last such line",
        "writing succeeds again in logs/a/0 after 1 failures with EIO, 0 since the last such line",
    ]
    clock.advance(ms=REPEAT_MS)
    failures.failed("logs/a/0", EIO)
    assert lines(caplog)[2:] == [
        "writing fails: EIO (Input/output error) in logs/a/0, 100 failures since the last such line"
    ]
    assert failures.counts["EIO"] == 101
    await failures.close()


@simulated
async def test_many_logs_that_fail_together_are_one_line(clock, caplog):
    caplog.set_level(logging.INFO, logger="goqueue.storage")
    failures = watched(clock)
    for number in range(500):
        failures.failed(f"logs/a/{number}", EIO)
    assert len(lines(caplog)) == 1
    for number in range(500):
        failures.succeeded(f"logs/a/{number}")
    assert lines(caplog)[1:] == [
        "writing succeeds again in logs/a/499 after 500 failures with EIO, 499 since the last such line"
    ]
    await failures.close()

"""Files that are closed before their sync: a burst over many logs is written, and no failed write goes unheard."""

from __future__ import annotations

from uuid import UUID

import pytest

from goqueue.codec.batch_encode import encode_batch
from goqueue.errors import LogPoisoned, TooManyOpenFiles
from goqueue.log.partition_log import PartitionLog
from goqueue.log.segment.handle_cache import SegmentCache
from goqueue.log.settings import LogSettings
from goqueue.records import NewRecord
from goqueue.testing.disk import Survival
from goqueue.testing.memory_files import MemoryFiles

KEPT = 4


@pytest.fixture
def files():
    return MemoryFiles()


@pytest.fixture
def cache():
    return SegmentCache(2, kept_files_max=KEPT, may_close_unsynced=True)


def opened(files, cache, number, **settings):
    return PartitionLog.open(
        files, f"t/{number}", settings=LogSettings(**settings), topic_id=UUID(int=1), now_ms=1, cache=cache
    )


def write(log, count=1):
    for _ in range(count):
        log.append_batch(encode_batch([NewRecord(None, b"v")], now_ms=1), now_ms=1, leader_epoch=0)


def sync(log):
    begun = log.begin_sync()
    try:
        begun.run()
    except OSError as error:
        log.end_sync(begun, error)
    else:
        log.end_sync(begun, None)


def test_a_burst_over_more_logs_than_files_may_be_open_is_written(files, cache):
    logs = [opened(files, cache, number) for number in range(20)]
    for log in logs:
        write(log, 2)
    assert cache.open_files <= KEPT + 1
    assert [log.end_offset for log in logs] == [2] * 20
    assert all(len(log.read_batches(0, max_bytes=10**6, upper=2).batches) == 2 for log in logs)


def test_it_is_refused_where_a_sync_of_the_whole_disk_cannot_report_failed_writes(files):
    cache = SegmentCache(2, kept_files_max=KEPT, may_close_unsynced=False)
    logs = [opened(files, cache, number) for number in range(20)]
    with pytest.raises(TooManyOpenFiles):  # noqa: PT012 - how many fit is not the question
        for log in logs:
            write(log)


def test_a_log_whose_file_was_closed_is_synced_with_the_whole_disk_and_survives_a_power_cut(files, cache):
    logs = [opened(files, cache, number) for number in range(20)]
    for log in logs:
        write(log, 3)
    assert logs[0].begin_sync().needs_whole_disk
    assert not logs[-1].begin_sync().needs_whole_disk
    for log in logs:
        sync(log)
    assert [log.synced_end for log in logs] == [3] * 20
    write(logs[0])
    assert not logs[0].begin_sync().needs_whole_disk, "the file is kept again"

    survived = files.crash(Survival.NOTHING)

    assert [opened(survived, cache, number).end_offset for number in range(20)] == [3] * 20


def test_a_failed_sync_of_the_whole_disk_poisons_every_log_with_a_file_closed_before_it(files, cache):
    logs = [opened(files, cache, number) for number in range(20)]
    for log in logs:
        write(log)
    closed, also_closed, kept = logs[0], logs[1], logs[-1]
    assert also_closed.begin_sync().needs_whole_disk
    files.faults.fail("sync_all")
    sync(closed)
    assert closed.poisoned

    sync(also_closed)
    sync(kept)

    assert also_closed.poisoned, "the failure is reported once, and may have been of this log"
    assert not kept.poisoned, "its own handle hears of its own failures"
    with pytest.raises(LogPoisoned):
        write(also_closed)
    write(kept)


def test_a_failure_between_the_write_and_the_closing_counts_too(files, cache):
    first, other = opened(files, cache, 0), opened(files, cache, 1)
    write(first)
    files.faults.fail("sync_all")
    with pytest.raises(OSError, match="Input/output"):
        files.sync_all()
    for number in range(2, 12):
        write(opened(files, cache, number))
    assert first.begin_sync().needs_whole_disk
    sync(first)
    assert first.poisoned

    write(other)
    for number in range(12, 22):
        write(opened(files, cache, number))
    sync(other)
    assert not other.poisoned, "it was written after that failure"


def test_what_is_closed_while_a_round_runs_is_left_to_the_next(files, cache):
    log = opened(files, cache, 0)
    write(log)
    begun = log.begin_sync()
    write(log)
    for number in range(1, 10):
        write(opened(files, cache, number))
    begun.run()
    log.end_sync(begun, None)
    assert log.synced_end == 1
    assert log.begin_sync().needs_whole_disk
    sync(log)
    assert log.synced_end == 2


def test_sealed_segments_are_closed_too_and_synced_with_the_whole_disk(files, cache):
    logs = [opened(files, cache, number, segment_bytes=200) for number in range(10)]
    for log in logs:
        write(log, 5)
    assert all(len(log.segments) > 2 for log in logs)
    # The one written last has its sealed segments and their indexes open.
    assert cache.open_files < 40
    assert logs[0].begin_sync().needs_whole_disk
    for log in logs:
        sync(log)
    survived = files.crash(Survival.NOTHING)
    assert [opened(survived, cache, number).end_offset for number in range(10)] == [5] * 10


def test_a_log_that_is_closed_or_deleted_leaves_nothing_in_the_cache(files, cache):
    logs = [opened(files, cache, number, segment_bytes=200) for number in range(6)]
    for log in logs:
        write(log, 3)
    for log in logs:
        log.abandon()
    assert cache.open_files == 0
    write(opened(files, cache, 7), 2)


def test_a_clean_stop_after_a_burst_loses_nothing(files, cache):
    logs = [opened(files, cache, number) for number in range(10)]
    for log in logs:
        write(log)
    for log in logs:
        log.close()
    survived = files.crash(Survival.NOTHING)
    again = [opened(survived, cache, number) for number in range(10)]
    assert [log.end_offset for log in again] == [1] * 10

"""Reads on other threads while the owner appends, rolls, deletes and cuts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from uuid import UUID

import pytest

from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import encode_batch
from goqueue.errors import OffsetOutOfRange
from goqueue.log.partition_log import PartitionLog
from goqueue.log.segment.handle_cache import SegmentCache
from goqueue.log.settings import LogSettings
from goqueue.node.disk.os_files import OsFiles
from goqueue.records import NewRecord


@pytest.fixture
def log(tmp_path):
    settings = LogSettings(segment_bytes=4000, index_interval_bytes=300, retention_bytes=20_000, retention_ms=-1)
    files = OsFiles(tmp_path)
    log = PartitionLog.open(files, "t/0", settings=settings, topic_id=UUID(int=1), now_ms=1, cache=SegmentCache(2))
    yield log
    log.close()
    files.close()


def append(log, branch=0):
    """Two records that tell their own offset, and who wrote them."""
    offset = log.end_offset
    values = [b"%d:%d" % (branch, offset + number) + b"." * 60 for number in range(2)]
    log.append_batch(encode_batch([NewRecord(None, v) for v in values], now_ms=1), now_ms=1, leader_epoch=branch)
    log.high_watermark = log.end_offset


def follow(log, stop, *, step):
    """Read on and on, in small or large steps; every record must be at its offset."""
    offset, seen = 0, 0
    while not stop.is_set():
        try:
            read = log.read_batches(offset, max_bytes=step, upper=log.high_watermark)
        except OffsetOutOfRange as gone:
            offset = gone.start
            continue
        expected = None
        for batch in read.batches:
            for record in decode_records(batch):
                assert int(record.value.split(b":")[1].split(b".")[0]) == record.offset
                assert expected is None or record.offset == expected
                expected = record.offset + 1
                seen += 1
        offset = read.next_offset if read.batches else log.start_offset
    return seen


def run(log, change, rounds):
    stop = Event()
    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(follow, log, stop, step=step) for step in (1, 700, 5000, 100_000)]
        try:
            for number in range(rounds):
                change(number)
        finally:
            stop.set()
        assert all(reader.result() > 0 for reader in readers)


def test_readers_see_whole_batches_while_the_log_grows_rolls_and_forgets(log):
    append(log)

    def change(number):
        append(log)
        if number % 50 == 0:
            log.apply_retention(now_ms=1)
        if number % 100 == 0:
            begun = log.begin_sync()
            begun.run()
            log.end_sync(begun, None)

    run(log, change, rounds=500)
    assert log.start_offset > 0


def test_readers_survive_cuts_in_the_middle_of_segments(log):
    for _ in range(100):
        append(log)

    def change(number):
        log.truncate_to(log.end_offset - 30)
        for _ in range(18):
            append(log, branch=number + 1)

    run(log, change, rounds=30)


def test_the_number_of_open_segments_stays_bounded(log):
    for _ in range(500):
        append(log)
    cache = log._state.cache
    run(log, lambda _: append(log), rounds=300)
    assert len(cache) <= 2

"""Real files and threads: cold readers, a writer and a cache that closes active segments all the time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from random import Random
from threading import Event
from uuid import UUID

import pytest

from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import encode_batch
from goqueue.log.partition_log import PartitionLog
from goqueue.log.segment.handle_cache import SegmentCache
from goqueue.log.settings import LogSettings
from goqueue.node.disk.os_files import OsFiles
from goqueue.records import NewRecord

LOGS = 6


def value_at(number, offset):
    """What the record at this offset of this log must hold: small ones, and some for which room is kept ahead."""
    rng = Random(f"{number}/{offset}")
    return rng.randbytes(70_000 if offset % 20 == 0 else rng.randrange(1, 400))


def write(log, number):
    value = value_at(number, log.end_offset)
    log.append_batch(encode_batch([NewRecord(None, value)], now_ms=1), now_ms=1, leader_epoch=0)
    log.high_watermark = log.end_offset


def sync(log):
    begun = log.begin_sync()
    if begun is not None:
        begun.run()
        log.end_sync(begun, None)


def read_all(logs, stop, seed):
    """Read anywhere in any log, and compare every byte; returns how many records."""
    rng, seen = Random(seed), 0
    while not stop.is_set():
        number = rng.randrange(LOGS)
        log = logs[number]
        upper = log.high_watermark
        offset = rng.randrange(max(0, upper - 30), upper) if rng.random() < 0.7 else rng.randrange(upper)
        read = log.read_batches(offset, max_bytes=rng.choice((1, 5_000, 200_000)), upper=upper)
        assert read.batches, f"nothing at {offset} below {upper}"
        expected = offset
        for batch in read.batches:
            for record in decode_records(batch):
                assert record.offset == expected
                assert record.value == value_at(number, record.offset)
                expected += 1
                seen += 1
    return seen


@pytest.mark.parametrize("seed", range(3))
def test_every_byte_is_right_while_active_segments_are_closed_and_opened_again(tmp_path, seed):
    rng, files = Random(seed), OsFiles(tmp_path)
    cache = SegmentCache(2, kept_files_max=4, may_close_unsynced=True)
    settings = LogSettings(segment_bytes=1_000_000, index_interval_bytes=300, retention_ms=-1)
    logs = [
        PartitionLog.open(files, f"t/{number}", settings=settings, topic_id=UUID(int=1), now_ms=1, cache=cache)
        for number in range(LOGS)
    ]
    for number, log in enumerate(logs):
        write(log, number)
    stop = Event()
    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read_all, logs, stop, f"{seed}/{reader}") for reader in range(4)]
        try:
            for _ in range(1500):
                number = rng.randrange(LOGS)
                if rng.random() < 0.3:
                    sync(logs[number])
                else:
                    write(logs[number], number)
        finally:
            stop.set()
        assert all(reader.result() > 0 for reader in readers)
    assert cache.closed_unsynced > 0, "the cache was never crowded"
    ends = [log.end_offset for log in logs]
    for log in logs:
        log.close()
    assert cache.open_files == 0
    for number, end in enumerate(ends):
        log = PartitionLog.open(files, f"t/{number}", settings=settings, topic_id=UUID(int=1), now_ms=1, cache=cache)
        assert log.end_offset == end
        assert log.recovery.cut_bytes == 0
        log.abandon()
    files.close()

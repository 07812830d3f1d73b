"""Records without a timestamp: they are kept, deleted and found by the time of their append.

Producers write "no timestamp" as -1 into their records; into the header of the batch librdkafka writes 0 then.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from goqueue.codec.batch import HEADER_BYTES, parse_batch_header
from goqueue.codec.batch_encode import build_batch
from goqueue.log.index.time_index import ENTRY
from goqueue.log.index.time_rebuild import rebuild_times
from goqueue.log.inspection.verify import verify_partition
from goqueue.log.segment.file_names import TIME_INDEX
from goqueue.log.state.checkpoint import read_checkpoint, write_checkpoint

HERE = "logs/orders/0"
BEGIN_MS = 1_000_000
HOUR_MS = 3_600_000


@pytest.fixture(params=[0, -1, -7], ids=["header says 0", "header says -1", "header says -7"])
def untimed(request, desk):
    """Appends a batch of records without a timestamp, as a producer with such a header sends it."""
    desk.reopen(retention_ms=HOUR_MS)

    def append(*values):
        batch = desk.batch(*values, stamps=[-1] * len(values))
        header = parse_batch_header(batch)._replace(max_timestamp_ms=request.param)
        batch = build_batch(header, memoryview(batch)[HEADER_BYTES:], packed=True)
        desk.log.append_batch(batch, now_ms=desk.now_ms, leader_epoch=0, priority=2)
        desk.log.high_watermark = desk.log.end_offset

    return append


def fill(desk, untimed, count=12):
    """Batches of two records, one a second: three segments and more."""
    for number in range(count):
        untimed(b"%d" % number + b"." * 100, b"." * 100)
        desk.now_ms += 1000
    assert len(desk.log.segments) > 2


def learn_times(desk):
    """What housekeeping does before retention."""
    while (segment := desk.log.segment_without_times(desk.now_ms)) is not None:
        rebuild_times(segment)


def lose_time_indexes(desk):
    for name in desk.names(TIME_INDEX):
        desk.files.remove(f"{HERE}/{name}")


def become_of_an_earlier_version(desk):
    """Close the log and leave in its indexes and checkpoint what was written when 0 was taken for a time."""
    desk.log.close()
    for name in desk.names(TIME_INDEX):
        desk.rewrite(f"{HERE}/{name}", ENTRY.pack(0, 0))
    checkpoint = read_checkpoint(desk.files, HERE)
    write_checkpoint(desk.files, HERE, replace(checkpoint, max_timestamp_ms=0, time_entries=1))
    desk.reopen()


@pytest.mark.parametrize("end", ["none", "restart", "kill"])
def test_retention_counts_from_the_append(desk, untimed, end):
    fill(desk, untimed)
    if end != "none":
        getattr(desk, end)()
    desk.now_ms = BEGIN_MS + HOUR_MS
    assert desk.log.apply_retention(desk.now_ms) == 0
    assert desk.offsets() == list(range(24))
    desk.now_ms += 12_000
    assert desk.log.apply_retention(desk.now_ms) > 2
    assert desk.offsets() == []


@pytest.mark.parametrize("end", ["restart", "kill"])
def test_retention_counts_from_the_append_after_the_time_indexes_are_lost(desk, untimed, end):
    fill(desk, untimed)
    desk.log.close() if end == "restart" else desk.log.abandon()
    lose_time_indexes(desk)
    desk.reopen()
    desk.now_ms = BEGIN_MS + HOUR_MS
    learn_times(desk)
    assert desk.log.apply_retention(desk.now_ms) == 0
    desk.now_ms += 12_000
    learn_times(desk)
    assert desk.log.apply_retention(desk.now_ms) > 2
    assert desk.offsets() == []


def test_what_an_earlier_version_indexed_is_kept_and_then_deleted_in_time(desk, untimed):
    fill(desk, untimed)
    become_of_an_earlier_version(desk)
    desk.now_ms = BEGIN_MS + HOUR_MS
    assert desk.log.apply_retention(desk.now_ms) == 0
    learn_times(desk)
    assert desk.log.apply_retention(desk.now_ms) == 0
    assert desk.offsets() == list(range(24))
    desk.now_ms += 12_000
    learn_times(desk)
    assert desk.log.apply_retention(desk.now_ms) > 2
    assert desk.offsets() == []


def test_a_time_index_that_is_made_again_is_the_one_that_the_appends_wrote(desk, untimed):
    fill(desk, untimed, count=40)
    desk.restart()
    sealed = desk.log.segments[:-1]
    written = [desk.files.read(f"{one.stem}{TIME_INDEX}") for one in sealed]
    lose_time_indexes(desk)
    desk.reopen()
    for one in desk.log.segments[:-1]:
        rebuild_times(one)
    assert [desk.files.read(f"{one.stem}{TIME_INDEX}") for one in sealed] == written
    assert verify_partition(desk.files, HERE).is_sound


def test_a_segment_whose_frames_tell_no_time_is_gone_over_once(desk, untimed):
    desk.now_ms = 0
    for _ in range(12):
        untimed(b"." * 200)
    desk.restart()
    desk.now_ms = HOUR_MS + 1
    learn_times(desk)
    assert all(one.is_rebuilt for one in desk.log.segments[:-1])
    assert desk.log.apply_retention(desk.now_ms) == 0


@pytest.mark.parametrize("end", ["none", "restart", "kill", "lost", "earlier version"])
def test_records_are_found_by_the_time_of_their_append(desk, untimed, end):
    fill(desk, untimed)
    if end == "lost":
        desk.log.close()
        lose_time_indexes(desk)
        desk.reopen()
    elif end == "earlier version":
        become_of_an_earlier_version(desk)
    elif end != "none":
        getattr(desk, end)()
    for number in range(12):
        at_ms = BEGIN_MS + 1000 * number
        assert desk.log.offset_for_timestamp(at_ms - 999, upper=24) == (2 * number, at_ms, 0)
        assert desk.log.offset_for_timestamp(at_ms, upper=24) == (2 * number, at_ms, 0)
    assert desk.log.offset_for_timestamp(BEGIN_MS + 11_001, upper=24) is None
    assert desk.log.offset_for_timestamp(0, upper=24) == (0, BEGIN_MS, 0)
    assert desk.log.offset_of_max_timestamp(24) == (22, BEGIN_MS + 11_000, 0)
    assert desk.log.offset_of_max_timestamp(20) == (18, BEGIN_MS + 9_000, 0)


@pytest.mark.parametrize("is_lost", [False, True])
def test_compaction_waits_from_the_append_on(desk, untimed, is_lost):
    desk.reopen(cleanup_delete=False, cleanup_compact=True, min_compaction_lag_ms=HOUR_MS)
    fill(desk, untimed)
    if is_lost:
        desk.log.close()
        lose_time_indexes(desk)
        desk.reopen()
    desk.sync()
    desk.now_ms = BEGIN_MS + HOUR_MS
    learn_times(desk)
    assert not desk.log.needs_compaction(desk.now_ms)
    desk.now_ms += 12_000
    learn_times(desk)
    assert desk.log.needs_compaction(desk.now_ms)


def test_verify_finds_nothing_wrong_with_the_index_of_an_earlier_version(desk, untimed):
    untimed(b"a")
    desk.log.close()
    header = parse_batch_header(desk.files.read(desk.path()), 34)
    desk.rewrite(desk.path(suffix=TIME_INDEX), ENTRY.pack(header.max_timestamp_ms, 0))
    assert verify_partition(desk.files, HERE).is_sound

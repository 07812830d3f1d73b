"""Rolling: when a segment is sealed, what lies beside it then, and what stays in memory."""

from __future__ import annotations

import pytest

from goqueue.errors import DiskFull
from goqueue.log.index.sparse_index import BLOCK_ENTRIES


def test_a_segment_is_sealed_before_it_grows_beyond_its_size(desk):
    desk.append_many(20)
    assert len(desk.log.segments) > 2
    assert all(segment.size_bytes <= 1000 for segment in desk.log.segments)
    assert desk.offsets() == list(range(20))


def test_a_batch_larger_than_a_segment_gets_one_of_its_own(desk):
    desk.append(b"a")
    desk.append(b"x" * 5000)
    desk.append(b"b")
    assert [segment.base_offset for segment in desk.log.segments] == [0, 1, 2]
    assert desk.offsets() == [0, 1, 2]


def test_a_segment_is_sealed_when_its_first_frame_is_old(desk):
    desk.reopen(segment_ms=1000)
    desk.append(b"a")
    desk.now_ms += 999
    desk.append(b"b")
    assert len(desk.log.segments) == 1
    desk.now_ms += 1
    desk.append(b"c")
    assert [segment.base_offset for segment in desk.log.segments] == [0, 2]


def test_a_segment_keeps_its_age_over_a_restart(desk):
    desk.reopen(segment_ms=1000)
    desk.append(b"a")
    desk.restart()
    desk.now_ms += 1000
    desk.append(b"b")
    assert [segment.base_offset for segment in desk.log.segments] == [0, 1]


def test_an_empty_segment_is_not_rolled(desk):
    desk.log.roll()
    desk.append(b"a")
    desk.log.roll()
    desk.log.roll()
    assert [segment.base_offset for segment in desk.log.segments] == [0, 1]


def test_a_sealed_segment_has_all_its_indexes_and_a_snapshot_where_the_next_begins(desk):
    desk.append_many(4)
    desk.log.roll()
    assert desk.files.list("logs/orders/0") == [
        "00000000000000000000.index",
        "00000000000000000000.laneindex",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000000.txnindex",
        "00000000000000000004.log",
        "00000000000000000004.snapshot",
        "partition.ckpt",
    ]


def test_the_index_has_an_entry_per_interval_and_none_of_a_sealed_one_is_in_memory(desk):
    desk.append_many(6, size=80)  # frames of about 190 bytes
    desk.log.roll()
    sealed = desk.log.segments[0]
    files = sealed.pin()
    positions = [position for _, position in sealed.index.entries(files.index(".index"))]
    files.unpin()
    assert all(later - earlier >= 200 for earlier, later in zip([0, *positions], positions, strict=False))
    assert 2 <= len(positions) <= sealed.size_bytes // 200
    assert not sealed.index.has_tail
    assert not sealed.times.has_tail
    assert sealed.lanes is None


def test_the_index_of_a_growing_segment_spills_so_that_memory_stays_flat(desk):
    desk.reopen(segment_bytes=10**9, index_interval_bytes=1)
    desk.append_many(BLOCK_ENTRIES * 2 + 10, size=1)
    index = desk.log.segments[0].index
    assert index.spilled == BLOCK_ENTRIES * 2
    assert len(index) == BLOCK_ENTRIES * 2 + 9  # the first frame needs no entry
    assert desk.offsets(BLOCK_ENTRIES + 7)[0] == BLOCK_ENTRIES + 7
    assert desk.offsets(BLOCK_ENTRIES * 2 + 5)[0] == BLOCK_ENTRIES * 2 + 5


def test_an_index_that_finds_no_room_waits_in_memory_and_fails_no_append(desk):
    desk.reopen(segment_bytes=10**9, index_interval_bytes=1)
    desk.files.faults.fail("create", "*.index", code=28, times=1000)
    desk.append_many(BLOCK_ENTRIES + 10, size=1)
    assert desk.log.segments[0].index.spilled == 0
    assert desk.offsets(300)[0] == 300


def test_a_roll_without_room_refuses_the_append_and_leaves_the_log_as_it_was(desk):
    desk.append(b"a" * 700)
    desk.files.faults.fail("create", "*.log", code=28)
    with pytest.raises(DiskFull):
        desk.append(b"b" * 700)
    assert [segment.base_offset for segment in desk.log.segments] == [0]
    desk.append(b"b" * 700)
    assert [segment.base_offset for segment in desk.log.segments] == [0, 1]
    assert desk.offsets() == [0, 1]

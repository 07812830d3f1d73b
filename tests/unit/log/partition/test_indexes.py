"""Sparse indexes: on disk but for a tail, searched like a list, cut where the log is cut."""

from __future__ import annotations

from bisect import bisect_right
from struct import Struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.log.index.offset_index import OffsetIndex
from goqueue.log.index.sparse_index import BLOCK_ENTRIES, SparseIndex
from goqueue.log.index.time_index import TimeIndex
from goqueue.testing.memory_files import MemoryFiles

ENTRY = Struct(">II")


def index_file():
    return MemoryFiles().open("index", create=True)


@settings(max_examples=60, deadline=None)
@given(
    gaps=st.lists(st.integers(1, 9), max_size=40),
    repeat=st.sampled_from([1, 60]),
    spills=st.sets(st.integers(0, 2400), max_size=4),
    probes=st.lists(st.integers(0, 20_000), max_size=20),
)
def test_a_floor_is_found_whether_it_lies_in_the_file_or_in_memory(gaps, repeat, spills, probes):
    file = index_file()
    index = SparseIndex(ENTRY)
    keys = []
    for gap in gaps * repeat:
        keys.append((keys[-1] if keys else 0) + gap)
        index.add(keys[-1], keys[-1] * 2)
        if len(keys) in spills:
            index.spill(file)
    for probe in [*probes, *keys[:5], *keys[-5:]]:
        at = bisect_right(keys, probe)
        assert index.floor(probe, file) == ((keys[at - 1], keys[at - 1] * 2) if at else None)
        assert index.floor_by_value(probe * 2 + 1, file) == index.floor(probe, file)
    assert index.entries(file) == [(key, key * 2) for key in keys]
    assert len(index) == len(keys)
    assert index.last(file) == ((keys[-1], keys[-1] * 2) if keys else None)


def test_a_long_index_is_searched_with_a_few_reads_and_nothing_kept():
    files = MemoryFiles()
    file = files.open("index", create=True)
    index = SparseIndex(ENTRY)
    for key in range(16_384):
        index.add(key, key)
    index.spill(file)
    reads = files.faults.counts["pread"]
    assert index.floor(12_345, file) == (12_345, 12_345)
    assert files.faults.counts["pread"] - reads <= 6
    assert not index.has_tail


def test_a_spill_that_fails_moves_nothing():
    files = MemoryFiles()
    file = files.open("index", create=True)
    index = SparseIndex(ENTRY)
    index.add(1, 2)
    files.faults.fail("append")
    with pytest.raises(OSError, match="error"):
        index.spill(file)
    assert index.entries(file) == [(1, 2)]
    index.spill(file)
    assert index.entries(file) == [(1, 2)]


def test_a_block_of_waiting_entries_asks_to_be_spilled():
    index = SparseIndex(ENTRY)
    assert [number for number in range(1, BLOCK_ENTRIES + 2) if index.add(number, number)] == [BLOCK_ENTRIES]


@pytest.mark.parametrize("spilled", [0, 2, 5])
def test_a_cut_index_keeps_what_lies_before_and_takes_entries_again(spilled):
    file = index_file()
    index = OffsetIndex(1000, 100)
    for number in range(1, 6):
        index.note(1000 + number, number * 100)
        if number == spilled:
            index.spill(file)
    assert index.cut(300, file)
    assert index.entries(file) == [(1, 100), (2, 200)]
    assert index.next_position == 300
    index.note(1007, 300)
    index.spill(file)
    assert index.entries(file) == [(1, 100), (2, 200), (7, 300)]


def test_an_index_that_does_not_rise_says_so_and_keeps_its_sound_beginning():
    file = index_file()
    file.append([ENTRY.pack(1, 100) + ENTRY.pack(2, 200) + bytes(16)])
    index = OffsetIndex(0, 100, spilled=4)
    assert not index.cut(10_000, file)
    assert index.entries(file) == [(1, 100), (2, 200)]


def test_a_torn_entry_does_not_shift_those_written_behind_it():
    file = index_file()
    file.append([ENTRY.pack(1, 100) + b"\0\0\0"])
    index = OffsetIndex(0, 100, spilled=1)
    index.cut(10_000, file)
    index.note(2, 200)
    index.spill(file)
    assert index.entries(file) == [(1, 100), (2, 200)]


def test_the_time_index_rises_whatever_the_timestamps_do():
    index = TimeIndex(100)
    for offset, stamp in enumerate([5, 3, 9, 9, 1, 12], start=100):
        index.see(stamp, offset)
        index.note()
    assert index.entries(None) == [(5, 0), (9, 2), (12, 5)]
    found = [index.entry_before(stamp, None) for stamp in (0, 5, 6, 9, 10, 99)]
    assert found == [None, None, (5, 100), (5, 100), (9, 102), (12, 105)]
    assert index.max_timestamp_ms == 12


def test_a_time_index_read_back_goes_on_where_it_was():
    file = index_file()
    index = TimeIndex(0)
    index.see(50, 3)
    index.note()
    index.spill(file)
    again = TimeIndex(0, spilled=1)
    again.load_maximum(file)
    again.see(40, 4)
    again.note()
    assert again.entries(file) == [(50, 3)]

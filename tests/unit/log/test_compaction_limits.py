"""Compaction: how far a pass may go, and what stops it without harm."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.codec.batch import parse_batch_header, verify_batch
from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.compression import Codec
from goqueue.codec.crc32c import crc32c
from goqueue.codec.frame import Flags
from goqueue.errors import CorruptFrame
from goqueue.log.compaction import record_filter as compaction_filter
from goqueue.log.compaction.compaction_pass import compactable, dirty_ratio, load_state
from goqueue.log.compaction.key_map import OffsetMarks
from goqueue.records import NewRecord

HERE = "topic/0"
DAY_MS = 24 * 3600 * 1000


def test_a_small_map_takes_several_passes_and_ends_with_the_same_log(make_bench):
    def filled():
        bench = make_bench()
        for i in range(60):
            bench.write((f"k{i * 7 % 11}", f"{i}"), (f"j{i % 5}", f"{i}"))
            if i % 9 == 0:
                bench.roll()
        bench.roll()
        return bench

    at_once, in_steps = filled(), filled()
    at_once.compact()
    reports = in_steps.compact_fully(keys_max=3)
    assert len(reports) > 3
    assert [report.cleaned_to for report in reports] == sorted({report.cleaned_to for report in reports})
    assert in_steps.records() == at_once.records()


def test_a_second_pass_maps_only_what_is_new(bench):
    bench.write(*((f"k{i}", "1") for i in range(50)))
    bench.compact()
    bench.write(("k1", "2"), ("k2", "2"))
    bench.roll()
    assert dirty_ratio(bench.segments, load_state(bench.files, HERE).cleaned_to) < 0.5
    report = bench.compact(keys_max=2)
    assert report.is_complete
    assert report.records_dropped == 2


def test_only_sealed_segments_below_the_bound_and_old_enough_are_compactable(bench):
    for i in range(4):
        bench.write(NewRecord(b"a", b"v", timestamp_ms=100 * i + 1))
        bench.roll()
    segments = bench.segments

    def bases(**options):
        found = compactable(segments, **({"upper": 4, "now_ms": 1001, "min_lag_ms": 0} | options))
        return [segment.base_offset for segment in found]

    assert bases() == [0, 1, 2, 3]
    assert bases(upper=3) == [0, 1, 2]
    assert bases(upper=0) == []
    assert bases(min_lag_ms=800) == [0, 1, 2]
    assert bases(min_lag_ms=801) == [0, 1]


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("producer", [-1, 7])
def test_a_batch_that_compaction_empties_says_no_codec_and_keeps_its_sequence(bench, codec, producer):
    flags = Flags.COMPRESSED if codec else 0
    bench.write(("a", "1"), ("b", "1"), producer=producer, codec=codec, flags=flags)
    bench.roll()
    bench.write(("a", "2"), ("b", "2"))
    bench.compact()
    bench.compact()
    emptied = [(frame, verify_batch(batch)) for frame, batch in bench.batches() if not parse_batch_header(batch).count]
    if producer >= 0:
        # It is the last of its producer, and stays to tell its sequence.
        ((frame, header),) = emptied
        assert (header.producer_id, header.base_sequence, header.last_sequence) == (producer, 0, 1)
        assert (header.codec, header.size, frame.flags & Flags.COMPRESSED) == (0, 61, 0)
    assert bench.newest() == {"a": (2, "2"), "b": (3, "2")}


def test_damage_in_what_is_new_stops_the_pass_before_its_segment_and_is_reported_l08(bench):
    """Nothing of that segment counts, not even what is sound: it may be cut when it is repaired."""
    bench.write(("a", "1"), ("a", "2"))
    bench.write(("b", "1"))
    bench.roll()
    bench.write(("b", "2"))
    bench.write(("a", "3"))
    bench.roll()
    path, position = f"{HERE}/{3:020d}.log", bench.batches()[2][0].size + 50
    bench.files.flip_bit(path, position)
    report = bench.compact()
    assert report.damage is not None
    assert report.cleaned_to == 3
    assert not report.is_complete
    bench.files.flip_bit(path, position)
    assert bench.records() == [(1, "a", "2"), (2, "b", "1"), (3, "b", "2"), (4, "a", "3")]
    assert bench.compact().is_complete
    assert bench.records() == [(3, "b", "2"), (4, "a", "3")]


def test_damage_in_what_was_compacted_before_refuses_the_pass_and_leaves_the_log(bench):
    bench.write(("a", "1"), ("a", "2"))
    bench.compact()
    bench.write(("a", "3"))
    bench.roll()
    bench.files.flip_bit(f"{HERE}/{0:020d}.log", 50)
    names = bench.files.list(HERE)
    with pytest.raises(CorruptFrame):
        bench.compact()
    assert bench.files.list(HERE) == names


def test_a_full_disk_refuses_the_pass_and_leaves_the_log(bench):
    bench.write(("a", "1"), ("a", "2"))
    bench.roll()
    before = bench.files.tree()
    bench.files.faults.fail("append", "*cleaned*", code=errno.ENOSPC)
    with pytest.raises(OSError, match="space"):
        bench.compact()
    assert bench.files.tree() == before
    assert bench.compact().records_dropped == 1


def test_an_abandoned_pass_leaves_nothing_behind(bench):
    bench.write(("a", "1"), ("a", "2"))
    bench.roll()
    before = bench.files.tree()
    pass_ = bench.compaction()
    pass_.run()
    pass_.abandon()
    pass_.swap(bench.replace)
    assert bench.files.tree() == before


def test_readers_of_the_old_segments_go_on_undisturbed_while_they_are_replaced(bench):
    for i in range(20):
        bench.write(("same", f"{i}" * 100))
    bench.roll()
    (old,) = bench.segments
    reading = old.frames()
    seen = [next(reading)[1].offset]
    bench.compact()
    seen += [header.offset for _, header, _ in reading]
    assert seen == list(range(20))
    assert bench.records() == [(19, "same", "19" * 100)]


def test_a_reader_that_comes_between_the_names_and_the_list_still_finds_the_old_segment(bench):
    for i in range(20):
        bench.write(("same", f"{i}" * 100))
    bench.roll()
    (old,) = bench.segments
    pass_ = bench.compaction()
    pass_.run()
    bench.cache.discard(old)  # its files are not open by chance
    seen = []

    def replace(one):
        handles = old.pin()
        seen.append([header.offset for _, header, _ in old.frames(old.position_before(15, handles))])
        handles.unpin()
        bench.replace(one)

    pass_.swap(replace)
    assert seen == [[15, 16, 17, 18, 19]]


def test_a_batch_that_cannot_be_opened_is_what_its_producer_sent_and_stays(bench):
    """Its checksum holds, but there are no records where the header says that there are."""
    bench.write(("a", "1"))
    garbled = bytearray(encode_batch([NewRecord(b"a", b"2")], now_ms=5))
    garbled[61:] = b"\xff" * (len(garbled) - 61)
    garbled[17:21] = crc32c(garbled[21:]).to_bytes(4, "big")
    bench.frame(bytes(garbled))
    bench.frame(bytes(garbled), flags=Flags.MIXED_LANES)
    bench.write(("a", "3"))
    bench.roll()
    before = bench.batches()
    report = bench.compact()
    assert report.is_complete
    assert report.records_dropped == 1
    assert bench.batches() == before[1:]


def test_neighbours_are_merged_even_when_nothing_of_them_goes(bench):
    for key in "abc":
        bench.write((key, "1"))
        bench.roll()
    before = bench.batches()
    bench.compact()
    assert len(bench.segments) == 1
    assert bench.batches() == before


def test_batches_whose_fate_is_known_from_the_map_are_not_opened_again(bench, monkeypatch):
    for i in range(10):
        bench.write(("same", f"{i}"), ("too", f"{i}"))
    bench.roll()
    opened = []
    monkeypatch.setattr(compaction_filter, "decode_records", opened.append)
    assert bench.compact().records_dropped == 18
    assert opened == []


@given(marked=st.sets(st.integers(100, 300)), first=st.integers(100, 300), length=st.integers(1, 100))
def test_marks_count_what_was_marked(marked, first, length):
    marks = OffsetMarks(100)
    for offset in marked:
        marks.add(offset)
    last = first + length - 1
    assert marks.count(first, last) == len([offset for offset in marked if first <= offset <= last])

"""Compaction: the newest record of every key stays, where it was."""

from __future__ import annotations

import pytest
from tests.unit.codec.builders import raw_batch

from goqueue.codec.batch import parse_batch_header
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.frame import HEADER_BYTES, Flags
from goqueue.codec.frame_headers import encode_headers
from goqueue.log.compaction.compaction_pass import load_state
from goqueue.log.index.aborted_index import AbortedIndex
from goqueue.log.index.lane_index import LaneIndex, read_runs
from goqueue.log.segment.file_names import LOG, offsets_of
from goqueue.log.state.producer_state import ProducerState
from goqueue.records import NewRecord

HERE = "topic/0"
DAY_MS = 24 * 3600 * 1000


def test_only_the_newest_record_of_a_key_stays_with_its_offset_and_order(bench):
    bench.write(("a", "1"), ("b", "1"), ("a", "2"))
    bench.roll()
    bench.write(("c", "1"), ("a", "3"))

    report = bench.compact()

    assert bench.records() == [(1, "b", "1"), (3, "c", "1"), (4, "a", "3")]
    assert report.records_dropped == 2
    assert report.is_complete
    assert report.cleaned_to == 5
    assert (report.segments_before, report.segments_after) == (2, 1)


def test_records_without_a_key_all_stay(bench):
    bench.write((None, "1"), (None, "2"), ("a", "1"))
    bench.write((None, "3"), ("a", "2"))
    bench.compact()
    assert bench.records() == [(0, None, "1"), (1, None, "2"), (3, None, "3"), (4, "a", "2")]


def test_an_empty_key_is_a_key(bench):
    bench.write(("", "1"), ("", "2"))
    bench.compact()
    assert bench.records() == [(1, "", "2")]


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_everything_about_a_record_that_stays_is_kept(bench, codec):
    bench.write(
        NewRecord(b"a", b"old", (("h", b"1"), ("n", None)), timestamp_ms=70),
        NewRecord(b"b", b"kept", (("h", b"2"), ("n", None)), timestamp_ms=90),
        NewRecord(b"a", b"new", (), timestamp_ms=80),
        producer=5,
        codec=codec,
    )
    bench.roll()
    (before,) = bench.batches()
    bench.compact()
    (after,) = bench.batches()

    assert decode_records(after[1]) == decode_records(before[1])[1:]
    old, kept = parse_batch_header(before[1]), parse_batch_header(after[1])
    for name in ("base_offset", "last_offset", "producer_id", "producer_epoch", "base_sequence", "attributes"):
        assert getattr(kept, name) == getattr(old, name), name
    assert kept.leader_epoch == old.leader_epoch
    assert kept.max_timestamp_ms == 90
    assert after[0].timestamp_ns == before[0].timestamp_ns
    assert after[0].flags == before[0].flags


def test_frames_that_keep_all_their_records_are_copied_byte_for_byte(bench):
    bench.write(("a", "1"), headers=encode_headers([("trace", b"x")]))
    bench.write(("b", "1"))
    bench.write(("c", "1"), ("b", "2"))
    bench.roll()
    before = bench.files.read(f"{HERE}/{0:020d}.log")
    sizes = [header.size for header, _ in bench.batches()]
    bench.compact()
    after = bench.files.read(f"{HERE}/{0:020d}.log")
    assert after == before[: sizes[0]] + before[sizes[0] + sizes[1] :]


def test_a_log_with_nothing_to_remove_is_left_as_it_lies(bench):
    bench.write(("a", "1"), ("b", "1"))
    bench.roll()
    segment = bench.segments[0]
    report = bench.compact()
    assert bench.segments == [segment]
    assert report.records_dropped == 0
    assert load_state(bench.files, HERE).cleaned_to == 2
    assert not bench.files.exists(f"{HERE}/cleaned")


def test_small_neighbours_become_one_segment_and_large_ones_stay_apart(bench):
    for i in range(6):
        bench.write((f"k{i}", "x" * 100), ("same", "y"))
        bench.roll()
    size = bench.segments[0].size_bytes
    bench.compact(segment_bytes=2 * size)
    assert [segment.base_offset for segment in bench.segments] == [0, 4, 8]
    assert [segment.end_offset for segment in bench.segments] == [4, 8, 12]
    assert len(bench.records()) == 7
    assert offsets_of(bench.files.list(HERE), LOG) == [0, 4, 8]


def test_a_segment_of_which_nothing_is_left_still_says_where_it_ends(bench):
    bench.write(("a", "x" * 300))
    bench.roll()
    bench.write(("a", "y" * 300))
    bench.compact(segment_bytes=400)
    again = bench.reopened(bench.files)
    ends = [[h.offset + parse_batch_header(b).last_offset_delta + 1 for h, b in again.batches()]]
    assert ends == [[1, 2]]
    assert again.records() == [(1, "a", "y" * 300)]


def test_the_last_batch_of_a_producer_stays_even_when_it_is_empty_so_that_its_sequence_survives(bench):
    bench.write(("a", "1"), ("a", "2"), producer=7)
    bench.write(("a", "3"))
    bench.write(("b", "1"))
    bench.compact()

    assert bench.records() == [(2, "a", "3"), (3, "b", "1")]
    state = ProducerState()
    for header, batch in bench.batches():
        state.apply(parse_batch_header(batch), header.offset, commit=None, now_ms=0)
    (info,) = state.producers()
    assert (info.producer_id, info.last_sequence) == (7, 1)


def test_a_deletion_stays_for_its_time_after_the_first_compaction_and_then_goes(bench):
    bench.write(("a", "1"))
    bench.write(("a", None), ("b", "1"))
    bench.compact()
    assert bench.records() == [(1, "a", None), (2, "b", "1")]

    bench.now_ms += DAY_MS - 1
    bench.write(("c", "1"))
    bench.compact()
    assert (1, "a", None) in bench.records()

    bench.now_ms += 1
    bench.write(("c", "2"))
    bench.compact()
    assert bench.records() == [(2, "b", "1"), (4, "c", "2")]


def test_the_time_of_a_deletion_begins_with_its_compaction_not_with_its_age(bench):
    bench.write(("a", None), ("b", "1"))
    bench.now_ms += 100 * DAY_MS
    bench.compact()
    assert (0, "a", None) in bench.records()


def test_a_deletion_that_no_pass_has_reached_yet_outlives_what_it_deletes(bench):
    """Its time must not run out before the pass that removes the older value."""
    bench.write(("a", "1"))
    for key in "bcdefg":
        bench.write((key, "1"))
    bench.write(("a", None))
    for _ in range(4):
        report = bench.compact(keys_max=1)
        assert not report.is_complete
        assert [r for r in bench.records() if r[1] == "a"] == [(0, "a", "1"), (7, "a", None)]
        bench.now_ms += 2 * DAY_MS
    bench.compact_fully(keys_max=1)
    assert [r for r in bench.records() if r[1] == "a"] == [(7, "a", None)]


def test_a_value_after_its_deletion_is_a_value(bench):
    bench.write(("a", "1"), ("a", None), ("a", "2"))
    bench.compact()
    assert bench.records() == [(2, "a", "2")]


def test_records_of_aborted_transactions_go_and_do_not_supersede_anything(bench):
    bench.write(("a", "committed"))
    bench.write(("a", "aborted"), producer=1, transactional=True)
    bench.mark(1, commit=False)
    bench.write(("a", "fine"), ("b", "fine"), producer=1, transactional=True)
    bench.mark(1, commit=True)
    bench.write(("z", "1"))
    report = bench.compact()
    assert bench.records() == [(3, "a", "fine"), (4, "b", "fine"), (6, "z", "1")]
    assert report.records_dropped == 2


def test_an_aborted_value_never_hides_the_committed_one_before_it(bench):
    bench.write(("a", "committed"))
    bench.write(("a", "aborted"), producer=1, transactional=True)
    bench.mark(1, commit=False)
    bench.compact()
    assert bench.records() == [(0, "a", "committed")]


def controls(bench):
    return [header.offset for header, _ in bench.batches() if header.flags & Flags.CONTROL]


def test_a_marker_stays_while_records_of_its_transaction_do_and_a_day_longer(bench):
    bench.write(("a", "1"), producer=1, transactional=True)
    bench.mark(1, commit=True)
    bench.write(("z", "1"), producer=1, transactional=True)  # so that the batch above is not the last
    bench.mark(1, commit=True)
    bench.write(("b", "1"))
    bench.compact()
    assert controls(bench) == [1, 3]

    bench.write(("a", "2"))
    bench.compact()  # met the transaction's batch and removed it: the marker must wait for the next pass
    assert controls(bench) == [1, 3]

    bench.write(("b", "2"))
    bench.compact()  # met none: the day begins
    assert controls(bench) == [1, 3]

    bench.now_ms += DAY_MS
    bench.write(("b", "3"))
    bench.compact()
    assert controls(bench) == [3]


def test_the_index_of_aborted_transactions_goes_with_its_markers(bench):
    bench.write(("a", "1"), producer=1, transactional=True)
    bench.mark(1, commit=False)
    bench.write(("a", "2"), producer=1, transactional=True)
    bench.mark(1, commit=True)
    bench.write(("b", "1"))
    bench.compact()

    def stored():
        return AbortedIndex.decode(bench.files.read(f"{HERE}/{0:020d}.txnindex")).entries()

    assert stored() == bench.aborted
    bench.write(("b", "2"))
    bench.compact()
    bench.now_ms += DAY_MS
    bench.write(("b", "3"))
    bench.compact()
    assert controls(bench) == [3]
    assert stored() == []


def test_the_last_marker_of_a_producer_without_data_keeps_its_epoch_alive(bench):
    bench.mark(1, commit=False)
    bench.write(("b", "1"))
    bench.compact()
    bench.now_ms += 2 * DAY_MS
    bench.write(("b", "2"))
    bench.compact()
    assert controls(bench) == [0]


def test_lanes_are_indexed_again_and_a_frame_of_one_lane_left_is_no_longer_mixed(bench):
    bench.write(("a", "1", b"critical"), ("b", "1", b"low"), ("c", "1", b"low"), flags=Flags.MIXED_LANES, priority=0)
    bench.write(("d", "1", b"high"), ("a", "2", b"low"), flags=Flags.MIXED_LANES, priority=1)
    bench.compact()

    headers = [header for header, _ in bench.batches()]
    assert [(h.flags & Flags.MIXED_LANES, h.priority) for h in headers] == [(0, 3), (Flags.MIXED_LANES, 1)]
    file = bench.files.open(f"{HERE}/{0:020d}.laneindex")
    runs = list(read_runs(file, None, 0, where="t"))
    rebuilt = LaneIndex.rebuild(0, [(h, f) for s in bench.segments for _, h, f in s.frames()])
    assert runs == list(rebuilt.runs(None, 0))
    assert [run for run in runs if run.lane == 1] == [(1, 3, 1)]


def test_offset_and_time_indexes_of_a_new_segment_lead_to_its_frames(bench):
    for i in range(50):
        bench.write((f"k{i % 10}", "x" * 40), (f"u{i}", "x" * 40))
    bench.compact()
    (segment,) = bench.segments
    handles = segment.pin()
    positions = {header.offset: position for position, header, _ in segment.frames()}
    for offset, position in positions.items():
        start = segment.position_before(offset, handles)
        assert start <= position
        assert start in positions.values()
    handles.unpin()
    assert len(segment.index) > 3
    assert segment.max_timestamp_ms == 5


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_a_batch_that_nobody_can_read_stays_as_it_is_and_the_rest_is_compacted(bench, codec):
    poison = raw_batch(b"\x01" * 60, count=3, attributes=codec)
    bench.write(("a", "1"), ("b", "1"))
    bench.frame(poison)
    bench.write(("a", "2"))

    report = bench.compact_fully()[-1]

    stored = [bytes(frame[HEADER_BYTES:]) for segment in bench.segments for _, _, frame in segment.frames()]
    assert [one[16:] for one in stored if parse_batch_header(one).base_offset == 2] == [poison[16:]]
    assert [decode_records(one)[0].value for one in stored if parse_batch_header(one).base_offset != 2] == [b"1", b"2"]
    assert report.is_complete

"""Lanes: which offsets are of which priority, without keeping a record of every message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.codec.batch import parse_batch_header
from goqueue.codec.batch_encode import encode_batch, encode_sparse_batch
from goqueue.codec.frame import Flags, encode_frame_header
from goqueue.codec.frame_walk import walk_frames
from goqueue.codec.markers import encode_marker
from goqueue.errors import DamagedIndex
from goqueue.log.index.batch_lanes import PRIORITY_HEADER, LaneRun, parse_lane, record_lane, record_runs
from goqueue.log.index.lane_index import LaneIndex, read_runs
from goqueue.records import NewRecord, Record
from goqueue.testing.memory_files import MemoryFiles

BASE = 1000


def index_of(runs, base=BASE):
    index = LaneIndex(base)
    for run in runs:
        index.append_run(*run)
    return index


def stored(index):
    file = MemoryFiles().open("0.laneindex", create=True)
    file.append([index.encode()])
    return file


def test_runs_of_one_lane_that_follow_each_other_are_one_run():
    index = index_of([(2, 1000, 10), (2, 1010, 5), (0, 1015, 1), (2, 1016, 4)])
    assert list(index.runs(None, 0)) == [(2, 1000, 15), (0, 1015, 1), (2, 1016, 4)]


def test_a_gap_or_another_lane_begins_a_new_run():
    index = index_of([(2, 1000, 10), (2, 1011, 5)])
    assert list(index.runs(2, 0)) == [(2, 1000, 10), (2, 1011, 5)]


def test_a_run_too_long_for_its_field_is_continued_in_another():
    index = index_of([(4, 0, 2**29 - 1), (4, 2**29 - 1, 7)], base=0)
    assert list(index.runs(4, 0)) == [(4, 0, 2**29 - 1), (4, 2**29 - 1, 7)]


def test_a_search_begins_with_the_run_that_reaches_the_offset():
    index = index_of([(2, 1000, 10), (0, 1010, 5), (2, 1015, 5), (0, 1020, 5)])
    for found in (index.runs(0, 1014), read_runs(stored(index), 0, 1014, where="t")):
        assert list(found) == [(0, 1010, 5), (0, 1020, 5)]
    for found in (index.runs(0, 1015), read_runs(stored(index), 0, 1015, where="t")):
        assert list(found) == [(0, 1020, 5)]
    for found in (index.runs(2, 1020), read_runs(stored(index), 2, 1020, where="t")):
        assert list(found) == []


def test_an_empty_index_has_no_runs():
    index = LaneIndex(BASE)
    assert list(index.runs(None, 0)) == []
    assert list(read_runs(stored(index), None, 0, where="t")) == []
    assert len(LaneIndex.decode(index.encode())) == 0


def test_a_log_of_one_lane_costs_one_run_however_long():
    index = index_of((2, BASE + i * 100, 100) for i in range(10_000))
    assert len(index) == 1
    assert len(index.encode()) < 64


def test_alternating_lanes_cost_eight_bytes_a_run():
    index = index_of((i % 2, BASE + i, 1) for i in range(10_000))
    assert len(index.encode()) < 10_000 * 8.1


def test_cutting_the_log_cuts_the_runs():
    index = index_of([(2, 1000, 10), (0, 1010, 5), (2, 1015, 5)])
    index.truncate(1012)
    assert list(index.runs(None, 0)) == [(2, 1000, 10), (0, 1010, 2)]
    index.append_run(0, 1012, 1)
    assert list(index.runs(None, 0)) == [(2, 1000, 10), (0, 1010, 3)]
    index.truncate(1000)
    assert len(index) == 0


def test_a_reader_that_began_before_an_append_is_not_disturbed():
    index = index_of([(2, 1000, 10), (0, 1010, 5)])
    reading = index.runs(None, 0)
    assert next(reading) == (2, 1000, 10)
    index.append_run(0, 1015, 1)
    index.append_run(3, 1016, 1)
    assert list(reading) == [(0, 1010, 5)]


def test_every_bit_flip_and_every_cut_is_noticed():
    data = index_of((i % 3, BASE + i, 1) for i in range(70)).encode()
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedIndex):
            LaneIndex.decode(damaged)
    for size in range(len(data)):
        with pytest.raises(DamagedIndex):
            LaneIndex.decode(data[:size])


def test_a_search_on_disk_notices_damage_in_what_it_reads():
    files = MemoryFiles()
    file = files.open("0.laneindex", create=True)
    file.append([index_of((i % 3, BASE + i, 1) for i in range(70)).encode()])
    files.flip_bit("0.laneindex", 22 + 508 + 5)
    with pytest.raises(DamagedIndex, match=r"0\.laneindex"):
        list(read_runs(file, None, 0, where="0.laneindex"))


@pytest.mark.parametrize(
    ("value", "lane"),
    [
        (b"0", 0),
        (b"4", 4),
        (b"critical", 0),
        (b"high", 1),
        (b"Normal", 2),
        (b"low", 3),
        (b"BACKGROUND", 4),
        (b"5", None),
        (b"-1", None),
        (b"", None),
        (b"urgent", None),
        (None, None),
    ],
)
def test_a_priority_is_a_number_or_a_name_and_nothing_else_l31(value, lane):
    assert parse_lane(value) == lane
    assert record_lane([(PRIORITY_HEADER, value)]) == (2 if lane is None else lane)


def test_the_last_priority_header_counts_and_without_one_a_record_is_normal():
    assert record_lane([(PRIORITY_HEADER, b"4"), ("other", b"0"), (PRIORITY_HEADER, b"high"), ("x", b"")]) == 1
    assert record_lane([("other", b"0")]) == 2
    assert record_lane([]) == 2


def record(offset, lane):
    return Record(offset, 1, None, b"v", ((PRIORITY_HEADER, str(lane).encode()),))


def test_the_runs_of_an_opened_batch_leave_its_gaps_out():
    records = [record(5, 0), record(6, 0), record(9, 0), record(10, 3)]
    assert record_runs(records) == [(0, 5, 2), (0, 9, 1), (3, 10, 1)]


def frame(batch, offset, *, flags=0, priority=2):
    body = offset.to_bytes(8, "big") + batch[8:]
    return encode_frame_header([body], flags=flags, offset=offset, timestamp_ns=0, priority=priority) + body


def test_it_is_built_again_from_frames_and_opens_only_mixed_ones():
    plain = encode_batch([NewRecord(None, b"v")] * 4, now_ms=1)
    mixed = encode_batch(
        [NewRecord(None, b"v", ((PRIORITY_HEADER, lane),)) for lane in (b"critical", b"0", b"low")]
        + [NewRecord(None, b"v")],
        now_ms=1,
    )
    marker = encode_marker(True, producer_id=1, producer_epoch=0, coordinator_epoch=0, now_ms=1)
    emptied = encode_sparse_batch(parse_batch_header(plain), [])
    data = b"".join(
        [
            frame(plain, 1000),
            frame(plain, 1004),
            frame(mixed, 1008, flags=Flags.MIXED_LANES, priority=0),
            frame(marker, 1012, flags=Flags.CONTROL | Flags.COMMIT),
            frame(emptied, 1013),
            frame(plain, 1017, priority=4),
        ]
    )
    frames = [(found.header, memoryview(data)[found.position : found.end]) for found in walk_frames(data)]

    index = LaneIndex.rebuild(BASE, frames)

    assert list(index.runs(None, 0)) == [
        (2, 1000, 8),
        (0, 1008, 2),
        (3, 1010, 1),
        (2, 1011, 1),
        (4, 1017, 4),
    ]


@given(
    steps=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(1, 5)), max_size=300),
    lane=st.one_of(st.none(), st.integers(0, 4)),
    ahead=st.integers(-5, 400),
)
def test_memory_disk_and_a_plain_list_agree(steps, lane, ahead):
    index, naive, offset = LaneIndex(BASE), [], BASE
    for one_lane, gap, count in steps:
        offset += gap
        index.append_run(one_lane, offset, count)
        naive.extend((one_lane, offset + i) for i in range(count))
        offset += count
    wanted = [at for at in naive if lane in {None, at[0]}]
    start = BASE + ahead

    def offsets(runs):
        found = [(run.lane, run.first_offset + i) for run in runs for i in range(run.count)]
        return [at for at in found if at[1] >= start]

    wanted = [at for at in wanted if at[1] >= start]
    assert offsets(index.runs(lane, start)) == wanted
    assert offsets(read_runs(stored(index), lane, start, where="t")) == wanted
    again = LaneIndex.decode(index.encode())
    assert again.encode() == index.encode()
    assert isinstance(next(iter(again.runs(None, 0)), LaneRun(0, 0, 0)), LaneRun)

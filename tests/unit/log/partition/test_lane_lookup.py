"""Runs of a lane across segments: sealed ones by pread, the active one from memory, none of them twice or never."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.frame import Flags
from goqueue.log.index.batch_lanes import PRIORITY_HEADER
from goqueue.log.partition_log import PartitionLog
from goqueue.ports import ColdRead
from goqueue.records import NewRecord

LANES = range(5)


def fill(log: PartitionLog, lanes: list[int], *, batch: int = 3, roll_every: int = 4) -> None:
    """One record per lane named, in mixed batches, with a new segment every few of them."""
    for number, first in enumerate(range(0, len(lanes), batch)):
        records = [NewRecord(None, b"v", ((PRIORITY_HEADER, b"%d" % lane),)) for lane in lanes[first : first + batch]]
        if number and number % roll_every == 0:
            log.roll()
        log.append_batch(
            encode_batch(records, now_ms=1),
            now_ms=1,
            leader_epoch=0,
            priority=min(lanes[first : first + batch]),
            flags=Flags.MIXED_LANES,
        )


def offsets_of(log: PartitionLog, lane: int | None, start: int, *, runs_max: int) -> list[int]:
    """All offsets of a lane, in as many looks as it takes."""
    found: list[int] = []
    while start < log.end_offset:
        runs, scanned_to = log.lane_runs(lane, start, upper=log.end_offset, runs_max=runs_max)
        assert scanned_to > start
        assert all(start <= run.first_offset and run.end_offset <= scanned_to for run in runs)
        found += [offset for run in runs for offset in range(run.first_offset, run.end_offset)]
        start = scanned_to
    return found


@settings(max_examples=60, deadline=None)
@given(
    lanes=st.lists(st.sampled_from(LANES), min_size=1, max_size=60),
    start=st.integers(0, 60),
    runs_max=st.integers(1, 20),
)
def test_every_message_of_a_lane_is_found_once_whatever_the_size_of_a_look(make_desk, lanes, start, runs_max):
    log = make_desk().log
    fill(log, lanes)
    for lane in LANES:
        wanted = [at for at, one in enumerate(lanes) if one == lane and at >= start]
        assert offsets_of(log, lane, start, runs_max=runs_max) == wanted
    assert offsets_of(log, None, start, runs_max=runs_max) == list(range(start, len(lanes)))


def test_a_look_ends_at_its_upper_bound(desk):
    fill(desk.log, [0, 1, 0, 1, 0, 1])
    runs, scanned_to = desk.log.lane_runs(0, 1, upper=4, runs_max=100)
    assert [(run.first_offset, run.count) for run in runs] == [(2, 1)]
    assert scanned_to == 4


def test_what_retention_took_is_no_longer_there(desk):
    fill(desk.log, [0] * 24)
    desk.log.high_watermark = 24
    desk.log.delete_before(15)
    runs, _ = desk.log.lane_runs(0, 0, upper=24, runs_max=100)
    assert [(run.first_offset, run.count) for run in runs] == [(15, 9)]


def test_a_lane_index_that_is_lost_or_damaged_is_made_good_from_the_frames(desk):
    lanes = [number % 5 for number in range(40)]
    fill(desk.log, lanes)
    for name in desk.names(".laneindex"):
        path = f"{desk.log.directory}/{name}"
        if desk.files.exists(path) and desk.files.size(path):
            desk.files.replace(path, b"rubbish")
    assert offsets_of(desk.log, 4, 0, runs_max=100) == [at for at, lane in enumerate(lanes) if lane == 4]


def test_a_look_that_may_not_wait_says_so(desk, monkeypatch):
    fill(desk.log, [0] * 24)
    sealed = desk.log.segments[0]
    files = sealed.pin()
    index = files.index(".laneindex")

    def cold(size, position, *, nowait=False):
        if nowait:
            raise ColdRead
        return type(index).pread(index, size, position)

    monkeypatch.setattr(index, "pread", cold, raising=False)
    with pytest.raises(ColdRead):
        desk.log.lane_runs(0, 0, upper=24, runs_max=100, nowait=True)
    files.unpin()
    assert desk.log.lane_runs(0, 0, upper=24, runs_max=100).scanned_to == 24

"""Taking away: from the front and from the end, and what travels with the log follows."""

from __future__ import annotations

import errno

import pytest

from goqueue.errors import OffsetOutOfRange
from goqueue.testing.disk import Survival
from goqueue.testing.faults import Crash

DAY_MS = 24 * 3600 * 1000


def story(desk):
    """Plain batches, two producers, an abort, three epochs, several segments. One call per batch."""
    return [
        lambda: desk.append(b"a", b"b", b"c", epoch=1),
        lambda: desk.send(b"x" * 150, b"y" * 150, transactional=True, epoch=1),
        lambda: desk.append(b"d" * 300, epoch=2),
        lambda: desk.mark(commit=False, epoch=2),
        lambda: desk.send(b"z" * 300, sequence=2, transactional=True, epoch=2),
        lambda: desk.append(b"e" * 300, epoch=3),
        lambda: desk.send(b"p" * 200, producer=6, epoch=3),
        lambda: desk.mark(commit=True, epoch=3),
        lambda: desk.append(b"f", b"g" * 300, epoch=5),
    ]


def shape(desk):
    """Everything that can be asked of a log."""
    log = desk.log
    return {
        "end": log.end_offset,
        "batches": desk.read(),
        "producers": sorted(log.producers.all(), key=lambda one: one.producer_id),
        "aborted": log.aborted_between(0, 999),
        "epochs": [log.end_offset_for_epoch(epoch) for epoch in range(7)],
        "stable": log.last_stable_offset,
        "segments": [(one.base_offset, one.size_bytes) for one in log.segments],
        "times": [log.offset_for_timestamp(stamp, upper=log.end_offset) for stamp in (0, desk.now_ms, desk.now_ms + 1)],
        "lanes": list(log.segments[-1].lanes.runs(None, 0)),
    }


@pytest.mark.parametrize("batches", range(1, 9))
@pytest.mark.parametrize("then", ["go on", "restart", "kill", "crash"])
def test_a_log_cut_at_any_batch_is_one_that_was_never_longer(make_desk, batches, then):
    short, long = make_desk(), make_desk()
    for step in story(short)[:batches]:
        step()
    for step in story(long):
        step()
    end = short.log.end_offset
    assert long.log.truncate_to(end) == end
    for desk in (short, long):
        if then == "restart":
            desk.restart()
        elif then == "kill":
            desk.kill()
        elif then == "crash":
            desk.sync()
            desk.crash(Survival.NOTHING)
    wanted, found = shape(short), shape(long)
    if wanted["segments"] != found["segments"]:  # a cut at a segment's base leaves that one empty
        assert found.pop("segments") == [*wanted.pop("segments"), (end, 0)]
        del wanted["lanes"], found["lanes"]
    assert found == wanted
    for desk in (short, long):
        for step in story(desk)[batches : batches + 1]:
            step()
    assert long.read() == short.read()


def test_a_cut_forgets_the_timestamps_of_what_it_took_and_none_of_what_it_left(desk):
    desk.reopen(retention_ms=DAY_MS)
    desk.append(b"a", stamps=[10])
    desk.append(b"b", stamps=[5000])  # too near to the first to be in the time index
    desk.append(b"c", stamps=[10**12])
    desk.log.truncate_to(2)
    for stamp in range(20, 30):
        desk.append(b"d" * 40, stamps=[stamp])
    assert desk.log.offset_for_timestamp(1000, upper=12).offset == 1
    assert desk.log.offset_of_max_timestamp(12) == (1, 5000, 0)
    assert desk.log.apply_retention(DAY_MS + 5001) == len(desk.log.segments) + 1


def test_a_cut_inside_a_batch_takes_the_whole_batch(desk):
    desk.append(b"a", b"b", b"c")
    desk.append(b"d", b"e", b"f")
    assert desk.log.truncate_to(4) == 3
    assert desk.offsets() == [0, 1, 2]
    assert desk.append(b"g").base_offset == 3


def test_a_cut_at_or_behind_the_end_changes_nothing(desk):
    desk.append_many(3)
    tree = desk.files.tree()
    assert desk.log.truncate_to(3) == desk.log.truncate_to(99) == 3
    assert desk.files.tree() == tree


def test_a_cut_before_the_start_begins_the_log_anew_there(desk):
    desk.append_many(12)
    desk.log.delete_before(9)
    assert desk.log.truncate_to(5) == 5
    assert (desk.log.start_offset, desk.log.end_offset, desk.log.high_watermark) == (5, 5, 5)
    assert desk.append(b"next").base_offset == 5
    desk.kill()
    assert desk.offsets() == [5]


def test_a_cut_lowers_the_high_watermark(desk):
    desk.append_many(6)
    desk.log.truncate_to(2)
    assert desk.log.high_watermark == 2


def test_a_cut_forgets_tombstones_that_the_log_has_not_seen_any_more(desk):
    """After an unclean election: what is copied in their place may lack others, and this log would keep the deleted."""
    for _ in range(10):
        desk.append(b"a")
    desk.log.note_tombstones_gone(8)
    desk.log.truncate_to(5)
    assert desk.log.tombstones_gone_to == 5


def test_a_cut_interrupted_by_a_crash_is_completed_or_did_not_happen(make_desk):
    step = 0
    outcomes = set()
    while True:
        step += 1
        desk = make_desk()
        desk.append_many(14)
        desk.sync()
        desk.files.faults.crash_at_step = desk.files.faults.steps + step
        try:
            desk.log.truncate_to(2)
        except Crash:
            desk.crash(Survival.SOME)
            assert desk.log.damage == ()
            assert desk.offsets() == list(range(desk.log.end_offset))
            outcomes.add(desk.log.end_offset)
            desk.append(b"next")
            desk.kill()
            assert desk.offsets() == list(range(desk.log.end_offset))
        else:
            break
    assert outcomes == {2, 14}
    assert step > 10


def test_deleted_records_stay_deleted_over_a_restart_and_a_crash(desk):
    desk.append_many(12)
    assert desk.log.delete_before(5) == 5
    assert [desk.offsets()[0], desk.log.segments[0].base_offset] == [5, 4]
    desk.sync()
    for again in (desk.restart, desk.kill, desk.crash):
        again()
        assert desk.log.start_offset == 5
        with pytest.raises(OffsetOutOfRange):
            desk.log.read_batches(4, max_bytes=10, upper=12)
    assert desk.log.delete_before(3) == 5


def test_nothing_above_the_high_watermark_is_deleted_by_order(desk):
    desk.append_many(3)
    desk.log.append_batch(desk.batch(b"not replicated"), now_ms=1, leader_epoch=0)
    with pytest.raises(OffsetOutOfRange):
        desk.log.delete_before(4)
    assert desk.log.start_offset == 0


def test_a_start_that_cannot_be_written_down_does_not_move(desk):
    desk.append_many(12)
    desk.files.faults.fail("create", "*.tmp", code=errno.ENOSPC)
    with pytest.raises(Exception, match="no space left"):
        desk.log.delete_before(8)
    assert desk.log.start_offset == 0
    assert desk.offsets() == list(range(12))


def aged(desk, days):
    """One segment for each of `days` ago."""
    desk.now_ms = 100 * DAY_MS
    for ago in days:
        stamp = desk.now_ms - ago * DAY_MS
        desk.append(b"x" * 10, stamps=[stamp])
        desk.log.roll()
    desk.append(b"today")


def test_retention_by_time_deletes_every_old_segment_and_no_young_one(desk):
    desk.reopen(retention_ms=7 * DAY_MS)
    aged(desk, [30, 20, 9, 8, 6, 1])
    assert desk.log.apply_retention(desk.now_ms) == 4
    assert (desk.log.start_offset, desk.offsets()) == (4, [4, 5, 6])
    desk.restart()
    assert (desk.log.start_offset, desk.offsets()) == (4, [4, 5, 6])
    assert desk.log.apply_retention(desk.now_ms) == 0


def test_retention_does_not_look_behind_the_first_young_segment(desk):
    desk.reopen(retention_ms=7 * DAY_MS)
    aged(desk, [20, 1, 20])
    assert desk.log.apply_retention(desk.now_ms) == 1
    assert desk.offsets() == [1, 2, 3]


def test_a_record_from_the_future_keeps_its_segment(desk):
    desk.reopen(retention_ms=7 * DAY_MS)
    aged(desk, [-5])
    desk.now_ms += 11 * DAY_MS
    assert desk.log.apply_retention(desk.now_ms) == 0
    desk.now_ms += 2 * DAY_MS
    assert desk.log.apply_retention(desk.now_ms) == 2


def test_records_without_a_timestamp_age_by_when_they_were_written(desk):
    desk.reopen(retention_ms=1000)
    desk.append(b"a", stamps=[-1])
    assert desk.log.apply_retention(desk.now_ms + 1000) == 0
    assert desk.log.apply_retention(desk.now_ms + 1001) == 1


def test_the_active_segment_goes_too_once_it_is_old_and_offsets_go_on(desk):
    desk.reopen(retention_ms=1000)
    desk.append_many(12)
    assert desk.log.apply_retention(desk.now_ms + 1001) == 3
    assert (desk.log.start_offset, desk.log.end_offset, desk.log.size_bytes) == (12, 12, 0)
    desk.sync()
    desk.crash(Survival.NOTHING)
    assert desk.append(b"next").base_offset == 12


def test_retention_by_size_deletes_the_oldest_until_the_rest_fits(desk):
    desk.reopen(retention_bytes=2000)
    desk.append_many(30)
    before = desk.log.size_bytes
    deleted = desk.log.apply_retention(desk.now_ms)
    assert deleted == (before - 2000) // desk.log.segments[0].size_bytes
    assert 2000 <= desk.log.size_bytes < 3000
    assert desk.offsets() == list(range(desk.log.start_offset, 30))


def test_retention_spares_what_is_not_replicated_yet(desk):
    desk.append_many(12)
    desk.log.close()
    log = desk.reopen(retention_ms=0)
    log._state.high_watermark = 5
    assert log.apply_retention(desk.now_ms + 10**6) == 1
    assert log.start_offset == 4


def test_a_topic_that_is_only_compacted_keeps_everything(desk):
    desk.reopen(cleanup_delete=False, retention_ms=1, retention_bytes=1)
    desk.append_many(12)
    assert desk.log.apply_retention(desk.now_ms + 10**6) == 0


def test_retention_frees_a_full_disk(desk):
    desk.reopen(retention_bytes=1000)
    desk.append_many(30)
    desk.files.faults.capacity_bytes = 0
    assert desk.log.apply_retention(desk.now_ms) > 2
    assert desk.offsets() == list(range(desk.log.start_offset, 30))


def test_a_lost_time_index_makes_nothing_old(desk):
    desk.reopen(retention_ms=7 * DAY_MS)
    aged(desk, [1, 1])
    desk.log.close()
    desk.files.remove(desk.path(0, ".timeindex"))
    desk.reopen()
    assert desk.log.apply_retention(desk.now_ms) == 0


def test_snapshots_go_with_their_segments(desk):
    desk.append_many(20)
    desk.log.delete_before(20)
    bases = [segment.base_offset for segment in desk.log.segments]
    assert [int(name.split(".")[0]) for name in desk.names(".snapshot")] == bases

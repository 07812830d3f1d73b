"""Leader epochs as a log keeps them: begun without a record, followed by another's frames, cut where they part."""

from __future__ import annotations

import pytest

from goqueue.errors import FencedLeaderEpoch, OffsetOutOfRange


def frames(log, first: int = 0) -> bytes:
    return b"".join(log.read_frames(first, max_bytes=10**6, upper=log.end_offset).batches)


def test_a_leader_without_a_record_answers_for_the_epoch_before_it(desk):
    for epoch in (4, 5, 5):
        desk.append(b"a", epoch=epoch)
    desk.log.begin_epoch(7)
    assert desk.log.end_offset_for_epoch(6) == (5, 3), "nobody here wrote in epoch 6: what a follower has of it must go"
    assert desk.log.end_offset_for_epoch(7) == (7, 3)
    assert desk.log.end_offset_for_epoch(8) == (-1, -1)
    assert desk.log.leader_epoch == 5, "no record is of a newer epoch"


def test_an_epoch_that_wrote_nothing_gives_way_to_the_next_one(desk):
    desk.append(b"a", epoch=1)
    for epoch in (2, 3, 4):
        desk.log.begin_epoch(epoch)
    desk.append(b"b", epoch=4)
    assert [desk.log.end_offset_for_epoch(epoch) for epoch in (1, 2, 3, 4)] == [(1, 1), (1, 1), (1, 1), (4, 2)]


def test_two_failovers_in_a_row_do_not_leave_two_logs_that_end_alike_with_different_bytes(desk, make_desk):
    follower = make_desk()
    desk.append(b"common", epoch=5)
    follower.log.append_frames(frames(desk.log), continues=0)
    # The other node led in 6 and wrote; this one leads in 7 and has written nothing yet.
    follower.append(b"of 6", epoch=6)
    desk.log.begin_epoch(7)
    epoch, end = desk.log.end_offset_for_epoch(follower.log.leader_epoch)
    assert (epoch, end) == (5, 1)
    follower.log.truncate_to(end)
    desk.append(b"of 7", epoch=7)
    follower.log.append_frames(frames(desk.log, 1), continues=1)
    assert follower.values() == desk.values() == [b"common", b"of 7"]


def test_an_epoch_begun_without_a_record_needs_no_sync_and_is_begun_again_after_a_clean_stop(desk):
    desk.append(b"a", epoch=1)
    desk.restart()
    desk.log.begin_epoch(3)
    assert not desk.log.is_dirty
    desk.restart()
    desk.log.begin_epoch(3)
    assert desk.log.end_offset_for_epoch(2) == (1, 1)


def test_frames_that_do_not_continue_the_log_are_refused(desk, make_desk):
    follower = make_desk()
    for value in (b"a", b"b", b"c"):
        desk.append(value)
    follower.log.append_frames(frames(desk.log)[: len(frames(desk.log)) - len(frames(desk.log, 2))], continues=0)
    later = frames(desk.log, 2)
    with pytest.raises(OffsetOutOfRange):
        follower.log.append_frames(later, continues=3)
    desk.append(b"d")
    with pytest.raises(OffsetOutOfRange):
        follower.log.append_frames(frames(desk.log, 3), continues=3)
    assert follower.log.end_offset == 2
    assert follower.log.append_frames(later, continues=2) == 3


def test_frames_of_an_older_epoch_are_refused_whole(desk, make_desk):
    follower = make_desk()
    desk.append(b"a", epoch=3)
    desk.append(b"b", epoch=3)
    follower.append(b"a", epoch=3)
    follower.append(b"mine", epoch=5)
    desk.append(b"c", epoch=3)
    with pytest.raises(FencedLeaderEpoch):
        follower.log.append_frames(frames(desk.log, 2), continues=2)
    assert follower.values() == [b"a", b"mine"]


def test_who_led_without_a_record_takes_frames_of_the_epoch_before(desk, make_desk):
    follower = make_desk()
    desk.append(b"a", epoch=6)
    follower.log.append_frames(frames(desk.log), continues=0)
    follower.log.begin_epoch(7)
    desk.append(b"b", epoch=6)
    desk.log.begin_epoch(8)
    follower.log.forget_empty_epoch()
    assert follower.log.append_frames(frames(desk.log, 1), continues=1) == 2


def test_a_cut_takes_along_what_was_derived_from_the_frames(desk):
    desk.append(b"a")
    desk.send(b"b", transactional=True)
    desk.append(b"c", priority=0)
    desk.mark(commit=False)
    desk.append(b"d", epoch=2)
    assert desk.log.producers.all()
    assert desk.log.aborted_between(0, 5)
    desk.log.truncate_to(1)
    assert desk.log.end_offset == 1
    assert desk.log.producers.all() == []
    assert desk.log.aborted_between(0, 5) == []
    assert [tuple(run) for run in desk.log.lane_runs(None, 0, upper=1, runs_max=9).runs] == [(2, 0, 1)]
    assert desk.log.leader_epoch == 0
    assert desk.log.end_offset_for_epoch(0) == (0, 1)


def test_an_empty_copy_begins_where_the_log_that_it_copies_does(desk, make_desk):
    follower = make_desk()
    desk.append_many(5)
    desk.log.high_watermark = desk.log.end_offset
    desk.log.delete_before(3)
    follower.log.start_at(3)
    follower.log.append_frames(frames(desk.log, 3), continues=3)
    assert (follower.log.start_offset, follower.log.end_offset) == (3, 5)
    with pytest.raises(OffsetOutOfRange):
        follower.log.start_at(9)

"""Syncing: what a round promises, and what a failed one takes back."""

from __future__ import annotations

import errno

import pytest

from goqueue.errors import LogPoisoned
from goqueue.testing.disk import Survival


def test_the_synced_end_moves_when_a_round_ends_and_not_before(desk):
    desk.append_many(3)
    assert (desk.log.synced_end, desk.log.is_dirty) == (0, True)
    begun = desk.log.begin_sync()
    begun.run()
    assert desk.log.synced_end == 0
    desk.log.end_sync(begun, None)
    assert (desk.log.synced_end, desk.log.is_dirty) == (3, False)
    assert desk.log.begin_sync() is None


def test_what_is_appended_while_a_round_runs_is_not_claimed_by_it(desk):
    desk.append(b"a")
    begun = desk.log.begin_sync()
    desk.append(b"b")
    begun.run()
    desk.log.end_sync(begun, None)
    assert (desk.log.synced_end, desk.log.is_dirty) == (1, True)
    desk.crash(Survival.NOTHING)
    assert desk.offsets() in ([0], [0, 1])  # the second went to the disk with the first, but nobody said so


def test_without_a_sync_a_power_cut_takes_everything(desk):
    desk.append_many(3)
    desk.crash(Survival.NOTHING)
    assert desk.log.end_offset == 0
    assert desk.append(b"again").base_offset == 0


def test_one_round_makes_sealed_segments_their_names_and_the_active_one_safe(desk):
    desk.append_many(20)
    assert len(desk.log.segments) > 3
    desk.sync()
    assert desk.log.synced_end == 20
    desk.crash(Survival.NOTHING)
    assert desk.offsets() == list(range(20))
    assert desk.log.damage == ()


def test_a_round_syncs_the_names_that_a_roll_made(desk):
    desk.append_many(12)
    begun = desk.log.begin_sync()
    before = desk.files.faults.counts["sync_dir"]
    begun.run()
    assert desk.files.faults.counts["sync_dir"] == before + 1


def test_a_failed_sync_poisons_and_no_later_one_pretends_otherwise(desk):
    desk.append(b"a")
    desk.sync()
    desk.append(b"b")
    begun = desk.log.begin_sync()
    desk.files.faults.fail("sync", "*.log")
    with pytest.raises(OSError, match="error") as failure:
        begun.run()
    desk.log.end_sync(begun, failure.value)
    assert desk.log.poisoned
    assert desk.log.synced_end == 1
    with pytest.raises(LogPoisoned):
        desk.append(b"c")
    with pytest.raises(LogPoisoned):
        desk.log.roll()
    assert desk.log.begin_sync() is None


def test_bytes_that_a_failed_sync_left_only_looking_stored_are_written_again_at_the_next_start(desk):
    desk.append(b"a")
    desk.sync()
    desk.append(b"b")
    begun = desk.log.begin_sync()
    desk.files.faults.fail("sync", "*.log")
    with pytest.raises(OSError, match="error") as failure:
        begun.run()
    desk.log.end_sync(begun, failure.value)
    desk.log.close()
    desk.reopen()  # the disk is well again; the page cache still shows both
    assert desk.offsets() == [0, 1]
    desk.append(b"c")
    desk.sync()
    assert desk.log.synced_end == 3
    desk.crash(Survival.NOTHING)
    assert desk.log.damage == ()
    assert desk.values() == [b"a", b"b", b"c"]


def test_a_round_that_succeeds_after_another_failed_proves_nothing(desk):
    desk.append(b"a")
    first, second = desk.log.begin_sync(), desk.log.begin_sync()
    desk.log.end_sync(first, OSError(errno.EIO, "gone"))
    second.run()
    desk.log.end_sync(second, None)
    assert desk.log.synced_end == 0


def test_a_poisoned_log_goes_on_serving_what_it_has(desk):
    desk.append(b"a")
    desk.log.end_sync(desk.log.begin_sync(), OSError(errno.EIO, "gone"))
    assert desk.values() == [b"a"]


def test_a_round_begun_before_the_log_was_cut_says_nothing_of_what_was_written_since(desk):
    desk.append_many(4)
    begun = desk.log.begin_sync()
    desk.log.truncate_to(1)
    desk.append_many(3)
    begun.run()
    desk.log.end_sync(begun, None)
    assert desk.log.synced_end <= 1
    desk.sync()
    assert desk.log.synced_end == 4


def test_a_round_may_end_after_its_log_was_closed_or_deleted(desk):
    desk.append_many(12)
    begun = desk.log.begin_sync()
    desk.log.delete_before(12)
    desk.log.abandon()
    begun.run()
    desk.log.end_sync(begun, None)


def test_a_new_segment_is_not_promised_while_its_checkpoint_finds_no_room(desk):
    desk.append_many(3)
    desk.sync()
    desk.append_many(9)
    begun = desk.log.begin_sync()
    begun.run()
    desk.files.faults.fail("create", "*.tmp", code=errno.ENOSPC)
    desk.log.end_sync(begun, None)
    assert (desk.log.synced_end, desk.log.poisoned, desk.log.is_dirty) == (3, False, True)
    desk.sync()
    assert desk.log.synced_end == 12


def test_whoever_syncs_the_whole_disk_may_end_rounds_without_running_them(desk):
    desk.append_many(12)
    begun = desk.log.begin_sync()
    assert begun.file_count > 3
    desk.files.sync_all()
    desk.log.end_sync(begun, None)
    desk.crash(Survival.NOTHING)
    assert desk.offsets() == list(range(12))


def test_a_close_without_room_for_its_checkpoint_loses_nothing(desk):
    desk.append_many(3)
    desk.files.faults.fail("create", "*.tmp", code=errno.ENOSPC)
    with pytest.raises(Exception, match="no space left"):
        desk.log.close()
    desk.crash(Survival.NOTHING)
    assert desk.offsets() == [0, 1, 2]


def test_closing_twice_does_no_harm(desk):
    desk.append(b"a")
    desk.log.close()
    desk.log.close()
    desk.log.abandon()
    desk.reopen()
    assert desk.log.recovery.is_clean


def test_a_closed_log_takes_no_more_writes(desk):
    desk.append(b"a")
    desk.log.close()
    with pytest.raises(LogPoisoned, match="closed"):
        desk.append(b"b")

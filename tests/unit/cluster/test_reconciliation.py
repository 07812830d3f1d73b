"""Where two logs part: verdicts of a leader, and what a follower keeps."""

from __future__ import annotations

from uuid import UUID

from goqueue.cluster.replication.messages import Status
from goqueue.cluster.replication.reconciliation import judge, kept_end
from goqueue.codec.batch_encode import encode_batch
from goqueue.log.partition_log import PartitionLog
from goqueue.log.settings import LogSettings
from goqueue.records import NewRecord
from goqueue.testing.memory_files import MemoryFiles

TOPIC_ID = UUID(int=5)


def open_log(files: MemoryFiles | None = None) -> PartitionLog:
    return PartitionLog.open(files or MemoryFiles(), "logs/a/0", settings=LogSettings(), topic_id=TOPIC_ID, now_ms=0)


def log_of(*epochs: tuple[int, int]) -> PartitionLog:
    """A log in which each epoch wrote so many records, one to a batch."""
    log = open_log()
    for epoch, count in epochs:
        log.begin_epoch(epoch)
        for number in range(count):
            batch = encode_batch([NewRecord(None, b"%d/%d" % (epoch, number))], now_ms=1)
            log.append_batch(batch, now_ms=1, leader_epoch=epoch)
    return log


def agree(follower: PartitionLog, leader: PartitionLog) -> list[Status]:
    """Cut the follower until the leader can match it; returns what it was told."""
    told: list[Status] = []
    while True:
        verdict = judge(leader, follower.end_offset, follower.leader_epoch)
        told.append(verdict.status)
        if verdict.status is not Status.DIVERGED:
            return told
        follower.truncate_to(kept_end(follower, verdict.epoch, verdict.end))


def test_a_log_that_is_a_beginning_of_the_leaders_is_continued() -> None:
    leader = log_of((1, 5), (3, 5))
    for follower in (open_log(), log_of((1, 2)), log_of((1, 5)), log_of((1, 5), (3, 2))):
        assert agree(follower, leader) == [Status.OK]


def test_what_a_former_leader_wrote_alone_is_cut_off() -> None:
    leader, follower = log_of((1, 5), (3, 5)), log_of((1, 8))
    assert agree(follower, leader) == [Status.DIVERGED, Status.OK]
    assert follower.end_offset == 5


def test_an_epoch_in_which_the_leader_wrote_nothing_is_told_by_its_entry() -> None:
    """Two failovers in a row: the logs end alike, with different bytes behind epoch 5."""
    leader = log_of((5, 4))
    leader.begin_epoch(7)
    follower = log_of((5, 4), (6, 3))
    assert agree(follower, leader) == [Status.DIVERGED, Status.OK]
    assert follower.end_offset == 4
    leader = log_of((5, 4), (7, 3))
    follower = log_of((5, 4), (6, 3))
    assert agree(follower, leader) == [Status.DIVERGED, Status.OK]
    assert follower.end_offset == 4


def test_several_epochs_that_the_leader_does_not_know_are_cut_one_after_the_other() -> None:
    leader, follower = log_of((1, 2), (9, 9)), log_of((1, 4), (2, 2), (4, 3))
    assert agree(follower, leader)[-1] is Status.OK
    assert follower.end_offset == 2


def test_a_log_that_ends_before_the_leaders_start_begins_anew_there_and_survives_a_restart() -> None:
    files = MemoryFiles()
    follower = open_log(files)
    follower.append_batch(encode_batch([NewRecord(None, b"old")], now_ms=1), now_ms=1, leader_epoch=1)
    leader = log_of((1, 40))
    leader.high_watermark = 40
    leader.delete_before(30)
    verdict = judge(leader, follower.end_offset, follower.leader_epoch)
    assert (verdict.status, verdict.end) == (Status.RESET, 30)
    follower.reset_to(verdict.end)
    assert (follower.start_offset, follower.end_offset, follower.leader_epoch) == (30, 30, -1)
    assert agree(follower, leader) == [Status.OK]
    read = leader.read_frames(30, max_bytes=1 << 20, upper=40)
    follower.append_frames(b"".join(read.batches), continues=30)
    for again in (open_log(files.kill()), open_log(files.kill())):
        assert (again.start_offset, again.end_offset, again.leader_epoch) == (30, 40, 1)
        break


def test_a_reset_that_a_power_cut_interrupts_leaves_a_log_that_can_be_reset_again() -> None:
    for step in range(1, 40):
        files = MemoryFiles(seed=step)
        log = open_log(files)
        for number in range(5):
            log.append_batch(encode_batch([NewRecord(None, b"%d" % number)], now_ms=1), now_ms=1, leader_epoch=1)
        files.faults.crash_at_step = files.faults.steps + step
        try:
            log.reset_to(30)
        except BaseException as crash:  # noqa: BLE001 - Crash is not an Exception
            assert type(crash).__name__ == "Crash"  # noqa: PT017
        else:
            assert log.end_offset == 30
            return
        again = open_log(files.crash())
        assert again.end_offset <= 5 or again.end_offset == 30
        again.reset_to(30)
        assert (again.start_offset, again.end_offset) == (30, 30)

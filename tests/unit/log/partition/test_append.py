"""Appending: offsets, bytes, refusals, and failures that leave nothing behind."""

from __future__ import annotations

import errno

import pytest

from goqueue.codec.batch import ATTRIBUTES_AT, parse_batch_header
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.frame import HEADER_BYTES, Flags
from goqueue.codec.frame_walk import check_frame
from goqueue.errors import (
    CorruptBatch,
    CorruptFrame,
    DiskFull,
    MessageTooLarge,
    OffsetOutOfRange,
    OutOfOrderSequence,
    StorageError,
)
from goqueue.log.index.batch_lanes import PRIORITY_HEADER
from goqueue.log.segment.segment import Segment
from goqueue.records import NewRecord, TimestampType


def test_an_empty_log_touches_nothing_until_the_first_append(desk):
    assert (desk.log.start_offset, desk.log.end_offset, desk.log.size_bytes) == (0, 0, 0)
    assert desk.log.read_batches(0, max_bytes=10, upper=0).batches == []
    desk.log.checkpoint()
    desk.restart()
    assert desk.files.tree() == {}


def test_the_first_append_makes_the_directory_and_names_its_segment_with_twenty_digits(desk):
    desk.append(b"a")
    assert desk.names(".log") == ["00000000000000000000.log"]
    assert desk.names("partition.ckpt") == ["partition.ckpt"]


def test_batches_get_the_next_offsets_and_keep_their_bytes(desk):
    batch = desk.batch(b"a", b"b", b"c")
    first = desk.log.append_batch(batch, now_ms=5, leader_epoch=3)
    second = desk.log.append_batch(batch, now_ms=6, leader_epoch=4)
    assert (first.base_offset, first.last_offset, first.end_offset) == (0, 2, 3)
    assert (second.base_offset, second.last_offset) == (3, 5)
    stored = desk.read()
    assert [parse_batch_header(one).base_offset for one in stored] == [0, 3]
    assert [parse_batch_header(one).leader_epoch for one in stored] == [3, 4]
    assert [one[16:] for one in stored] == [batch[16:], batch[16:]]


def test_a_batch_is_handed_to_the_file_without_a_copy(desk, monkeypatch):
    desk.append(b"a")
    written = []
    log_file = type(desk.files.open(desk.path()))
    append = log_file.append
    monkeypatch.setattr(log_file, "append", lambda file, parts: written.append(parts) or append(file, parts))
    batch = desk.batch(b"b" * 500)
    desk.log.append_batch(batch, now_ms=5, leader_epoch=0)
    (parts,) = written
    assert parts[1].obj is batch
    assert len(parts[0]) == HEADER_BYTES + ATTRIBUTES_AT


def test_a_damaged_batch_is_refused_and_changes_nothing(desk):
    desk.append(b"a")
    batch = bytearray(desk.batch(b"b"))
    batch[-1] ^= 1
    with pytest.raises(CorruptBatch):
        desk.log.append_batch(batch, now_ms=5, leader_epoch=0)
    assert desk.offsets() == [0]
    assert desk.log.end_offset == 1


def test_a_batch_above_the_limit_is_refused_with_both_sizes(desk):
    desk.reopen(max_message_bytes=100)
    with pytest.raises(MessageTooLarge, match="larger than the limit of 100"):
        desk.append(b"x" * 100)
    assert desk.log.end_offset == 0


def test_a_retry_is_answered_with_the_offsets_of_the_first_time(desk):
    desk.append(b"before")
    first = desk.send(b"a", b"b")
    again = desk.send(b"a", b"b")
    assert again.duplicate
    assert (again.base_offset, again.last_offset) == (first.base_offset, first.last_offset) == (1, 2)
    assert desk.values() == [b"before", b"a", b"b"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_retry_after_a_failed_write_is_stored_once(desk, code):
    desk.send(b"a")
    desk.files.faults.fail("append", "*.log", code=code)
    with pytest.raises(StorageError):
        desk.send(b"b", sequence=1)
    stored = desk.send(b"b", sequence=1)
    assert not stored.duplicate
    assert desk.values() == [b"a", b"b"]
    with pytest.raises(OutOfOrderSequence):
        desk.send(b"c", sequence=3)


def test_a_full_disk_refuses_writes_serves_reads_and_recovers_when_there_is_room(desk):
    desk.append(b"a")
    desk.files.faults.capacity_bytes = 0
    with pytest.raises(DiskFull):
        desk.append(b"b")
    assert desk.values() == [b"a"]
    desk.files.faults.capacity_bytes = None
    desk.append(b"c")
    assert desk.values() == [b"a", b"c"]
    assert not desk.log.poisoned


def test_an_error_of_the_disk_leaves_the_file_as_it_was(desk):
    desk.append(b"a")
    before = desk.files.tree()[desk.path()]
    desk.files.faults.fail("append", "*.log")
    with pytest.raises(StorageError, match="could not be written"):
        desk.append(b"b")
    assert desk.files.tree()[desk.path()] == before
    assert desk.append(b"b").base_offset == 1


def test_a_failed_write_that_cannot_be_undone_ends_the_writing(desk, monkeypatch):
    desk.append(b"a")
    log_file = type(desk.files.open(desk.path()))
    append = log_file.append

    def half(file, parts):
        append(file, parts[:1])
        raise OSError(errno.EIO, "and no cutting back")

    monkeypatch.setattr(log_file, "append", half)
    with pytest.raises(StorageError):
        desk.append(b"b")
    monkeypatch.undo()
    assert desk.log.poisoned
    with pytest.raises(StorageError, match="takes no more writes"):
        desk.append(b"c")
    assert desk.values() == [b"a"]


def test_a_topic_that_stamps_records_itself_says_when(desk):
    desk.reopen(timestamp_type=TimestampType.LOG_APPEND_TIME)
    desk.now_ms = 7777
    assert desk.append(b"a", stamps=[5]).stamped_ms == 7777
    (batch,) = desk.read()
    assert [record.timestamp_ms for record in decode_records(batch)] == [7777]


def test_the_last_stable_offset_waits_for_open_transactions(desk):
    desk.append(b"plain")
    desk.send(b"a", transactional=True)
    desk.append(b"more")
    assert desk.log.last_stable_offset == 1
    desk.mark(commit=True)
    assert desk.log.last_stable_offset == desk.log.end_offset == 4


def test_aborted_transactions_are_found_where_they_touch_a_range_also_behind_a_roll(desk):
    desk.send(b"a", transactional=True)
    desk.log.roll()
    desk.append(b"between")
    desk.mark(commit=False)
    desk.log.roll()
    desk.append(b"after")
    (aborted,) = desk.log.aborted_between(0, 1)
    assert (aborted.producer_id, aborted.first_offset, aborted.last_offset) == (5, 0, 2)
    assert desk.log.aborted_between(3, 4) == []


def test_segments_in_which_nothing_was_aborted_are_opened_for_that_once_and_then_no_more(desk, monkeypatch):
    desk.send(b"a", transactional=True)
    for _ in range(5):
        desk.append(b"between")
        desk.log.roll()
    desk.mark(commit=False)
    desk.log.roll()
    desk.append(b"after")
    pinned = []
    pin = Segment.pin
    monkeypatch.setattr(Segment, "pin", lambda segment: pinned.append(segment.base_offset) or pin(segment))

    def asked():
        pinned.clear()
        assert [one.first_offset for one in desk.log.aborted_between(0, 1)] == [0]
        return len(pinned)

    assert asked() == 1, "those that were sealed here are known to be empty; only the one with the marker is opened"
    desk.restart()
    assert asked() == 6, "after a restart nothing is known"
    assert asked() == 1


def test_frames_of_a_leader_make_a_byte_identical_follower(desk, make_desk):
    follower = make_desk()
    desk.append(b"a", priority=0)
    desk.send(b"b", transactional=True)
    desk.mark(commit=False)
    desk.append_many(20)
    read = desk.log.read_frames(0, max_bytes=10**6, upper=desk.log.end_offset)
    while read.batches:
        follower.log.append_frames(b"".join(read.batches), continues=follower.log.end_offset)
        read = desk.log.read_frames(read.next_offset, max_bytes=10**6, upper=desk.log.end_offset)
    logs = [{n: c for n, c in each.files.tree().items() if n.endswith(".log")} for each in (desk, follower)]
    assert logs[0] == logs[1]
    assert follower.log.producers.all() == desk.log.producers.all()
    assert follower.log.aborted_between(0, 99) == desk.log.aborted_between(0, 99)


def test_frames_of_a_round_are_written_at_once_and_leave_the_files_that_one_after_the_other_leaves(
    desk, make_desk, monkeypatch
):
    desk.append(b"a", priority=0)
    desk.send(b"b", transactional=True)
    desk.mark(commit=False)
    desk.append_many(20)
    frames = []
    for offset in range(desk.log.end_offset):
        frames += desk.log.read_frames(offset, max_bytes=1, upper=desk.log.end_offset).batches
    one_by_one, at_once = make_desk(), make_desk()
    for frame in frames:
        one_by_one.log.append_frames(frame, continues=one_by_one.log.end_offset)
    runs = []
    append_run = Segment.append_run
    monkeypatch.setattr(
        Segment,
        "append_run",
        lambda segment, data, run: (runs.append(segment.base_offset), append_run(segment, data, run)),
    )
    assert at_once.log.append_frames(b"".join(frames), continues=0) == one_by_one.log.end_offset == len(frames)
    for each in (one_by_one, at_once):
        each.log.close()
    files = [{n: c for n, c in each.files.tree().items() if not n.endswith(".ckpt")} for each in (one_by_one, at_once)]
    assert files[0] == files[1]
    segments = [n for n in files[0] if n.endswith(".log")]
    assert len(segments) > 2
    assert len(runs) == len(segments), "one write for each segment"


def test_frames_of_a_round_that_are_too_old_for_one_segment_begin_another(desk, make_desk):
    """Also where the round begins the segment: it would be kept as long as the newest record of the round."""
    desk.reopen(segment_ms=1000)
    for _ in range(4):
        desk.append(b"a")
        desk.now_ms += 600
    frames = b"".join(desk.log.read_frames(0, max_bytes=10_000, upper=desk.log.end_offset).batches)
    one_by_one, at_once = make_desk(), make_desk()
    for each in (one_by_one, at_once):
        each.reopen(segment_ms=1000)
    for offset in range(4):
        (frame,) = desk.log.read_frames(offset, max_bytes=1, upper=desk.log.end_offset).batches
        one_by_one.log.append_frames(frame, continues=offset)
    at_once.log.append_frames(frames, continues=0)
    segments = [[n for n in each.files.tree() if n.endswith(".log")] for each in (desk, one_by_one, at_once)]
    assert len(segments[0]) == 2
    assert segments[0] == segments[1] == segments[2]


@pytest.mark.parametrize("place", [2, 40, 120])
def test_a_damaged_frame_from_a_leader_is_refused_with_all_that_came_with_it(desk, make_desk, place):
    desk.append(b"a")
    desk.append(b"b")
    follower = make_desk()
    data = bytearray(b"".join(desk.log.read_frames(0, max_bytes=9999, upper=2).batches))
    data[place] ^= 0x40
    with pytest.raises(CorruptFrame):
        follower.log.append_frames(data, continues=0)
    assert follower.log.end_offset == 0


def test_frames_that_a_follower_has_already_are_refused(desk, make_desk):
    desk.append(b"a")
    follower = make_desk()
    data = b"".join(desk.log.read_frames(0, max_bytes=9999, upper=1).batches)
    assert follower.log.append_frames(data, continues=0) == 1
    with pytest.raises(OffsetOutOfRange):
        follower.log.append_frames(data, continues=0)
    assert follower.log.end_offset == 1


def test_each_leader_epoch_ends_where_the_next_begins(desk):
    for epoch in (1, 1, 4, 4, 6):
        desk.append(b"a", epoch=epoch)
    assert desk.log.leader_epoch == 6
    assert [desk.log.end_offset_for_epoch(epoch) for epoch in (1, 2, 4, 6)] == [(1, 2), (1, 2), (4, 4), (6, 5)]


def test_the_frame_says_what_its_batch_is_without_opening_it(desk):
    desk.append(b"a", priority=4)
    desk.append(b"a" * 100, codec=1)
    desk.send(b"a", transactional=True)
    desk.mark(commit=True)
    frames = desk.log.read_frames(0, max_bytes=9999, upper=4).batches
    headers = [check_frame(frame) for frame in frames]
    assert [header.flags for header in headers] == [
        0,
        Flags.COMPRESSED,
        Flags.TRANSACTIONAL,
        Flags.TRANSACTIONAL | Flags.CONTROL | Flags.COMMIT,
    ]
    assert headers[0].priority == 4
    assert headers[0].timestamp_ns == desk.now_ms * 1_000_000


def test_a_batch_of_mixed_lanes_is_indexed_record_by_record(desk):
    lanes = [b"0", b"0", b"3"]
    records = [NewRecord(None, b"v", ((PRIORITY_HEADER, lane),)) for lane in lanes]
    desk.append(b"plain")
    desk.log.append_batch(
        encode_batch(records, now_ms=5), now_ms=5, leader_epoch=0, priority=0, flags=Flags.MIXED_LANES
    )
    runs = desk.log.segments[0].lanes.runs(None, 0)
    assert [tuple(run) for run in runs] == [(2, 0, 1), (0, 1, 2), (3, 3, 1)]


def test_headers_of_the_frame_are_stored_behind_the_batch(desk):
    desk.log.append_batch(desk.batch(b"a"), now_ms=5, leader_epoch=0, headers=b"\x00\x00")
    (frame,) = desk.log.read_frames(0, max_bytes=999, upper=1).batches
    assert check_frame(frame).headers_bytes == 2
    assert desk.values() == [b"a"]

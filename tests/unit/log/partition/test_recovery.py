"""Recovery: what is scanned, what is cut, what is reported and kept."""

from __future__ import annotations

import pytest

from goqueue.codec.batch_decode import decode_records
from goqueue.codec.frame_walk import check_frame
from goqueue.errors import CorruptFrame, InconsistentTopicId
from goqueue.log.inspection.verify import verify_partition
from goqueue.log.partition_log import PartitionLog
from goqueue.log.segment.file_names import CHECKPOINT, LOG, OFFSET_INDEX, PRODUCER_SNAPSHOT, TIME_INDEX
from goqueue.log.state.checkpoint import read_checkpoint, stored_topic_id
from goqueue.testing.disk import Survival

HERE = "logs/orders/0"


def frames(desk, segment=-1):
    """(position, size) of the frames of a segment."""
    return [(position, len(frame)) for position, _, frame in desk.log.segments[segment].frames()]


def test_after_a_clean_stop_nothing_is_scanned(desk):
    desk.append_many(12)
    desk.log.close()
    read_before = desk.files.faults.counts["pread"]
    desk.reopen()
    assert desk.log.recovery.is_clean
    assert desk.log.recovery.scanned_bytes == 0
    assert desk.files.faults.counts["pread"] - read_before == 1  # the checkpoint
    assert desk.log.synced_end == desk.log.end_offset == 12
    assert desk.offsets() == list(range(12))


def test_a_clean_stop_of_an_unchanged_log_writes_nothing(desk):
    desk.append(b"a")
    desk.restart()
    steps = desk.files.faults.steps
    desk.restart()
    assert desk.files.faults.steps == steps


def test_appends_go_on_after_a_clean_stop(desk):
    desk.append_many(7)
    desk.restart()
    desk.append_many(7)
    assert desk.offsets() == list(range(14))
    assert desk.log.segments[-1].index.entries(desk.log.segments[-1].hold().index(OFFSET_INDEX))


def test_after_a_kill_only_what_follows_the_recovery_point_is_scanned(desk):
    desk.append_many(6)
    desk.sync()
    desk.log.checkpoint()
    point = desk.log.segments[-1].size_bytes
    desk.append(b"after")
    desk.kill()
    assert not desk.log.recovery.is_clean
    assert desk.log.recovery.scanned_bytes == desk.log.segments[-1].size_bytes - point
    assert desk.log.recovery.cut_bytes == 0
    assert desk.offsets() == list(range(7))


def test_a_frame_torn_at_any_byte_is_cut_and_appends_go_on_there(desk, make_desk):
    desk.append_many(2, size=10)
    whole = desk.files.tree()[desk.path()]
    last, size = frames(desk)[-1]
    checkpoint = desk.files.read(f"{desk.log.directory}/{CHECKPOINT}")
    for kept in range(size):
        torn = make_desk()
        torn.files.make_dirs(desk.log.directory)
        torn.rewrite(torn.path(), whole[: last + kept])
        torn.files.replace(f"{desk.log.directory}/{CHECKPOINT}", checkpoint)
        torn.reopen()
        assert torn.log.recovery.cut_bytes == kept
        assert torn.log.damage == ()
        assert torn.append(b"next").base_offset == 1
        assert torn.offsets() == [0, 1]


@pytest.mark.parametrize("junk", [b"\0" * 5000, b"GQ\x01" * 50, b"\xff" * 33])
def test_junk_behind_the_last_frame_is_cut(desk, junk):
    desk.append_many(2)
    desk.files.open(desk.path()).append([junk])
    desk.kill()
    assert desk.log.recovery.cut_bytes == len(junk)
    assert desk.log.recovery.cut_where.startswith(desk.path())
    assert desk.offsets() == [0, 1]


def test_damage_before_sound_frames_is_reported_and_kept(desk):
    desk.append_many(5, size=20)
    position, _ = frames(desk)[2]
    desk.files.flip_bit(desk.path(), position + 50)
    damaged = desk.files.tree()[desk.path()]
    desk.kill()
    assert [(one.where, one.position) for one in desk.log.damage] == [(desk.path(), position)]
    assert desk.log.recovery.cut_bytes == 0
    assert desk.files.tree()[desk.path()] == damaged
    assert desk.append(b"next").base_offset == 5
    with pytest.raises(CorruptFrame):
        desk.log.read_batches(2, max_bytes=100, upper=6)
    assert desk.offsets(0, upper=2) == [0, 1]
    assert desk.offsets(3) == [3, 4, 5]


def test_every_flipped_bit_of_a_header_before_sound_frames_is_reported_and_costs_only_its_own_frame(desk, make_desk):
    desk.append_many(3, size=10)
    tree = desk.files.tree()
    position, _ = frames(desk)[1]
    for byte in range(34 + 61):
        other = make_desk()
        other.files.make_dirs(desk.log.directory)
        for path, content in tree.items():
            other.rewrite(path, content)
        other.files.flip_bit(other.path(), position + byte, byte % 8)
        other.reopen()
        assert [one.position for one in other.log.damage] == [position]
        assert (other.log.end_offset, other.offsets(2)) == (3, [2])


def test_several_damaged_frames_are_each_reported(desk):
    desk.append_many(7, size=20)
    positions = [position for position, _ in frames(desk)]
    for number in (1, 2, 5):
        desk.files.flip_bit(desk.path(), positions[number] + 40)
    desk.kill()
    assert [one.position for one in desk.log.damage] == [positions[1], positions[5]]  # the first names two
    assert desk.offsets(0, upper=1) == [0]
    assert desk.offsets(3, upper=5) == [3, 4]
    assert desk.offsets(6) == [6]


def test_damage_in_a_sealed_segment_is_neither_scanned_nor_cut_and_never_served(desk):
    desk.append_many(12)
    desk.sync()
    desk.files.flip_bit(desk.path(), 50)
    sealed = desk.files.tree()[desk.path()]
    desk.kill()
    assert desk.files.tree()[desk.path()] == sealed
    with pytest.raises(CorruptFrame):
        desk.log.read_batches(0, max_bytes=100, upper=12)
    assert desk.offsets(1) == list(range(1, 12))


def test_a_damaged_last_frame_that_was_synced_is_reported_and_its_offset_not_given_again(desk):
    desk.append_many(3)
    desk.sync()
    desk.log.checkpoint()
    position, _ = frames(desk)[-1]
    desk.files.remove(desk.path(0, OFFSET_INDEX))  # so that the segment is scanned from its beginning
    desk.files.flip_bit(desk.path(), position + 50)
    desk.kill()
    assert [one.position for one in desk.log.damage] == [position]
    assert desk.append(b"next").base_offset == 3


def test_without_a_checkpoint_everything_is_scanned_and_nothing_is_lost(desk):
    desk.append_many(12)
    desk.send(b"a", transactional=True)
    before = (desk.read(), desk.log.producers.all(), desk.log.last_stable_offset)
    desk.log.close()
    desk.lose_checkpoint()
    desk.reopen()
    assert not desk.log.recovery.is_clean
    assert desk.log.recovery.scanned_bytes == desk.log.size_bytes
    assert (desk.read(), desk.log.producers.all(), desk.log.last_stable_offset) == before


def test_a_damaged_checkpoint_is_no_checkpoint(desk):
    desk.append_many(12)
    desk.log.close()
    desk.files.flip_bit(f"{desk.log.directory}/{CHECKPOINT}", 30)
    desk.reopen()
    assert desk.log.recovery.scanned_bytes == desk.log.size_bytes
    assert desk.offsets() == list(range(12))


def test_indexes_are_built_again_from_the_log_alone(desk):
    desk.append_many(12)
    desk.log.close()
    indexes = {path: content for path, content in desk.files.tree().items() if "index" in path}
    for path in indexes:
        desk.files.remove(path)
    desk.lose_checkpoint()
    desk.reopen()
    desk.log.close()
    rebuilt = {path: content for path, content in desk.files.tree().items() if "index" in path}
    assert rebuilt == indexes


def test_a_file_that_grew_behind_a_clean_checkpoint_is_scanned(desk):
    desk.append_many(2)
    desk.restart()
    desk.append(b"late")
    desk.kill()
    assert not desk.log.recovery.is_clean
    assert desk.offsets() == [0, 1, 2]


def test_a_frame_inside_a_message_is_not_taken_for_one_of_the_log(desk):
    desk.append(b"first")
    inner = b"".join(desk.log.read_frames(0, max_bytes=999, upper=1).batches)
    forged = bytearray(inner)
    desk.append(b"pad" * 10 + bytes(forged) + b"pad" * 10)
    desk.append(b"third")
    position, size = frames(desk)[1]
    desk.files.flip_bit(desk.path(), position + size - 1)
    desk.kill()
    assert [one.position for one in desk.log.damage] == [position]
    assert desk.offsets(2) == [2]
    assert desk.log.end_offset == 3


def test_a_power_cut_that_takes_a_sealed_segments_end_leaves_a_prefix(desk):
    desk.append_many(3)
    desk.sync()
    desk.append_many(9)  # rolls; the sealed segments are not synced yet
    whole = desk.files.tree()
    cut = whole[desk.path()][:-20]
    desk.rewrite(desk.path(), cut)
    desk.kill()
    assert desk.log.recovery.segments_dropped >= 1
    assert desk.log.damage == ()
    end = desk.log.end_offset
    assert 3 <= end < 8
    assert desk.offsets() == list(range(end))
    assert desk.append(b"next").base_offset == end


def test_a_sealed_segment_cut_short_without_a_checkpoint_is_damage_and_its_offsets_are_not_skipped(desk):
    desk.append_many(12)
    first = desk.log.segments[1].base_offset
    position, _ = frames(desk, 0)[-1]
    desk.log.close()
    desk.rewrite(desk.path(), desk.files.tree()[desk.path()][:position])
    desk.lose_checkpoint()
    desk.reopen()
    (damage,) = desk.log.damage
    assert (damage.where, damage.position) == (desk.path(), position)
    assert desk.log.end_offset == 12
    assert desk.log.read_batches(0, max_bytes=10**6, upper=12).next_offset == first - 1
    with pytest.raises(CorruptFrame, match="missing"):
        desk.log.read_batches(first - 1, max_bytes=100, upper=12)
    assert desk.offsets(first) == list(range(first, 12))


def test_nothing_in_a_new_segment_is_promised_before_the_recovery_point_has_reached_it(desk):
    desk.append_many(3)
    begun = desk.log.begin_sync()
    desk.append_many(9)
    assert len(desk.log.segments) > 1
    begun.run()
    desk.log.end_sync(begun, None)
    assert desk.log.synced_end == 3
    desk.sync()
    assert desk.log.synced_end == 12
    recovery = read_checkpoint(desk.files, desk.log.directory).recovery
    assert recovery.base_offset == desk.log.segments[-1].base_offset


@pytest.mark.parametrize("survival", Survival)
def test_what_was_synced_survives_a_power_cut_with_all_that_travels_with_it(desk, survival):
    desk.send(b"a", transactional=True)
    desk.append(b"b", epoch=3)
    desk.mark(commit=False)
    desk.append_many(9)
    desk.send(b"c", sequence=1, transactional=True)
    desk.sync()
    before = (
        desk.read(),
        desk.log.producers.all(),
        desk.log.aborted_between(0, 99),
        desk.log.end_offset_for_epoch(0),
        desk.log.last_stable_offset,
    )
    desk.crash(survival)
    assert desk.log.damage == ()
    after = (
        desk.read(),
        desk.log.producers.all(),
        desk.log.aborted_between(0, 99),
        desk.log.end_offset_for_epoch(0),
        desk.log.last_stable_offset,
    )
    assert after == before
    assert desk.send(b"c", sequence=1, transactional=True).duplicate


@pytest.mark.parametrize("others", [0, 1])
def test_a_producers_batch_that_a_power_cut_took_is_not_taken_for_stored(desk, others):
    desk.send(b"a")
    desk.sync()
    desk.send(b"b", sequence=1)
    desk.log.checkpoint()  # which knows of the second
    desk.crash(Survival.NOTHING)
    assert [one.last_sequence for one in desk.log.producers.all()] == [0]
    for _ in range(others):
        desk.append(b"in its place")
        desk.kill()
    assert not desk.send(b"b", sequence=1).duplicate
    assert desk.values() == [b"a", b"in its place", b"b"][:: 1 if others else 2]


def test_a_transaction_whose_first_records_are_deleted_is_still_known_after_a_power_cut(desk):
    desk.send(b"a", transactional=True)
    desk.append_many(6)
    desk.log.delete_before(desk.log.segments[1].base_offset)
    desk.log.checkpoint()
    desk.crash(Survival.NOTHING)
    assert [one.open_first_offset for one in desk.log.producers.all()] == [0]
    assert desk.log.last_stable_offset == desk.log.start_offset


def test_lost_snapshots_are_replayed_from_the_log(desk):
    desk.send(b"a")
    desk.append_many(9)
    desk.send(b"b", sequence=1)
    before = desk.log.producers.all()
    desk.log.close()
    for name in desk.names(PRODUCER_SNAPSHOT):
        desk.files.remove(f"{desk.log.directory}/{name}")
    desk.lose_checkpoint()
    desk.reopen()
    assert desk.log.producers.all() == before


def test_a_log_of_another_topic_is_not_opened(desk):
    desk.append(b"a")
    desk.log.close()
    assert stored_topic_id(desk.files, desk.log.directory) == desk.log.topic_id
    assert stored_topic_id(desk.files, "logs/none/0") is None
    with pytest.raises(InconsistentTopicId):
        PartitionLog.open(
            desk.files, desk.log.directory, settings=desk.settings, topic_id=type(desk.log.topic_id)(int=8), now_ms=1
        )


def test_files_of_a_replacement_that_a_crash_interrupted_are_removed(desk):
    desk.append(b"a")
    desk.rewrite(f"{desk.log.directory}/{CHECKPOINT}.tmp", b"half")
    desk.kill()
    assert desk.names(".tmp") == []


def test_the_high_watermark_and_start_are_remembered(desk):
    desk.append_many(12)
    desk.log.delete_before(4)
    desk.log.close()
    log = PartitionLog.open(
        desk.files, desk.log.directory, settings=desk.settings, topic_id=desk.log.topic_id, now_ms=1
    )
    assert (log.start_offset, log.high_watermark, log.end_offset) == (4, 12, 12)


def test_a_start_beyond_everything_that_survived_is_kept(desk):
    desk.append_many(5)
    desk.log.delete_before(4)
    desk.crash(Survival.NOTHING)
    assert (desk.log.start_offset, desk.log.end_offset) == (4, 4)
    assert desk.append(b"next").base_offset == 4
    desk.kill()
    assert desk.offsets() == [4]


def test_timestamps_that_the_time_index_had_not_noted_are_not_forgotten(desk):
    desk.append(b"a", stamps=[10])
    desk.append(b"b", stamps=[5000])  # the largest, and too near to the first to be noted
    desk.sync()
    desk.log.checkpoint()
    for stamp in range(20, 30):
        desk.append(b"c" * 40, stamps=[stamp])
    desk.kill()
    assert desk.log.offset_for_timestamp(1000, upper=12).offset == 1
    desk.restart()
    assert desk.log.offset_for_timestamp(1000, upper=12).offset == 1
    assert desk.names(TIME_INDEX)


@pytest.mark.parametrize("end", ["kill", "crash"])
@pytest.mark.parametrize("synced", range(8))
def test_after_a_kill_every_entry_of_the_time_index_is_true_of_its_frame(desk, synced, end):
    """The checkpoint may know of a larger timestamp than the frames before the recovery point have."""
    for number in range(8):
        if number == synced:
            desk.sync()
        desk.append(b"a" * 20, b"b" * 20, stamps=[100 + 2 * number, 101 + 2 * number])
    desk.log.checkpoint()
    getattr(desk, end)()
    for number in range(10, 20):
        desk.append(b"c" * 40, stamps=[100 + number])
    # A lookup by time finds what a walk over the records finds, also with the index as it is written now.
    upper = desk.log.end_offset
    stamps = [one.timestamp_ms for batch in desk.read() for one in decode_records(batch)]
    for wanted in range(100, 122):
        found = desk.log.offset_for_timestamp(wanted, upper=upper)
        assert (found.offset if found else None) == next((at for at, one in enumerate(stamps) if one >= wanted), None)
    desk.log.close()
    report = verify_partition(desk.files, HERE)
    assert [one for one in report.index_faults if one.file.endswith(TIME_INDEX)] == []
    assert report.is_sound or end == "crash"


def test_a_frame_whose_offset_goes_back_is_damage(desk):
    desk.append(b"a")
    frame = b"".join(desk.log.read_frames(0, max_bytes=999, upper=1).batches)
    assert check_frame(frame).offset == 0
    desk.append(b"b")
    desk.files.open(desk.path()).append([frame])
    desk.kill()
    assert desk.log.end_offset == 2
    assert desk.log.recovery.cut_bytes == len(frame)


@pytest.mark.parametrize("end", ["close", "abandon"])
def test_a_last_segment_whose_file_is_gone_is_damage_and_its_offsets_are_not_given_out_again(desk, end):
    desk.append_many(12)
    desk.sync()
    desk.log.checkpoint()
    getattr(desk.log, end)()
    last = desk.names(LOG)[-1]
    desk.files.remove(f"{HERE}/{last}")
    log = desk.reopen()
    base = int(last.removesuffix(LOG))
    (damage,) = log.damage
    assert damage.reason == f"offsets {base} to 11 are missing: {last} was synced and is gone"
    assert log.end_offset == 12
    desk.append(b"behind")
    assert desk.offsets(12) == [12]


@pytest.mark.parametrize("end", ["close", "abandon"])
def test_a_compacted_log_whose_files_are_all_gone_is_damaged(desk, end):
    """Compaction removes segments, but never the last one. Without the word on it nobody would copy what is missing."""
    desk.reopen(segment_bytes=1 << 20, cleanup_delete=False, cleanup_compact=True)
    desk.append_many(12)
    desk.sync()
    desk.log.checkpoint()
    getattr(desk.log, end)()
    (only,) = desk.names(LOG)
    desk.files.remove(f"{HERE}/{only}")
    log = desk.reopen()
    (damage,) = log.damage
    assert damage.reason == f"offsets 0 to 11 are missing: {only} was synced and is gone"
    assert not log.is_dense
    log.reset_to(0)
    assert log.damage == ()
    desk.append(b"copied")
    assert desk.offsets(0) == [0]

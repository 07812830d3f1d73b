"""Repairing: indexes come back from the frames, and nothing is cut that nobody asked to cut."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.unit.codec.builders import framed, some_batch

from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.markers import encode_marker
from goqueue.errors import CorruptFrame
from goqueue.log.inspection.repair import repair_partition
from goqueue.log.inspection.verify import verify_partition
from goqueue.log.partition_log import PartitionLog
from goqueue.log.settings import LogSettings
from goqueue.log.state.checkpoint import read_checkpoint
from goqueue.records import NewRecord
from goqueue.testing.memory_files import MemoryFiles

DIRECTORY = "logs/t/0"
TOPIC_ID = UUID(int=5)
NOW_MS = 1_700_000_000_000
SETTINGS = LogSettings(segment_bytes=9000, retention_ms=-1)
PER_BATCH = 3


def opened(files: MemoryFiles) -> PartitionLog:
    log = PartitionLog.open(files, DIRECTORY, settings=SETTINGS, topic_id=TOPIC_ID, now_ms=NOW_MS)
    log.high_watermark = log.end_offset
    return log


def a_log(batches: int = 160) -> MemoryFiles:
    """Several segments of batches of three records each, closed in order."""
    files = MemoryFiles()
    log = opened(files)
    for number in range(batches):
        log.append_batch(some_batch(PER_BATCH), now_ms=NOW_MS + number, leader_epoch=2, priority=number % 5)
    log.close()
    return files


def offsets_read(log: PartitionLog, start: int = 0) -> list[int]:
    found: list[int] = []
    offset = max(start, log.start_offset)
    while offset < log.end_offset:
        read = log.read_batches(offset, max_bytes=1000, upper=log.end_offset)
        found += [record.offset for batch in read.batches for record in decode_records(batch)]
        offset = read.next_offset
    return found


def logs_of(files: MemoryFiles) -> list[str]:
    return sorted(path for path in files.tree() if path.endswith(".log"))


def repair(files: MemoryFiles, *, cut: bool = False):  # type: ignore[no-untyped-def]
    return repair_partition(files, DIRECTORY, cut_damaged_tail=cut, now_ms=NOW_MS)


def last_frame_position(files: MemoryFiles, path: str) -> int:
    base = int(path[-24:-4])
    segment = next(one for one in verify_partition(files, DIRECTORY).segments if one.base_offset == base)
    frame_bytes = segment.size_bytes // segment.frames
    return segment.size_bytes - frame_bytes


def test_a_sound_log_stays_what_it_was() -> None:
    files = a_log()
    before = {path: data for path, data in files.tree().items() if path.endswith(".log")}
    done = repair(files)
    assert (done.cut, done.damage, done.end_offset) == (None, (), 480)
    assert {path: data for path, data in files.tree().items() if path.endswith(".log")} == before
    assert verify_partition(files, DIRECTORY).is_sound
    assert offsets_read(opened(files)) == list(range(480))


def test_every_derived_file_can_be_lost_or_rotten_and_comes_back() -> None:
    files = a_log()
    whole = {path: data for path, data in files.tree().items() if "index" in path}
    assert len(whole) == 10
    for number, path in enumerate(sorted(whole)):
        if number % 2:
            files.remove(path)
        else:
            files.replace(path, b"\x00\xff" * 40)
    assert not verify_partition(files, DIRECTORY).is_sound
    repair(files)
    assert verify_partition(files, DIRECTORY).is_sound
    assert {path: data for path, data in files.tree().items() if "index" in path} == whole


def test_a_rotten_snapshot_goes_and_sound_ones_stay() -> None:
    files = a_log()
    snapshots = sorted(path for path in files.tree() if path.endswith(".snapshot"))
    assert len(snapshots) == 2
    files.flip_bit(snapshots[1], 8)
    repair(files)
    assert verify_partition(files, DIRECTORY).is_sound
    assert files.exists(snapshots[0])
    assert not files.exists(snapshots[1])


def test_start_topic_and_epochs_of_the_log_survive() -> None:
    files = a_log()
    log = opened(files)
    log.delete_before(50)
    log.close()
    repair(files)
    checkpoint = read_checkpoint(files, DIRECTORY)
    assert checkpoint is not None
    assert (checkpoint.topic_id, checkpoint.start_offset) == (TOPIC_ID, 50)
    log = opened(files)
    assert (log.start_offset, log.end_offset, log.leader_epoch) == (50, 480, 2)
    assert log.recovery.is_clean


def test_a_log_whose_checkpoint_is_rotten_is_left_for_whoever_owns_the_topic() -> None:
    files = a_log()
    files.replace(f"{DIRECTORY}/partition.ckpt", b"rubbish")
    repair(files)
    assert read_checkpoint(files, DIRECTORY) is None
    log = opened(files)
    assert log.topic_id == TOPIC_ID
    assert offsets_read(log) == list(range(480))


def test_producers_and_aborted_transactions_are_derived_again() -> None:
    files = MemoryFiles()
    log = opened(files)
    for number in range(40):
        batch = encode_batch(
            [NewRecord(b"k", b"v" * 50)],
            producer_id=9,
            producer_epoch=1,
            base_sequence=number,
            transactional=True,
            now_ms=NOW_MS,
        )
        log.append_batch(batch, now_ms=NOW_MS, leader_epoch=0)
    marker = encode_marker(False, producer_id=9, producer_epoch=1, coordinator_epoch=3, now_ms=NOW_MS)
    log.append_batch(marker, now_ms=NOW_MS, leader_epoch=0, marker=True)
    log.high_watermark = log.end_offset
    aborted, producers = log.aborted_between(0, 41), log.producers.all()
    log.close()
    repair(files)
    log = opened(files)
    assert log.aborted_between(0, 41) == aborted != []
    assert log.producers.all() == producers != []


def test_a_damaged_end_is_not_touched_without_being_told() -> None:
    files = a_log()
    path = logs_of(files)[-1]
    files.flip_bit(path, last_frame_position(files, path) + 50)
    before = files.tree()
    done = repair(files)
    assert files.tree() == before
    assert done.end_offset is None
    assert not done.is_cut
    assert done.cut is not None
    assert (done.cut.first_offset, done.cut.end_offset, done.cut.damaged_records) == (477, 480, 3)
    assert len(done.damage) == 1


def test_a_damaged_end_is_cut_when_told_and_the_loss_is_exact() -> None:
    files = a_log()
    path = logs_of(files)[-1]
    position = last_frame_position(files, path)
    size = files.size(path)
    files.flip_bit(path, position + 50)
    done = repair(files, cut=True)
    assert done.is_cut
    assert done.cut is not None
    assert (done.cut.file, done.cut.position, done.cut.size_bytes) == (path, position, size - position)
    assert (done.cut.offsets, done.cut.sound_frames, done.cut.damaged_records) == ("offsets 477 to 479", 0, 3)
    assert (done.damage, done.end_offset) == ((), 477)
    assert verify_partition(files, DIRECTORY).is_sound
    log = opened(files)
    assert log.append_batch(some_batch(1), now_ms=NOW_MS, leader_epoch=3).base_offset == 477
    assert offsets_read(log) == list(range(478))


def test_sound_frames_behind_the_damage_are_counted_among_what_a_cut_takes() -> None:
    files = a_log()
    path = logs_of(files)[-1]
    segment = verify_partition(files, DIRECTORY).segments[-1]
    assert segment.frames >= 4
    frame_bytes = segment.size_bytes // segment.frames
    files.flip_bit(path, frame_bytes + 60)
    kept = segment.base_offset + PER_BATCH
    untold = repair(files)
    assert untold.end_offset == 480
    assert [damage.first_offset for damage in untold.damage] == [kept]
    log = opened(files)
    assert offsets_read(log, kept + PER_BATCH)[-1] == 479
    with pytest.raises(CorruptFrame):
        log.read_batches(kept, max_bytes=10, upper=480)
    log.close()
    told = repair(files, cut=True)
    assert told.cut is not None
    assert told.cut.sound_frames == segment.frames - 2
    assert told.cut.sound_records == PER_BATCH * (segment.frames - 2)
    assert (told.cut.offsets, told.end_offset, told.damage) == (f"offsets {kept} to 479", kept, ())
    assert offsets_read(opened(files)) == list(range(kept))


def test_damage_in_a_sealed_segment_is_never_cut() -> None:
    files = a_log()
    path = logs_of(files)[1]
    size = files.size(path)
    files.flip_bit(path, size // 2)
    done = repair(files, cut=True)
    assert done.cut is None
    assert len(done.damage) == 1
    assert files.size(path) == size
    assert verify_partition(files, DIRECTORY).damage == list(done.damage)
    assert opened(files).end_offset == 480


@pytest.mark.parametrize("keep", [0, 1, 33, 34, 90])
def test_a_torn_frame_at_the_end_is_cut_when_told(keep: int) -> None:
    files = a_log()
    files.open(logs_of(files)[-1]).append([framed(some_batch(1), offset=480)[:keep]])
    done = repair(files, cut=True)
    assert done.is_cut == bool(keep)
    assert done.end_offset == 480
    assert verify_partition(files, DIRECTORY).is_sound


def test_a_log_that_never_got_a_record_needs_no_repair() -> None:
    files = MemoryFiles()
    files.make_dirs(DIRECTORY)
    assert repair(files).end_offset == 0

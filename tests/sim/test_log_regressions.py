"""Faults that the state machine found in the log, each as the shortest story that shows it."""

from __future__ import annotations

from uuid import UUID

import pytest

from goqueue.codec.batch import parse_batch_header
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.markers import encode_marker
from goqueue.errors import CorruptFrame, DiskFull
from goqueue.log.partition_log import PartitionLog
from goqueue.log.settings import LogSettings
from goqueue.log.state.checkpoint import stored_topic_id
from goqueue.records import Appended, NewRecord
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import Survival
from goqueue.testing.memory_files import MemoryFiles

DIRECTORY = "logs/t/0"
SETTINGS = LogSettings(cleanup_compact=True)
PRODUCER = 7
SEEDS = range(40)


class Disk:
    """A log on a disk that crashes."""

    def __init__(self, seed: int = 0) -> None:
        self.clock = ManualClock()
        self.files = MemoryFiles(seed=seed)
        self.log = self.open()

    def open(self) -> PartitionLog:
        self.log = PartitionLog.open(
            self.files, DIRECTORY, settings=SETTINGS, topic_id=UUID(int=1), now_ms=self.clock.now_ms()
        )
        self.log.high_watermark = self.log.end_offset
        return self.log

    def crash(self, survival: Survival = Survival.SOME, *, holes: bool = False) -> PartitionLog:
        self.files = self.files.crash(survival, holes=holes)
        return self.open()

    def kill(self) -> PartitionLog:
        self.files = self.files.kill()
        return self.open()

    def append(self, value: bytes = b"", **producer: int | bool) -> Appended:
        batch = encode_batch([NewRecord(b"k", value)], now_ms=self.clock.now_ms(), **producer)
        return self.write(batch)

    def end_transaction(self, *, commit: bool) -> Appended:
        marker = encode_marker(
            commit, producer_id=PRODUCER, producer_epoch=0, coordinator_epoch=0, now_ms=self.clock.now_ms()
        )
        return self.write(marker, marker=True)

    def write(self, batch: bytes, *, marker: bool = False) -> Appended:
        appended = self.log.append_batch(batch, now_ms=self.clock.now_ms(), leader_epoch=0, marker=marker)
        self.log.high_watermark = self.log.end_offset
        return appended

    def sync(self) -> None:
        begun = self.log.begin_sync()
        assert begun is not None
        begun.run()
        self.log.end_sync(begun, None)

    def producers(self) -> list[int]:
        return [one.producer_id for one in self.log.producers.all()]

    def aborted(self) -> list[tuple[int, int]]:
        found = self.log.aborted_between(self.log.start_offset, self.log.end_offset)
        return [(one.first_offset, one.last_offset) for one in found]


def test_indexes_that_a_roll_wrote_are_built_again_if_the_power_cut_took_them() -> None:
    for seed in SEEDS:
        disk = Disk(seed)
        disk.append(producer_id=PRODUCER, producer_epoch=0, base_sequence=0, transactional=True)
        disk.end_transaction(commit=False)
        disk.sync()
        disk.log.checkpoint()
        disk.log.roll()
        disk.crash()
        assert disk.aborted() == [(0, 1)]


def test_an_aborted_transaction_stays_aborted_between_the_recovery_point_and_the_checkpoint() -> None:
    disk = Disk()
    disk.append(producer_id=PRODUCER, producer_epoch=0, base_sequence=0, transactional=True)
    disk.end_transaction(commit=False)
    disk.log.checkpoint()
    disk.kill()
    assert disk.aborted() == [(0, 1)]


def test_a_transaction_that_ended_before_the_crash_holds_nobody_back_after_it() -> None:
    disk = Disk()
    disk.append(producer_id=PRODUCER, producer_epoch=0, base_sequence=0, transactional=True)
    disk.log.roll()
    disk.end_transaction(commit=False)
    disk.log.checkpoint()
    disk.kill()
    assert disk.log.last_stable_offset == disk.log.end_offset == 2


def test_a_lost_batch_that_the_checkpoint_remembers_is_not_taken_for_stored_once_another_has_its_offset() -> None:
    """By way of the disk: what remembers producers survived, what they wrote did not."""
    lost = 0
    for seed in range(100):
        disk = Disk(seed)
        disk.append(b"first")
        disk.sync()
        disk.append(b"lost", producer_id=PRODUCER, producer_epoch=0, base_sequence=0)
        disk.log.checkpoint()
        disk.crash()
        if disk.log.end_offset > 1:
            continue
        lost += 1
        disk.append(b"another")
        disk.kill()
        retried = disk.append(b"lost", producer_id=PRODUCER, producer_epoch=0, base_sequence=0)
        assert not retried.duplicate
    assert lost > 20


def test_a_lost_batch_that_a_snapshot_remembers_is_not_taken_for_stored_once_another_has_its_offset() -> None:
    lost = 0
    for seed in range(100):
        disk = Disk(seed)
        disk.append(b"lost", producer_id=PRODUCER, producer_epoch=0, base_sequence=0)
        disk.log.roll()
        disk.crash()
        if disk.log.end_offset > 0:
            continue
        lost += 1
        disk.append(b"another")
        disk.sync()
        disk.append(b"lost as well")
        disk.log.checkpoint()
        disk.crash(Survival.NOTHING)
        assert disk.log.end_offset == 1
        assert disk.producers() == []
    assert lost > 20


def test_a_torn_index_entry_does_not_shift_those_written_behind_it() -> None:
    for seed in SEEDS:
        disk = Disk(seed)
        disk.append(b"x" * 200)
        disk.log.roll()
        disk.crash()
        disk.clock.advance(seconds=60)
        appended = disk.append(b"late")
        disk.log.roll()
        found = disk.log.offset_for_timestamp(disk.clock.now_ms(), upper=disk.log.end_offset)
        assert found is not None
        assert found.offset == appended.base_offset


def test_a_log_that_starts_behind_all_it_lost_is_whole_after_every_restart() -> None:
    disk = Disk()
    disk.append()
    disk.append()
    disk.log.delete_before(1)
    disk.crash(Survival.NOTHING)
    for restart in (disk.kill, disk.kill):
        log = restart()
        assert (log.start_offset, log.end_offset, log.high_watermark, log.synced_end) == (1, 1, 1, 1)
    assert disk.append().base_offset == 1


def test_a_log_whose_first_append_failed_says_whose_it_is_before_the_second() -> None:
    disk = Disk()
    disk.files.faults.capacity_bytes = 0
    with pytest.raises(DiskFull):
        disk.append(b"no room")
    disk.files.faults.capacity_bytes = None
    disk.kill()
    disk.append(b"room")
    assert stored_topic_id(disk.files, DIRECTORY) == disk.log.topic_id


def test_frames_written_after_an_interrupted_truncation_are_not_cut_with_it() -> None:
    for step in range(1, 12):
        disk = Disk(step)
        disk.append(b"a")
        disk.append(b"b")
        disk.sync()
        disk.files.faults.crash_at_step = disk.files.faults.steps + step
        try:
            disk.log.truncate_to(1)
        except BaseException:  # noqa: BLE001 - the power cut, wherever it comes
            disk.crash()
        appended = disk.append(b"c")
        disk.sync()
        disk.kill()
        assert disk.log.end_offset == appended.last_offset + 1


@pytest.mark.parametrize("commit", [True, False])
def test_compaction_does_not_obey_a_marker_that_a_power_cut_may_still_take(commit: bool) -> None:
    """A commit lets newer records replace older ones, an abort lets records go; both may yet be undone."""
    disk = Disk()
    disk.append(b"older")
    disk.append(b"newer", producer_id=PRODUCER, producer_epoch=0, base_sequence=0, transactional=True)
    disk.sync()
    disk.log.roll()
    disk.sync()
    disk.end_transaction(commit=commit)
    disk.log.compact(disk.clock.now_ms())
    log = disk.crash(Survival.NOTHING)
    assert log.end_offset == 2
    read = log.read_batches(0, max_bytes=10_000, upper=2)
    assert [record.value for batch in read.batches for record in decode_records(batch)] == [b"older", b"newer"]


def test_compaction_obeys_a_marker_that_is_synced() -> None:
    disk = Disk()
    disk.append(b"older")
    disk.append(b"newer", producer_id=PRODUCER, producer_epoch=0, base_sequence=0, transactional=True)
    disk.log.roll()
    disk.end_transaction(commit=True)
    disk.sync()
    disk.log.compact(disk.clock.now_ms())
    read = disk.crash(Survival.NOTHING).read_batches(0, max_bytes=10_000, upper=2)
    assert [record.value for batch in read.batches for record in decode_records(batch)] == [b"newer"]


def test_pages_written_back_out_of_order_take_no_synced_frame_and_invent_none() -> None:
    for seed in range(150):
        disk = Disk(seed)
        written = {}
        for number in range(4):
            written[disk.append(bytes([65 + number]) * 3000).base_offset] = number
        disk.sync()
        for number in range(4, 10):
            written[disk.append(bytes([65 + number]) * 3000).base_offset] = number
        log = disk.crash(holes=True)
        assert log.end_offset >= 4
        readable = set()
        for offset in range(log.end_offset):
            try:
                read = log.read_batches(offset, max_bytes=1, upper=log.end_offset)
            except CorruptFrame:
                continue
            for batch in read.batches:
                base = parse_batch_header(batch).base_offset
                assert bytes([65 + written[base]]) * 3000 in bytes(batch)
                readable.add(base)
        assert readable >= {0, 1, 2, 3}
        # Whatever is unsound is either cut or said to be damaged, never silently skipped.
        assert readable == set(range(log.end_offset)) or log.damage
        appended = disk.append(b"onwards")
        read = log.read_batches(appended.base_offset, max_bytes=1, upper=log.end_offset)
        assert b"onwards" in bytes(read.batches[0])

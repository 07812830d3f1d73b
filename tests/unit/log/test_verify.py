"""Verifying: every damaged byte is found and named, and what lies behind it is still read."""

from __future__ import annotations

import struct

import pytest
from tests.unit.codec.builders import framed, some_batch, with_fields

from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.frame import Flags
from goqueue.log.inspection.verify import Damage, SoundFrame, verify_partition, verify_segment, walk_segment
from goqueue.records import NewRecord
from goqueue.testing.memory_files import MemoryFiles

DIRECTORY = "logs/t/0"


def segment_of(frames: list[bytes], base: int = 0, files: MemoryFiles | None = None) -> MemoryFiles:
    files = files or MemoryFiles()
    files.make_dirs(DIRECTORY)
    file = files.open(f"{DIRECTORY}/{base:020d}.log", create=True)
    file.append([b"".join(frames)])
    return files


def ten_frames() -> list[bytes]:
    """Ten frames of three records each, offsets 0 to 29."""
    return [framed(some_batch(3), offset=3 * n, priority=n % 5) for n in range(10)]


def found_in(files: MemoryFiles, base: int = 0) -> list[SoundFrame | Damage]:
    path = f"{DIRECTORY}/{base:020d}.log"
    return list(walk_segment(files.open(path), path, base))


def test_a_sound_segment_is_counted_by_frames_records_lanes_and_times() -> None:
    control = framed(some_batch(1), offset=30, flags=Flags.CONTROL)
    mixed = framed(some_batch(1), offset=31, flags=Flags.MIXED_LANES)
    seen: list[int] = []
    report = verify_segment(segment_of([*ten_frames(), control, mixed]), DIRECTORY, 0, progress=seen.append)
    assert (report.frames, report.records, report.base_offset, report.end_offset) == (12, 32, 0, 32)
    assert report.lanes == [2, 2, 2, 2, 2, 1]
    assert report.control_frames == 1
    assert report.first_append_ms == report.last_append_ms == report.max_timestamp_ms == 1_700_000_000_000
    assert (report.damage, report.index_faults) == ([], [])
    assert sum(seen) == report.size_bytes


def test_every_flipped_bit_of_a_frame_in_the_middle_is_named_with_its_offsets() -> None:
    frames = ten_frames()
    before = sum(map(len, frames[:4]))
    for bit in range(0, len(frames[4]) * 8, 7):
        damaged = bytearray(frames[4])
        damaged[bit // 8] ^= 1 << (bit % 8)
        found = found_in(segment_of([*frames[:4], bytes(damaged), *frames[5:]]))
        (damage,) = [each for each in found if isinstance(each, Damage)]
        assert (damage.position, damage.size_bytes) == (before, len(frames[4]))
        assert (damage.first_offset, damage.next_offset, damage.offsets) == (12, 15, "offsets 12 to 14")
        assert [each.header.offset for each in found if isinstance(each, SoundFrame)] == [0, 3, 6, 9, *range(15, 30, 3)]


def test_damage_at_the_very_beginning_hides_nothing_behind_it() -> None:
    frames = ten_frames()
    found = found_in(segment_of([b"\0" * 7 + frames[0][7:], *frames[1:]]))
    assert isinstance(found[0], Damage)
    assert found[0].offsets == "offsets 0 to 2"
    assert len(found) == 10


@pytest.mark.parametrize("keep", [1, 33, 34, 80, 94, 95, 120])
def test_a_torn_last_frame_is_damage_to_the_end(keep: int) -> None:
    frames = ten_frames()
    found = found_in(segment_of([*frames[:-1], frames[-1][:keep]]))
    damage = found[-1]
    assert isinstance(damage, Damage)
    assert (damage.size_bytes, damage.first_offset, damage.next_offset) == (keep, 27, None)
    assert damage.offsets == "offsets from 27 on"
    assert (damage.claimed is not None) == (keep >= 95)


def test_a_damaged_header_still_says_what_it_held_when_it_can_be_believed() -> None:
    frames = ten_frames()
    broken = bytearray(frames[9])
    broken[-1] ^= 1
    damage = found_in(segment_of([*frames[:9], bytes(broken)]))[-1]
    assert isinstance(damage, Damage)
    assert damage.claimed is not None
    assert (damage.claimed.count, damage.claimed.last_offset) == (3, 29)


def test_a_damaged_header_that_names_another_offset_is_not_believed() -> None:
    frames = ten_frames()
    astray = bytearray(framed(some_batch(3), offset=99))
    astray[-1] ^= 1
    damage = found_in(segment_of([*frames, bytes(astray)]))[-1]
    assert isinstance(damage, Damage)
    assert damage.claimed is None


def test_a_hole_of_zeros_is_one_damage_however_many_frames_it_swallowed() -> None:
    frames = ten_frames()
    found = found_in(segment_of([*frames[:2], bytes(sum(map(len, frames[2:8]))), *frames[8:]]))
    (damage,) = [each for each in found if isinstance(each, Damage)]
    assert damage.offsets == "offsets 6 to 23"
    assert len(found) == 5


def test_a_frame_inside_a_message_is_not_taken_for_one_of_ours() -> None:
    inner = framed(some_batch(1), offset=50)
    outer = bytearray(framed(encode_batch([NewRecord(None, inner)], now_ms=1)))
    outer[-1] ^= 1
    following = framed(some_batch(1), offset=1)
    found = found_in(segment_of([bytes(outer), following]))
    assert [type(each) for each in found] == [Damage, SoundFrame]
    assert found[0].size_bytes == len(outer)


def test_a_batch_whose_own_checksum_is_wrong_is_damage_though_its_frame_is_whole() -> None:
    batch = bytearray(some_batch(2))
    batch[-1] ^= 1
    found = found_in(segment_of([framed(bytes(batch)), framed(some_batch(1), offset=2)]))
    assert isinstance(found[0], Damage)
    assert "checksum" in found[0].reason
    assert isinstance(found[1], SoundFrame)


def test_an_offset_that_goes_back_is_damage() -> None:
    frames = ten_frames()
    found = found_in(segment_of([frames[0], frames[1], frames[1], frames[2]]))
    assert [type(each) for each in found] == [SoundFrame, SoundFrame, Damage, SoundFrame]
    assert isinstance(found[2], Damage)
    assert found[2].offsets == "no offsets"


def test_missing_frames_are_found_within_a_segment_and_between_two() -> None:
    frames = ten_frames()
    files = segment_of([*frames[:2], *frames[3:5]])
    segment_of(frames[8:], base=24, files=files)
    report = verify_partition(files, DIRECTORY)
    assert [(damage.file[-8:], damage.offsets) for damage in report.damage] == [
        ("0000.log", "offsets 6 to 8"),
        ("0024.log", "offsets 15 to 23"),
    ]
    assert not report.is_sound


def test_gaps_are_no_damage_in_a_log_that_was_compacted() -> None:
    frames = ten_frames()
    files = segment_of([*frames[:2], *frames[3:5]])
    files.replace(f"{DIRECTORY}/compaction.state", b"")
    assert verify_partition(files, DIRECTORY).is_sound


def test_thinned_batches_are_sound() -> None:
    sparse = framed(with_fields(some_batch(2), last_offset_delta=9))
    assert verify_partition(segment_of([sparse, framed(some_batch(1), offset=10)]), DIRECTORY).is_sound


def test_an_index_entry_that_names_no_frame_is_told() -> None:
    frames = ten_frames()
    files = segment_of(frames)
    stem = f"{DIRECTORY}/{0:020d}"
    third = sum(map(len, frames[:3]))
    files.replace(f"{stem}.index", struct.pack(">II", 9, third))
    files.replace(f"{stem}.timeindex", struct.pack(">qI", 1_700_000_000_000, 0))
    assert verify_partition(files, DIRECTORY).is_sound
    files.replace(f"{stem}.index", struct.pack(">II", 9, third + 1))
    files.replace(f"{stem}.timeindex", struct.pack(">qI", 5, 3))
    faults = verify_partition(files, DIRECTORY).index_faults
    assert [fault.file for fault in faults] == [f"{stem}.index", f"{stem}.timeindex"]


@pytest.mark.parametrize("name", ["partition.ckpt", f"{0:020d}.snapshot", f"{0:020d}.laneindex", f"{0:020d}.txnindex"])
def test_a_derived_file_that_fails_its_checksum_is_told(name: str) -> None:
    files = segment_of(ten_frames())
    files.replace(f"{DIRECTORY}/{name}", b"rubbish" * 20)
    report = verify_partition(files, DIRECTORY)
    assert [fault.file for fault in report.index_faults] == [f"{DIRECTORY}/{name}"]
    assert report.damage == []


def test_junk_of_any_kind_is_damage_and_nothing_else() -> None:
    for junk in (b"", b"x", b"GQ\x01" * 50, bytes(500), framed(some_batch(1))[:34] * 9):
        found = found_in(segment_of([junk]))
        assert all(isinstance(each, Damage) for each in found)
        assert sum(each.size_bytes for each in found) == len(junk)


def test_a_producer_snapshot_that_a_power_cut_left_empty_is_none_and_a_torn_one_is_a_fault() -> None:
    files = segment_of(ten_frames())
    files.open(f"{DIRECTORY}/{0:020d}.snapshot", create=True)
    assert verify_partition(files, DIRECTORY).faults == []
    files.open(f"{DIRECTORY}/{0:020d}.snapshot").append([b"torn"])
    assert len(verify_partition(files, DIRECTORY).faults) == 1

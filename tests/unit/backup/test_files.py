"""Files of a backup: hashed behind their checksums, and every kind of damage is told with the file's name."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.codec.builders import NOW_MS, framed

from goqueue.backup.files import Damaged, Piece, copy_file, hash_of, measure, restore_file, verify_file
from goqueue.backup.manifest import BackupUnreadable, LogFile, Manifest
from goqueue.backup.store import BackupStore
from goqueue.codec.batch_encode import encode_batch
from goqueue.records import NewRecord

NAME = "logs/orders/0/00000000000000000000.log"


def frame(offset: int, value: bytes = bytes(10)) -> bytes:
    return framed(encode_batch([NewRecord(None, value)], now_ms=NOW_MS), offset=offset)


def segment(frames: int) -> bytes:
    return b"".join(frame(offset) for offset in range(frames))


def stored(home: Path, content: bytes, *, is_segment: bool = True, is_newest: bool = False) -> LogFile:
    """The file as a backup in `home / "store"` has it."""
    source = home / "data" / NAME
    source.parent.mkdir(parents=True)
    source.write_bytes(content)
    piece = Piece(str(home / "data"), NAME, len(content), 0, is_segment, is_newest)
    return copy_file(piece, str(home / "store"))


def verified(home: Path, file: LogFile, content: bytes) -> str | None:
    """What is told when the stored object has this content."""
    BackupStore(home / "store").object_path(file.hash).write_bytes(content)
    return verify_file(file, str(home / "store"))


def test_nobody_but_the_owner_reads_the_messages_in_a_backup_and_in_what_is_restored(tmp_path: Path) -> None:
    previous = os.umask(0o022)
    try:
        file = stored(tmp_path, segment(3))
        store = BackupStore(tmp_path / "store")
        store.write(Manifest("one", 0, [file], "broker"))
        restore_file([file], str(tmp_path / "store"), str(tmp_path / "restored"), None)
    finally:
        os.umask(previous)

    made = [path for folder in ("store", "restored") for path in (tmp_path / folder).rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in made if path.is_file()} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in made if path.is_dir()} == {0o700}


@given(st.lists(st.sampled_from([1, 1_000, 100_000, 300_000]), max_size=6))
def test_the_hash_behind_the_checksums_is_that_of_the_whole_file(sizes: list[int]) -> None:
    content = b"".join(frame(at, bytes(size)) for at, size in enumerate(sizes))

    extent = measure(memoryview(content), NAME)

    assert (extent.frames, extent.size, extent.hash) == (len(sizes), len(content), hash_of(memoryview(content)))


def test_the_hash_is_xxh3_with_128_bits() -> None:
    assert hash_of(memoryview(b"")) == "99aa06d3014798d86001c324468d497f"


def test_a_sound_file_verifies(tmp_path: Path) -> None:
    content = segment(3)
    file = stored(tmp_path, content)

    assert (file.frames, file.end_offset, file.size) == (3, 3, len(content))
    assert verified(tmp_path, file, content) is None


def test_a_torn_last_write_is_left_out_of_the_copy_and_of_its_hash(tmp_path: Path) -> None:
    content = segment(2)
    file = stored(tmp_path, content + frame(2)[:-1], is_newest=True)

    assert (file.size, file.hash) == (len(content), hash_of(memoryview(content)))
    assert verify_file(file, str(tmp_path / "store")) is None


def test_a_torn_write_elsewhere_ends_the_backup(tmp_path: Path) -> None:
    with pytest.raises(Damaged, match=NAME):
        stored(tmp_path, segment(2)[:-1])


def test_a_flipped_bit_of_a_frame_is_told_with_its_place(tmp_path: Path) -> None:
    content = bytearray(segment(3))
    file = stored(tmp_path, bytes(content))
    content[-5] ^= 1

    assert verified(tmp_path, file, bytes(content)) == (
        f"{NAME}: the frame at byte {len(content) // 3 * 2} is damaged: the checksum does not match"
    )


def test_sound_frames_of_another_file_are_told_by_their_hash(tmp_path: Path) -> None:
    file = stored(tmp_path, segment(3))
    other = segment(2) + frame(2, b"0123456789")

    assert len(other) == file.size
    assert verified(tmp_path, file, other) == f"{NAME}: its bytes have another hash"


def test_a_flipped_bit_of_a_file_without_frames_is_told_by_its_hash(tmp_path: Path) -> None:
    file = stored(tmp_path, b"a checkpoint", is_segment=False)

    assert verified(tmp_path, file, b"a checkpoinT") == f"{NAME}: its bytes have another hash"


def test_a_file_that_is_gone_or_of_another_size_is_told(tmp_path: Path) -> None:
    content = segment(2)
    file = stored(tmp_path, content)

    assert verified(tmp_path, file, content + b"x") == f"{NAME}: {len(content) + 1} bytes instead of {len(content)}"
    BackupStore(tmp_path / "store").object_path(file.hash).unlink()
    assert verify_file(file, str(tmp_path / "store")) == f"{NAME}: its object {file.hash} is missing"


def test_a_backup_of_an_earlier_form_is_refused_with_what_to_do(tmp_path: Path) -> None:
    store = BackupStore(tmp_path)
    store.write(Manifest("20261116T000000Z", 0, [], "stopped"))
    path = tmp_path / "backups" / "20261116T000000Z.json"
    assert store.read().hash == "xxh3-128"
    earlier = {name: value for name, value in json.loads(path.read_bytes()).items() if name != "hash"}
    path.write_text(json.dumps(earlier | {"format": 1}))

    with pytest.raises(BackupUnreadable, match=r"format 1 with hashes by murmur3.*goqueue backup create --full"):
        store.read()

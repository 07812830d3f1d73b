"""Backups without Spark: threads, incremental, damage, stores at URLs, and manifests that nobody should trust."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import fsspec
import pytest
from tests.unit.backup.test_files import segment

from goqueue.backup.local import LocalTasks
from goqueue.backup.manifest import BackupNotFound, BackupUnreadable, Manifest, encode_manifest
from goqueue.backup.store import BackupStore, open_store
from goqueue.backup.work import BackupFailed, backup, listed, restore, verify
from goqueue.errors import ConfigError, InvalidRequest

RUN = LocalTasks(threads=4)
_numbers = itertools.count()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory: two topics, one with a sealed segment, and the metadata's log."""
    root = tmp_path / "data"
    write(root / "metadata" / "00000000000000000000.log", segment(2))
    write(root / "logs" / "orders" / "0" / "00000000000000000000.log", segment(5))
    write(root / "logs" / "orders" / "0" / "00000000000000000005.log", segment(3))
    write(root / "logs" / "orders" / "0" / "partition.ckpt", b"checkpoint")
    write(root / "logs" / "orders" / "0" / "00000000000000000000.index", b"an index, made again at a start")
    write(root / "logs" / "events" / "0" / "00000000000000000000.log", segment(4))
    return root


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@pytest.fixture(params=["folder", "memory"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store on this machine, and one behind fsspec."""
    return str(tmp_path / "store") if request.param == "folder" else f"memory://backups-{next(_numbers)}"


def take(data: Path, target: str, **options: bool) -> str:
    return str(backup(RUN, data, target, ask_instant=lambda: None, **options).facts["backup"])


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_what_is_restored_are_the_logs_and_checkpoints_byte_by_byte(data: Path, target: str, tmp_path: Path) -> None:
    take(data, target)

    done = restore(RUN, target, None, tmp_path / "restored")

    expected = {path: content for path, content in contents(data).items() if not path.endswith(".index")}
    assert contents(tmp_path / "restored") == expected
    assert {row["topic"]: row["frames"] for row in done.topics} == {"events": 4, "metadata": 2, "orders": 8}


def test_a_second_backup_reads_only_what_is_new(data: Path, target: str, tmp_path: Path) -> None:
    first = take(data, target)
    write(data / "logs" / "later" / "0" / "00000000000000000000.log", segment(1))

    second = backup(RUN, data, target, ask_instant=lambda: None)

    assert second.facts["parent"] == first
    assert second.facts["files_unchanged"] == 4
    assert second.facts["files_to_read"] == 1
    assert [row["backup"] for row in listed(target)] == [first, second.facts["backup"]]
    restore(RUN, target, first, tmp_path / "older")
    restore(RUN, target, None, tmp_path / "newer")
    assert not (tmp_path / "older" / "logs" / "later").exists()
    assert (tmp_path / "newer" / "logs" / "later").exists()


def test_a_full_backup_reads_everything(data: Path, target: str) -> None:
    take(data, target)

    again = backup(RUN, data, target, ask_instant=lambda: None, incremental=False)

    assert again.facts["parent"] is None
    assert again.facts["files_unchanged"] == 0


def test_the_copy_ends_where_the_log_ended_at_the_instant(data: Path, target: str, tmp_path: Path) -> None:
    length = len(segment(2))
    ends = {("logs/events/0", "00000000000000000000.log"): length}

    done = backup(RUN, data, target, ask_instant=lambda: ends)
    restore(RUN, target, None, tmp_path / "restored")

    assert done.facts["broker"] == "running"
    assert (tmp_path / "restored" / "logs" / "events" / "0" / "00000000000000000000.log").stat().st_size == length


def test_a_plan_writes_nothing(data: Path, tmp_path: Path) -> None:
    planned = backup(None, data, tmp_path / "store", ask_instant=lambda: None)

    assert planned.facts["files_to_read"] == 4
    assert not (tmp_path / "store").exists()


def test_a_damaged_segment_ends_the_backup_and_none_is_listed(data: Path, target: str) -> None:
    path = data / "logs" / "orders" / "0" / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)

    with pytest.raises(BackupFailed, match=r"logs/orders/0/00000000000000000000\.log: the frame at byte"):
        take(data, target)

    assert listed(target) == []


def test_a_flipped_bit_in_the_store_is_found_named_and_not_restored(data: Path, target: str, tmp_path: Path) -> None:
    take(data, target)
    file = max(open_store(target).read().files, key=lambda one: one.size)
    place = f"{target}/objects/{file.hash[:2]}/{file.hash}"
    with fsspec.open(place, "rb") as stored:
        content = bytearray(stored.read())
    content[len(content) // 2] ^= 1
    with fsspec.open(place, "wb") as stored:
        stored.write(bytes(content))

    found = verify(RUN, target, None)

    assert len(found.problems) == 1
    assert found.problems[0].startswith(file.path)
    with pytest.raises(BackupFailed, match=file.path):
        restore(RUN, target, None, tmp_path / "restored")
    assert not (tmp_path / "restored").exists()


def test_an_object_that_is_gone_is_named(data: Path, target: str, tmp_path: Path) -> None:
    take(data, target)
    file = max(open_store(target).read().files, key=lambda one: one.size)
    files, root = fsspec.core.url_to_fs(target)
    files.rm(f"{root}/objects/{file.hash[:2]}/{file.hash}")

    assert verify(RUN, target, None).problems == [f"{file.path}: its object {file.hash} is missing"]
    with pytest.raises(BackupFailed, match="is missing"):
        restore(RUN, target, None, tmp_path / "restored")


def test_a_part_of_an_object_that_a_killed_backup_left_is_written_again(data: Path, target: str) -> None:
    take(data, target)
    file = max(open_store(target).read().files, key=lambda one: one.size)
    with fsspec.open(f"{target}/objects/{file.hash[:2]}/{file.hash}", "wb") as stored:
        stored.write(b"half")

    take(data, target, incremental=False)

    assert verify(RUN, target, None).problems == []


def test_equal_files_that_are_copied_at_the_same_time_become_one_object(tmp_path: Path) -> None:
    for number in range(40):
        write(tmp_path / "data" / "logs" / "twins" / str(number) / "00000000000000000000.log", segment(3))
    write(tmp_path / "data" / "metadata" / "00000000000000000000.log", segment(3))

    backup(LocalTasks(threads=8), tmp_path / "data", tmp_path / "store", ask_instant=lambda: None)

    assert len([path for path in (tmp_path / "store" / "objects").rglob("*") if path.is_file()]) == 1
    assert verify(RUN, tmp_path / "store", None).problems == []


def test_files_and_folders_of_a_backup_are_private(data: Path, tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        take(data, str(tmp_path / "store"))
        restore(RUN, tmp_path / "store", None, tmp_path / "restored")
    finally:
        os.umask(previous)

    made = [path for folder in ("store", "restored") for path in (tmp_path / folder).rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in made if path.is_file()} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in made if path.is_dir()} == {0o700}


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "logs/../../outside", "logs/orders/.."])
def test_a_manifest_whose_paths_lead_out_of_the_directory_is_refused(path: str, tmp_path: Path) -> None:
    store = BackupStore(tmp_path / "store")
    text = encode_manifest(Manifest("bad", 0, [], "stopped")).decode()
    file = f'{{"path": "{path}", "size": 0, "hash": "{"0" * 32}", "kind": "checkpoint"}}'
    store.write_manifest("bad", text.replace('"files": []', f'"files": [{file}]').encode())

    with pytest.raises(BackupUnreadable, match="the manifest of backup bad is damaged"):
        restore(RUN, tmp_path / "store", None, tmp_path / "restored")


def test_a_manifest_whose_hash_is_a_path_is_refused(tmp_path: Path) -> None:
    store = BackupStore(tmp_path / "store")
    text = encode_manifest(Manifest("bad", 0, [], "stopped")).decode()
    file = '{"path": "logs/x", "size": 0, "hash": "../../../../etc/passwd", "kind": "checkpoint"}'
    store.write_manifest("bad", text.replace('"files": []', f'"files": [{file}]').encode())

    with pytest.raises(BackupUnreadable, match="is damaged"):
        verify(RUN, tmp_path / "store", None)


def test_a_manifest_that_is_cut_off_is_refused(data: Path, tmp_path: Path) -> None:
    name = take(data, str(tmp_path / "store"))
    path = tmp_path / "store" / "backups" / f"{name}.json"
    path.write_bytes(path.read_bytes()[:100])

    with pytest.raises(BackupUnreadable, match=f"the manifest of backup {name} is damaged"):
        verify(RUN, tmp_path / "store", None)


def test_a_backup_that_is_not_there_is_told_with_those_that_are(data: Path, target: str) -> None:
    name = take(data, target)

    with pytest.raises(BackupNotFound, match=f"no backup 'yesterday': there are {name}"):
        verify(RUN, target, "yesterday")


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="s4://bucket: there is no scheme 's4'"):
        open_store("s4://bucket")


def test_without_fsspec_a_url_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)

    with pytest.raises(ConfigError, match=r"pip install 'goqueue\[remote\]'"):
        open_store("s3://bucket")


def test_a_restore_never_writes_over_data(data: Path, target: str) -> None:
    take(data, target)

    with pytest.raises(InvalidRequest, match="is not empty"):
        restore(RUN, target, None, data)


def test_progress_begins_at_nothing_and_ends_with_all_bytes(data: Path, tmp_path: Path) -> None:
    shown: list[tuple[int, int]] = []

    done = backup(
        LocalTasks(lambda done, total: shown.append((done, total))), data, tmp_path / "s", ask_instant=lambda: None
    )

    total = done.facts["bytes_to_read"]
    assert shown[0] == (0, total)
    assert shown[-1] == (total, total)


def test_after_a_failure_tasks_that_have_not_begun_do_not_begin() -> None:
    begun = []

    def work(piece: int) -> None:
        begun.append(piece)
        if piece == 1:
            raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        LocalTasks(threads=1)("x", work, range(1000), size=lambda _piece: 1)

    assert begun == [0, 1]


def test_the_package_imports_neither_spark_nor_the_broker() -> None:
    program = (
        "import sys, goqueue.backup.work, goqueue.backup.local; "
        "print([m for m in sys.modules if m.startswith(('pyspark', 'pyarrow', 'numpy', 'aiohttp', 'goqueue.node', "
        "'goqueue.broker', 'goqueue.pipeline', 'fsspec'))])"
    )

    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert shown == "[]\n"

"""What only a real directory can show: modes, short writes, a full disk, cold pages, dead holders."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from goqueue.errors import DataDirectoryInUse
from goqueue.node.disk import disk_room, os_file, os_files
from goqueue.node.disk.os_files import OsFiles
from goqueue.node.disk.system_calls import CALLS, choose, kernel_version
from goqueue.ports import ColdRead


@pytest.fixture
def files(tmp_path: Path) -> Iterator[OsFiles]:
    real = OsFiles(tmp_path / "data", create=True)
    yield real
    real.close()


_HOLD_LOCK = """
import sys
from goqueue.node.disk.os_files import OsFiles
with OsFiles(sys.argv[1]).lock(".lock"):
    print("held", flush=True)
    sys.stdin.read()
"""


def use(patch: pytest.MonkeyPatch, **calls: Any) -> None:
    """Have files written with other calls of the system."""
    for module in (os_file, os_files, disk_room):
        patch.setattr(module, "CALLS", module.CALLS._replace(**calls))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_files_and_directories_are_closed_to_others(files: OsFiles, tmp_path: Path) -> None:
    """Directories were 0755 and files 0644."""
    files.make_dirs("logs/orders")
    files.open("logs/orders/a.log", create=True).close()
    files.replace("logs/orders/b.ckpt", b"x")
    with files.lock(".lock"):
        assert mode(tmp_path / "data/.lock") == 0o600
    assert mode(tmp_path / "data") == 0o700
    assert mode(tmp_path / "data/logs/orders") == 0o700
    assert mode(tmp_path / "data/logs/orders/a.log") == 0o600
    assert mode(tmp_path / "data/logs/orders/b.ckpt") == 0o600


@pytest.mark.parametrize("path", ["/etc/passwd", "a\0b"])
def test_absolute_paths_and_nul_bytes_are_refused(files: OsFiles, path: str) -> None:
    with pytest.raises(ValueError, match="leaves the root"):
        files.open(path)


def test_the_root_itself_cannot_be_removed(files: OsFiles, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not ours"):
        files.remove_tree("")
    assert (tmp_path / "data").is_dir()


def test_a_missing_root_is_not_made_by_itself(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        OsFiles(tmp_path / "missing")
    assert not (tmp_path / "missing").exists()


def test_short_writes_are_carried_on(files: OsFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    real_pwritev, real_pwrite = os.pwritev, os.pwrite
    use(monkeypatch, write_at=lambda fd, parts, at: real_pwritev(fd, [b"".join(parts)[:7]], at))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real_pwrite(fd, data[:3], at))
    file = files.open("a.log", create=True)
    assert file.append([b"0123456", b"789", b"abcdef"]) == 0
    assert file.append([b"next"]) == 16
    assert file.pread(100, 0) == b"0123456789abcdefnext"
    file.close()


def test_a_disk_that_fills_up_in_the_middle_leaves_nothing_of_the_append(
    files: OsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = files.open("a.log", create=True)
    file.append([b"kept"])
    with monkeypatch.context() as patch:
        real = os.pwritev
        use(patch, write_at=lambda fd, parts, at: real(fd, [b"".join(parts)[:5]], at))
        patch.setattr(os, "pwrite", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
        with pytest.raises(OSError) as caught:
            file.append([b"will not fit"])
        assert caught.value.errno == errno.ENOSPC
    assert file.size() == files.size("a.log") == 4
    assert file.append([b"room again"]) == 4
    assert file.pread(100, 0) == b"keptroom again"
    file.close()


def test_bytes_that_could_not_be_cut_back_are_cut_before_the_next_append(
    files: OsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = files.open("a.log", create=True)
    file.append([b"kept"])
    with monkeypatch.context() as patch:
        real = os.pwritev
        use(patch, write_at=lambda fd, parts, at: real(fd, [b"".join(parts)[:5]], at))
        patch.setattr(os, "pwrite", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "io")))
        patch.setattr(os, "ftruncate", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "io")))
        with pytest.raises(OSError):
            file.append([b"torn tail"])
        # The torn bytes lie in the file, but no reader of ours gets to see them.
        assert files.size("a.log") == 9
        assert file.pread(100, 0) == b"kept"
        with pytest.raises(OSError):
            file.append([b"refused while the cut is due"])
    file.append([b"x"])
    assert files.size("a.log") == 5
    file.close()


def test_a_read_that_is_not_in_memory_is_refused_where_blocking_is_not_allowed(
    files: OsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = files.open("a.log", create=True)
    file.append([b"0123456789"])

    def nothing_cached(*_: object) -> int:
        raise BlockingIOError(errno.EAGAIN, "cold")

    monkeypatch.setattr(os, "preadv", nothing_cached)
    with pytest.raises(ColdRead):
        file.pread(4, 0, nowait=True)
    monkeypatch.setattr(os, "preadv", lambda *_: 2)
    with pytest.raises(ColdRead):
        file.pread(4, 0, nowait=True)
    assert file.pread(4, 0) == b"0123"
    file.close()


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS])
def test_a_system_without_nowait_reads_plainly(files: OsFiles, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    calls = 0

    def unsupported(*_: object) -> int:
        nonlocal calls
        calls += 1
        raise OSError(code, "no such flag here")

    monkeypatch.setattr(os, "preadv", unsupported)
    file = files.open("a.log", create=True)
    file.append([b"0123456789"])
    assert file.pread(4, 2, nowait=True) == b"2345"
    assert file.pread(4, 2, nowait=True) == b"2345"
    assert calls == 1, "once it is known, it is not asked again"
    file.close()


def test_pages_dropped_from_memory_are_cold_and_then_warm_after_one_plain_read(files: OsFiles, tmp_path: Path) -> None:
    file = files.open("a.log", create=True)
    file.append([os.urandom(1 << 20)])
    file.sync()
    descriptor = os.open(tmp_path / "data/a.log", os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
    try:
        file.pread(1 << 20, 0, nowait=True)
    except ColdRead:
        pass
    else:
        pytest.skip("this file system keeps its pages or cannot tell")
    whole = file.pread(1 << 20, 0)
    assert file.pread(1 << 20, 0, nowait=True) == whole
    file.close()


def test_a_read_longer_than_the_system_gives_at_once_is_put_together(
    files: OsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = files.open("a.log", create=True)
    file.append([b"0123456789"])
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, at: real(fd, min(size, 3), at))
    assert file.pread(10, 0) == b"0123456789"
    file.close()


def test_a_failed_replace_keeps_the_old_file_and_removes_its_draft(
    files: OsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.replace("state", b"old")

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "io")

    with monkeypatch.context() as patch:
        use(patch, sync_data=fail)
        with pytest.raises(OSError):
            files.replace("state", b"new")
    assert files.read("state") == b"old"
    assert files.list("") == ["state"]


def test_the_lock_of_a_killed_process_is_free_at_once(files: OsFiles) -> None:
    """A stale PID file kept the broker from starting for ever."""
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD_LOCK, files.root], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(DataDirectoryInUse, match=files.root), files.lock(".lock"):
            pass
        holder.kill()
        holder.wait()
    with files.lock(".lock"):
        pass


def test_a_failed_syncfs_is_an_error(files: OsFiles) -> None:
    files.close()
    files.close()
    with pytest.raises(OSError) as caught:
        files.sync_all()
    assert caught.value.errno == errno.EBADF


def test_parts_are_split_where_the_system_wants_it(files: OsFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os_file, "_IOV_MAX", 4)
    sizes: list[int] = []
    real = os.pwritev

    def count(descriptor: int, parts: list[bytes], at: int) -> int:
        sizes.append(len(parts))
        return real(descriptor, parts, at)

    use(monkeypatch, write_at=count)
    file = files.open("a.log", create=True)
    file.append([b"x"] * 10)
    assert sizes == [4, 4, 2]
    assert file.pread(100, 0) == b"x" * 10
    file.close()


def allocated(path: Path) -> int:
    return path.stat().st_blocks * 512


def test_large_appends_keep_room_ahead_and_give_it_back_when_none_is_to_come(files: OsFiles, tmp_path: Path) -> None:
    file, path = files.open("a.log", create=True), tmp_path / "data/a.log"
    file.append([bytes(100_000)])
    file.append([bytes(100_000)])
    reserved = allocated(path)

    file.finish()

    assert path.stat().st_size == file.size() == 200_000
    assert allocated(path) < 300_000
    if reserved < 1_000_000:
        pytest.skip("this file system reserves nothing")


def test_small_appends_keep_no_room(files: OsFiles, tmp_path: Path) -> None:
    file = files.open("a.log", create=True)
    for _ in range(50):
        file.append([bytes(1_000)])
    file.sync()

    assert allocated(tmp_path / "data/a.log") < 100_000


def test_giving_room_back_leaves_what_another_handle_has_written(files: OsFiles, tmp_path: Path) -> None:
    file = files.open("a.log", create=True)
    file.append([bytes(100_000)])
    files.open("a.log").append([b"more"])

    file.finish()
    file.close()

    assert (tmp_path / "data/a.log").read_bytes() == bytes(100_000) + b"more"


def test_closing_never_cuts_what_is_appended_through_another_handle_meanwhile(
    files: OsFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, other = files.open("a.log", create=True), files.open("a.log")
    file.append([bytes(100_000)])
    other.look_again()
    seen = os.fstat

    def append_right_after(descriptor: int) -> os.stat_result:
        found = seen(descriptor)
        monkeypatch.undo()
        other.append([b"more"])
        return found

    monkeypatch.setattr("os.fstat", append_right_after)
    file.close()
    monkeypatch.undo()
    other.append([b"and more"])

    assert (tmp_path / "data/a.log").read_bytes().strip(b"\0").endswith(b"and more")
    assert (tmp_path / "data/a.log").stat().st_size == other.size()


def test_room_that_another_handle_kept_is_given_back(files: OsFiles, tmp_path: Path) -> None:
    file = files.open("a.log", create=True)
    file.append([bytes(100_000)])
    file.close()
    if allocated(tmp_path / "data/a.log") < 1_000_000:
        pytest.skip("this file system reserves nothing")

    again = files.open("a.log")
    again.look_again()
    again.finish()
    again.close()

    assert allocated(tmp_path / "data/a.log") < 200_000


def test_a_file_can_be_cut_and_appended_to_where_room_was_kept(files: OsFiles, tmp_path: Path) -> None:
    file = files.open("a.log", create=True)
    file.append([b"x" * 100_000])
    file.truncate(10)
    file.append([b"y" * 100_000])
    file.close()

    assert (tmp_path / "data/a.log").read_bytes() == b"x" * 10 + b"y" * 100_000


def test_without_the_calls_of_linux_files_are_written_and_synced_all_the_same(
    files: OsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS, which lacks pwritev's relatives, fallocate, syncfs and reads that do not wait."""
    synced: list[int] = []
    bare = SimpleNamespace(pwrite=os.pwrite, fsync=os.fsync)
    full_sync = SimpleNamespace(F_FULLFSYNC=51, fcntl=lambda descriptor, call: synced.append(call))
    use(monkeypatch, **choose(bare, SimpleNamespace(), full_sync, (23, 1))._asdict())
    file = files.open("a.log", create=True)
    file.append([b"0123", bytearray(b"4567"), memoryview(b"89")])
    file.append([b"x" * 100_000])
    assert file.pread(10, 0, nowait=True) == b"0123456789"
    file.sync()
    files.replace("state", b"small")
    files.sync_all()
    # The file itself, the replaced one, and both again with all files.
    assert synced == [51] * 4
    file.finish()
    assert file.size() == files.size("a.log") == 100_010
    file.close()


def test_the_calls_of_linux_are_used_where_they_are() -> None:
    assert CALLS.write_at is os.pwritev
    assert CALLS.sync_data is os.fdatasync
    assert None not in (CALLS.nowait, CALLS.reserve, CALLS.sync_file_system)


@pytest.mark.parametrize(
    ("release", "reports"), [("4.18.0-80.el8", False), ("5.7.1", False), ("5.8.0", True), ("6.1.0-13-amd64", True)]
)
def test_an_old_kernel_is_not_trusted_to_report_failed_writes_of_closed_files(release: str, reports: bool) -> None:
    library = SimpleNamespace(syncfs=lambda _: 0)
    assert choose(os, library, SimpleNamespace(), kernel_version(release)).reports_closed_files is reports

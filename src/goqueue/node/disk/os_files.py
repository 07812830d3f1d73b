"""OsFiles: the `Files` port on a real directory of a POSIX file system.

Every path is checked to lie below the root. Files are 0600 and directories 0750, for
what they hold is somebody's messages. Handles are plain descriptors: reads name their
position, appends go to the size we know of, so no seek pointer is shared by threads.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from goqueue.errors import DataDirectoryInUse
from goqueue.node.disk.os_file import FILE_MODE, OsFile, write_all
from goqueue.node.disk.system_calls import CALLS
from goqueue.ports import Buffer

DIRECTORY_MODE = 0o700
_TEMPORARY = ".tmp"


class OsFiles:
    """A directory of the operating system. `create` makes it (and its parents) when missing."""

    def __init__(self, root: str | Path, *, create: bool = False) -> None:
        self.root = str(Path(root).resolve())
        if create:
            _make_dirs(self.root)
        self.sync_all_failures = 0
        self.sync_all_reports_closed_files = CALLS.reports_closed_files
        # Syncs of the whole disk run one at a time: whoever is told of no failure must see the count of the one before.
        self._sync_all_lock = threading.Lock()
        # Held open for good: syncfs reports the write errors that happened since its
        # descriptor was opened, so a fresh one each time would miss those in between.
        self._root_descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)

    def open(self, path: str, *, create: bool = False) -> OsFile:
        """Open for reading and appending; FileNotFoundError unless `create`."""
        flags = os.O_RDWR | (os.O_CREAT if create else 0)
        return OsFile(os.open(self._below(path), flags, FILE_MODE))

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there."""
        return os.path.exists(self._below(path))  # noqa: PTH110 (ten times cheaper than Path here)

    def size(self, path: str) -> int:
        """Bytes in a file that need not be open."""
        return os.stat(self._below(path)).st_size  # noqa: PTH116

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted; empty when there is no such directory."""
        try:
            return sorted(os.listdir(self._below(path)))  # noqa: PTH208
        except (FileNotFoundError, NotADirectoryError):
            return []

    def is_dir(self, path: str) -> bool:
        """Whether the path is a directory."""
        return os.path.isdir(self._below(path))  # noqa: PTH112

    def make_dirs(self, path: str) -> None:
        """Create a directory and its parents, entries synced."""
        _make_dirs(self._below(path))

    def read(self, path: str) -> bytes:
        """A whole small file."""
        return Path(self._below(path)).read_bytes()

    def replace(self, path: str, content: bytes) -> None:
        """Write a small file atomically and durably: new file, sync, rename, sync directory."""
        replace_file(self._below(path), [content])

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory, replacing a file of that name."""
        os.rename(self._below(old), self._below(new))  # noqa: PTH104

    def remove(self, path: str) -> None:
        """Delete a file; no error when it is gone."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._below(path))  # noqa: PTH108

    def remove_tree(self, path: str) -> None:
        """Delete a directory and all in it; no error when it is gone."""
        below = self._below(path)
        if below == self.root:
            raise ValueError("the root itself is not ours to remove")
        with contextlib.suppress(FileNotFoundError):
            if os.path.isdir(below):  # noqa: PTH112
                shutil.rmtree(below)
            else:
                os.unlink(below)  # noqa: PTH108

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory survive a power cut."""
        _sync_directory(self._below(path))

    def sync_all(self) -> None:
        """Make every byte of every file survive a power cut: by syncfs, or one file after the other without it."""
        with self._sync_all_lock:
            try:
                if CALLS.sync_file_system is not None:
                    CALLS.sync_file_system(self._root_descriptor)
                else:
                    _sync_tree(self.root)
            except OSError as error:
                self.sync_all_failures += 1
                raise OSError(error.errno, error.strerror, self.root) from error

    @contextmanager
    def lock(self, path: str) -> Iterator[None]:
        """Hold the path exclusively until exit; raises `DataDirectoryInUse`.

        The kernel holds the lock for as long as the process lives, so there is nothing
        that an unclean end could leave behind. The file itself stays: removing it
        would let two processes lock two different files of the same name.
        """
        descriptor = os.open(self._below(path), os.O_RDWR | os.O_CREAT, FILE_MODE)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DataDirectoryInUse(self.root) from None
            yield
        finally:
            os.close(descriptor)

    def free_bytes(self) -> int:
        """Space left for us on this disk."""
        disk = os.fstatvfs(self._root_descriptor)
        return disk.f_bavail * disk.f_frsize

    def close(self) -> None:
        """Release the root. A second close does no harm."""
        descriptor, self._root_descriptor = self._root_descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _below(self, path: str) -> str:
        parts = path.split("/")
        if ".." in parts or "\0" in path or path.startswith("/"):
            raise ValueError(f"path {path!r} leaves the root")
        return f"{self.root}/{path}" if path not in {"", "."} else self.root


def replace_file(path: str, parts: Sequence[Buffer]) -> None:
    """Put a whole file in place of another: readers see the old or the new, never a part."""
    temporary = path + _TEMPORARY
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
    try:
        try:
            write_all(descriptor, parts, 0)
            CALLS.sync_data(descriptor)
        finally:
            os.close(descriptor)
        os.rename(temporary, path)  # noqa: PTH104
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108
        raise
    _sync_directory(os.path.dirname(path))  # noqa: PTH120


def _make_dirs(path: str) -> None:
    if os.path.isdir(path):  # noqa: PTH112
        return
    above = os.path.dirname(path)  # noqa: PTH120
    _make_dirs(above)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, DIRECTORY_MODE)  # noqa: PTH102
    if not os.path.isdir(path):  # noqa: PTH112
        raise NotADirectoryError(path)
    _sync_directory(above)


def _sync_tree(path: str) -> None:
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                descriptor = os.open(f"{folder}/{name}", os.O_RDONLY)
            except FileNotFoundError:
                # Deleted since it was listed.
                continue
            try:
                CALLS.sync_data(descriptor)
            finally:
                os.close(descriptor)
        _sync_directory(folder)


def _sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

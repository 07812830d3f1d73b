"""MemoryFiles: the `Files` port over a disk in memory that can lose, tear, lie and fill up.

    files = MemoryFiles(seed=7)
    files.faults.crash_at_step = 12        # the twelfth change raises Crash
    files = files.crash()                  # power cut: the same disk, what survived of it

After a crash the old object and all its handles are dead: whatever still holds them gets
`Crash`, so code from before the power cut cannot touch the disk after it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from goqueue.errors import DataDirectoryInUse
from goqueue.testing.disk import Append, Folder, Inode, MemoryDisk, NameChange, Survival
from goqueue.testing.faults import Faults
from goqueue.testing.memory_file import MemoryFile, free_bytes
from goqueue.testing.power import PoweredDisk

_TEMPORARY = ".tmp"


class MemoryFiles:
    """A directory tree in memory. `faults` says what goes wrong; `crash()` cuts the power."""

    def __init__(self, *, seed: int = 0, capacity_bytes: int | None = None) -> None:
        self._power = PoweredDisk(MemoryDisk(), Faults(), Random(seed))  # noqa: S311 - repeatable on purpose
        self._power.faults.capacity_bytes = capacity_bytes
        self._locked: set[str] = set()
        self.sync_all_reports_closed_files = True
        self.sync_all_failures = 0

    # --- what a test does to the disk -----------------------------------------------------

    @property
    def faults(self) -> Faults:
        """What goes wrong, and the counts of what was asked."""
        return self._power.faults

    @property
    def is_down(self) -> bool:
        """Whether the power is gone: every call raises `Crash`."""
        return self._power.is_down

    def crash(self, survival: Survival = Survival.SOME, *, holes: bool = False) -> MemoryFiles:
        """Cut the power and hand back the disk as it comes up again; this object is dead."""
        reopened = MemoryFiles()
        reopened._power = self._power.crash(survival, holes=holes)
        return reopened

    def kill(self) -> MemoryFiles:
        """End the process, as `kill -9` does: nothing written is lost, and nothing more of it is synced."""
        reopened = MemoryFiles()
        reopened._power = self._power.kill()
        return reopened

    def flip_bit(self, path: str, position: int, bit: int = 0) -> None:
        """Damage one bit of a file, in the cache and on the platter."""
        with self._power.guard:
            self._inode(path).flip(position, bit)

    def unsynced_bytes(self, path: str) -> int:
        """Bytes of a file that a crash might lose."""
        with self._power.guard:
            return sum(len(step.data) for step in self._inode(path).pending if isinstance(step, Append))

    def tree(self) -> dict[str, bytes]:
        """Every file with its content, as seen now: for comparing and for messages."""
        with self._power.guard:
            return dict(_files_below(self._power.disk.root, ""))

    # --- the port: reading ----------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        """Open for reading and appending; FileNotFoundError unless `create`."""
        with self._power.guard:
            self._power.admit("open", path)
            node = self._find(path)
            if isinstance(node, Folder):
                raise _error(IsADirectoryError, errno.EISDIR, path)
            if node is None:
                if not create:
                    raise _missing(path)
                node = Inode()
                folder, name = self._place(path)
                self._change_names("create", path, NameChange(removed=(), added=((folder, name, node),)))
            return MemoryFile(self._power, path, node)

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there."""
        with self._power.guard:
            self._power.check_power()
            return self._find(path) is not None

    def size(self, path: str) -> int:
        """Bytes in a file that need not be open."""
        with self._power.guard:
            self._power.check_power()
            return len(self._inode(path).content)

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted; empty when there is no such directory."""
        with self._power.guard:
            self._power.check_power()
            node = self._find(path)
            return sorted(node.entries) if isinstance(node, Folder) else []

    def is_dir(self, path: str) -> bool:
        """Whether the path is a directory."""
        with self._power.guard:
            self._power.check_power()
            return isinstance(self._find(path), Folder)

    def read(self, path: str) -> bytes:
        """A whole small file."""
        with self._power.guard:
            self._power.admit("pread", path)
            return bytes(self._inode(path).content)

    def free_bytes(self) -> int:
        """Space left for us on this disk."""
        with self._power.guard:
            self._power.check_power()
            return free_bytes(self._power)

    # --- the port: changing names ---------------------------------------------------------

    def make_dirs(self, path: str) -> None:
        """Create a directory and its parents, entries synced."""
        with self._power.guard:
            self._power.check_power()
            folder = self._power.disk.root
            for name in _parts(path):
                node = folder.entries.get(name)
                if node is None:
                    node = Folder()
                    self._change_names("make_dir", path, NameChange(removed=(), added=((folder, name, node),)))
                    self._sync_folder(folder, path)
                if not isinstance(node, Folder):
                    raise _error(NotADirectoryError, errno.ENOTDIR, path)
                folder = node

    def replace(self, path: str, content: bytes) -> None:
        """Write a small file atomically and durably: new file, sync, rename, sync directory."""
        temporary = path + _TEMPORARY
        self.remove(temporary)
        file = self.open(temporary, create=True)
        try:
            file.append([content])
            file.sync()
        except OSError:
            self.remove(temporary)
            raise
        finally:
            file.close()
        self.rename(temporary, path)
        self.sync_dir(path.rpartition("/")[0])

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory, replacing a file of that name."""
        with self._power.guard:
            self._power.check_power()
            node = self._find(old)
            if node is None:
                raise _missing(old)
            source, old_name = self._place(old)
            target, new_name = self._place(new)
            if isinstance(target.entries.get(new_name), Folder):
                raise _error(OSError, errno.ENOTEMPTY, new)
            change = NameChange(removed=((source, old_name),), added=((target, new_name, node),))
            self._change_names("rename", old, change)

    def remove(self, path: str) -> None:
        """Delete a file; no error when it is gone."""
        with self._power.guard:
            self._power.check_power()
            node = self._find(path)
            if isinstance(node, Folder):
                raise _error(IsADirectoryError, errno.EISDIR, path)
            if node is not None:
                self._unlink(path)

    def remove_tree(self, path: str) -> None:
        """Delete a directory and all in it; no error when it is gone."""
        with self._power.guard:
            self._power.check_power()
            node = self._find(path)
            if isinstance(node, Folder):
                for name in sorted(node.entries):
                    self.remove_tree(f"{path}/{name}")
            if node is not None:
                self._unlink(path)

    # --- the port: syncing and locking ----------------------------------------------------

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory survive a power cut."""
        with self._power.guard:
            self._power.check_power()
            folder = self._find(path)
            if not isinstance(folder, Folder):
                raise _missing(path)
            self._sync_folder(folder, path)

    def sync_all(self) -> None:
        """Make every byte of every file survive a power cut (syncfs)."""
        self._power.run_sync_hook("")
        disk = self._power.disk

        def fail() -> None:
            self.sync_all_failures += 1
            disk.lose_pending_writes()

        self._power.store("sync_all", "", disk.sync_everything, fail)

    @contextmanager
    def lock(self, path: str) -> Iterator[None]:
        """Hold the path exclusively until exit; raises `DataDirectoryInUse`."""
        with self._power.guard:
            self._power.check_power()
            if path in self._locked:
                raise DataDirectoryInUse(path)
            self._locked.add(path)
        try:
            yield
        finally:
            self._locked.discard(path)

    # --- below ----------------------------------------------------------------------------

    def _change_names(self, operation: str, path: str, change: NameChange) -> None:
        self._power.change(operation, path, lambda: self._power.disk.change_names(change))

    def _unlink(self, path: str) -> None:
        folder, name = self._place(path)
        self._change_names("remove", path, NameChange(removed=((folder, name),), added=()))

    def _sync_folder(self, folder: Folder, path: str) -> None:
        self._power.store("sync_dir", path, lambda: self._power.disk.sync_folder(folder), lambda: None)

    def _find(self, path: str) -> Inode | Folder | None:
        node: Inode | Folder | None = self._power.disk.root
        for name in _parts(path):
            node = node.entries.get(name) if isinstance(node, Folder) else None
        return node

    def _inode(self, path: str) -> Inode:
        node = self._find(path)
        if not isinstance(node, Inode):
            raise _missing(path)
        return node

    def _place(self, path: str) -> tuple[Folder, str]:
        """The folder that holds, or would hold, the path's last name."""
        above, _, name = path.rpartition("/")
        folder = self._find(above)
        if not isinstance(folder, Folder) or not name:
            raise _missing(path)
        return folder, name


def _parts(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part and part != "."]
    if ".." in parts:
        raise ValueError(f"{path!r} leaves the root")
    return parts


def _error(kind: type[OSError], code: int, path: str) -> OSError:
    return kind(code, os.strerror(code), path)


def _missing(path: str) -> OSError:
    return _error(FileNotFoundError, errno.ENOENT, path)


def _files_below(folder: Folder, prefix: str) -> Iterator[tuple[str, bytes]]:
    for name, node in sorted(folder.entries.items()):
        if isinstance(node, Folder):
            yield from _files_below(node, f"{prefix}{name}/")
        else:
            yield prefix + name, bytes(node.content)

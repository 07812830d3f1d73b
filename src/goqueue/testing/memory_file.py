"""MemoryFile: an open file on a disk in memory. It is dead after a crash, as its disk is."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from goqueue.ports import Buffer, ColdRead
from goqueue.testing.disk import Inode
from goqueue.testing.power import PoweredDisk

_PLENTY_BYTES = 1 << 40


class MemoryFile:
    """The `File` port over one inode; a failed append leaves nothing behind."""

    def __init__(self, power: PoweredDisk, path: str, inode: Inode) -> None:
        self._power = power
        self._path = path
        self._inode = inode
        self._closed = False

    def size(self) -> int:
        """Bytes in the file, counting every append that returned."""
        with self._power.guard:
            self._check_usable()
            return len(self._inode.content)

    def append(self, parts: Sequence[Buffer]) -> int:
        """Write the parts back to back at the end and return where they begin."""
        data = b"".join(parts)
        with self._power.guard:
            self._check_usable()
            start = len(self._inode.content)
            if len(data) > free_bytes(self._power):
                self._power.admit("append_refused", self._path)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)
            self._power.change("append", self._path, lambda: self._inode.append(data))
            return start

    def pread(self, size: int, position: int, *, nowait: bool = False) -> bytes:
        """Read up to `size` bytes; short only at the end. `nowait` may raise ColdRead."""
        with self._power.guard:
            self._check_usable()
            self._power.admit("pread", self._path)
            if nowait and self._power.faults.cold is not None and self._power.faults.cold(self._path):
                raise ColdRead(self._path)
            with memoryview(self._inode.content) as content:
                return bytes(content[position : position + size])

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        with self._power.guard:
            self._check_usable()
            self._power.change("truncate", self._path, lambda: self._inode.truncate(size))

    def sync(self) -> None:
        """Make every byte appended so far survive a power cut."""
        self._check_usable()
        self._power.run_sync_hook(self._path)
        self._power.store("sync", self._path, self._inode.sync, self._inode.lose_pending_writes)

    def look_again(self) -> None:
        """The size is never out of date here."""

    def finish(self) -> None:
        """Nothing is kept for appends here."""

    def close(self) -> None:
        """Release the handle. A second close does no harm."""
        self._closed = True

    def _check_usable(self) -> None:
        self._power.check_power()
        if self._closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self._path)


def free_bytes(power: PoweredDisk) -> int:
    """Space left on the disk; plenty when it has no planned size."""
    capacity = power.faults.capacity_bytes
    return _PLENTY_BYTES if capacity is None else max(0, capacity - power.disk.used_bytes())

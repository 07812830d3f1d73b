"""OsFile: one open file of the operating system, appended to by one thread and read by many."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Sequence

from goqueue.heap import unfilled
from goqueue.node.disk.disk_room import give_back, reserve
from goqueue.node.disk.system_calls import CALLS
from goqueue.ports import Buffer, ColdRead

FILE_MODE = 0o600
# What Linux accepts in one call; POSIX promises only 16.
_IOV_MAX = os.sysconf("SC_IOV_MAX") if "SC_IOV_MAX" in os.sysconf_names else 16
# Files that grow by appends of this size get room ahead of them: half as much as they hold, within bounds.
_LARGE_BYTES = 64 * 1024
_ROOM_BYTES_MIN, _ROOM_BYTES_MAX = 4 * 1024 * 1024, 16 * 1024 * 1024
# What `st_blocks` counts in, whatever the file system's blocks are.
_BLOCK_BYTES = 512


class OsFile:
    """The `File` port on a descriptor."""

    __slots__ = ("_cut_due", "_descriptor", "_nowait", "_room_end", "_size")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size
        self._cut_due = False
        self._room_end = 0
        self._nowait = CALLS.nowait

    def size(self) -> int:
        """Bytes in the file, counting every append that returned."""
        return self._size

    def append(self, parts: Sequence[Buffer]) -> int:
        """Write the parts back to back at the end and return where they begin."""
        start = self._size
        if self._cut_due:
            self._cut_back()
        try:
            written = write_all(self._descriptor, parts, start)
        except BaseException:
            # Whatever went wrong, a part of the bytes may be there: they must not stay.
            self._cut_due = True
            with contextlib.suppress(OSError):
                self._cut_back()
            raise
        self._size = start + written
        if written >= _LARGE_BYTES and self._size + written > self._room_end:
            room = min(max(self._size // 2, _ROOM_BYTES_MIN), _ROOM_BYTES_MAX)
            self._room_end = self._size + room
            reserve(self._descriptor, self._size, room)
        return start

    def pread(self, size: int, position: int, *, nowait: bool = False) -> bytes | bytearray:
        """Read up to `size` bytes; short only at the end. `nowait` may raise ColdRead."""
        # Bytes of an append that failed or is still under way are not in the file yet.
        size = min(size, self._size - position)
        if size <= 0:
            return b""
        if nowait and self._nowait is not None:
            return self._pread_cached(size, position, self._nowait)
        data = os.pread(self._descriptor, size, position)
        if len(data) == size:
            return data
        return data + self._pread_rest(size - len(data), position + len(data))

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        os.ftruncate(self._descriptor, size)
        self._size = size

    def sync(self) -> None:
        """Make every byte appended so far survive a power cut (fdatasync)."""
        CALLS.sync_data(self._descriptor)

    def look_again(self) -> None:
        """Learn the size anew, and whether another handle has kept room for appends."""
        found = os.fstat(self._descriptor)
        self._size = found.st_size
        if found.st_blocks * _BLOCK_BYTES >= self._size + _ROOM_BYTES_MIN // 2:
            self._room_end = max(self._room_end, self._size + 1)

    def finish(self) -> None:
        """Give back the room that was kept for appends: none is to come soon."""
        if self._room_end > self._size and self._descriptor >= 0:
            give_back(self._descriptor, self._size)
        self._room_end = 0

    def close(self) -> None:
        """Release the handle. A second close does no harm.

        Room that was kept stays: the owner may be appending through another handle, and be cut off by giving it back.
        """
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _pread_cached(self, size: int, position: int, nowait: int) -> bytes | bytearray:
        data = unfilled(size)
        try:
            count = os.preadv(self._descriptor, [data], position, nowait)
        except BlockingIOError:
            raise ColdRead from None
        except OSError as error:
            if error.errno not in {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}:
                raise
            # This file system cannot say what it has in memory, so every read may block.
            self._nowait = None
            return self.pread(size, position)
        if count < size:
            raise ColdRead
        return data

    def _pread_rest(self, size: int, position: int) -> bytes:
        """Linux reads at most 2 GB at once, and a file may have been cut under our feet."""
        pieces: list[bytes] = []
        while size > 0:
            data = os.pread(self._descriptor, size, position)
            if not data:
                break
            pieces.append(data)
            size -= len(data)
            position += len(data)
        return b"".join(pieces)

    def _cut_back(self) -> None:
        os.ftruncate(self._descriptor, self._size)
        self._cut_due = False


def write_all(descriptor: int, parts: Sequence[Buffer], position: int) -> int:
    """Write every part back to back from `position` on; returns how many bytes that was."""
    start = position
    for first in range(0, len(parts), _IOV_MAX):
        chunk = parts[first : first + _IOV_MAX] if len(parts) > _IOV_MAX else parts
        size = 0
        for part in chunk:
            # Inline, because this runs for every batch: a view of wider items counts them, not bytes.
            size += part.nbytes if type(part) is memoryview else len(part)
        written = CALLS.write_at(descriptor, chunk, position)
        if written < size:
            _write_rest(descriptor, chunk, position, written)
        position += size
    return position - start


def _write_rest(descriptor: int, parts: Sequence[Buffer], position: int, written: int) -> None:
    """After a short write: the rest as one piece, until it is all there or the system says why not."""
    rest = memoryview(b"".join(parts))
    while written < len(rest):
        count = os.pwrite(descriptor, rest[written:], position + written)
        if count == 0:
            raise OSError(errno.EIO, "the system wrote nothing and gave no reason")
        written += count

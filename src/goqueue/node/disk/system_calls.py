"""The calls of the operating system that files are written and synced with, chosen once.

Linux has all of them. macOS, on which people develop, lacks some: there the next best call is
used, and what has no substitute is left out. Nothing else in the broker asks which system it is on.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from goqueue.libc import LIBC
from goqueue.ports import Buffer

# Of fallocate: the size that others see does not change.
_KEEP_SIZE = 1
# From here on syncfs reports failed writes; before, it reported only that the descriptor is not open.
_SYNCFS_REPORTS_SINCE = (5, 8)


class SystemCalls(NamedTuple):
    """What this system offers. A call that is None has no substitute."""

    # Make the bytes of one file survive a power cut.
    sync_data: Callable[[int], None]
    # Write buffers back to back at a position; returns how many bytes were written, perhaps not all.
    write_at: Callable[[int, Sequence[Buffer], int], int]
    # The flag with which a read fails instead of waiting for the disk.
    nowait: int | None
    # Reserve room behind the end of a file.
    reserve: Callable[[int, int, int], None] | None
    # Sync the whole file system of an open directory.
    sync_file_system: Callable[[int], None] | None
    # Whether that call reports writes that failed before, of files that are closed by now.
    reports_closed_files: bool


def choose(system: Any, library: Any, control: Any, kernel: tuple[int, ...]) -> SystemCalls:
    """The calls of modules `os` and `fcntl`, the C library and a kernel of that version."""
    has_syncfs = hasattr(library, "syncfs")
    return SystemCalls(
        sync_data=_sync_data(system, control),
        write_at=system.pwritev if hasattr(system, "pwritev") else _write_first(system),
        nowait=getattr(system, "RWF_NOWAIT", None) if hasattr(system, "preadv") else None,
        reserve=_reserve(library) if hasattr(library, "fallocate") else None,
        sync_file_system=_sync_file_system(library) if has_syncfs else None,
        reports_closed_files=has_syncfs and kernel >= _SYNCFS_REPORTS_SINCE,
    )


def _sync_data(system: Any, control: Any) -> Callable[[int], None]:
    full_sync = getattr(control, "F_FULLFSYNC", None)
    if full_sync is not None:
        # On macOS fsync leaves bytes in the drive's cache, which a power cut empties.
        return lambda descriptor: control.fcntl(descriptor, full_sync) and None
    call: Callable[[int], None] = getattr(system, "fdatasync", None) or system.fsync
    return call


def _write_first(system: Any) -> Callable[[int, Sequence[Buffer], int], int]:
    """Without pwritev: all buffers as one, of which the system may write a part."""
    return lambda descriptor, parts, position: int(system.pwrite(descriptor, b"".join(parts), position))


def _reserve(library: Any) -> Callable[[int, int, int], None]:
    fallocate = library.fallocate
    fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong]

    def reserve(descriptor: int, start: int, size: int) -> None:
        fallocate(descriptor, _KEEP_SIZE, start, size)

    return reserve


def _sync_file_system(library: Any) -> Callable[[int], None]:
    def sync(descriptor: int) -> None:
        if library.syncfs(descriptor) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))

    return sync


def kernel_version(release: str) -> tuple[int, ...]:
    """The first two numbers of a release such as `6.1.0-13-amd64`."""
    numbers = release.replace("-", ".").split(".")[:2]
    return tuple(int(one) for one in numbers if one.isdigit())


CALLS = choose(os, LIBC, fcntl, kernel_version(os.uname().release))

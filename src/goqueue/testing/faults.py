"""What can go wrong with a disk in memory, and when: set by the test, asked before every operation."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase

# The operations that change what a crash would leave, and so are places to crash at.
PERSISTED = frozenset({"append", "truncate", "sync", "create", "make_dir", "rename", "remove", "sync_dir", "sync_all"})


class Crash(BaseException):
    """The power is gone. Not an `Exception`: no code under test may catch it and carry on."""


@dataclass(slots=True)
class Failure:
    """An error that the next matching operations meet."""

    operation: str
    path: str
    code: int
    times: int


class Faults:
    """The plan of one disk's misfortunes, and the count of what it was asked to do.

    `capacity_bytes` is the size of the disk; `cold` says which paths are not in the page
    cache, so that `nowait` reads of them refuse; `on_sync` runs in the syncing thread
    before the sync, outside every lock, so it may sleep.
    """

    def __init__(self) -> None:
        self.capacity_bytes: int | None = None
        self.cold: Callable[[str], bool] | None = None
        self.on_sync: Callable[[str], None] | None = None
        self.crash_at_step: int | None = None
        self.steps = 0
        self.counts: Counter[str] = Counter()
        self._failures: list[Failure] = []

    def fail(self, operation: str, path: str = "*", *, code: int = errno.EIO, times: int = 1) -> None:
        """Let the next `times` operations of that name on paths like that pattern raise OSError.

        Operations: pread, append, truncate, sync, create, open, make_dir, rename, remove,
        sync_dir, sync_all. A failed sync loses what it was to store, as Linux does.
        """
        self._failures.append(Failure(operation, path, code, times))

    def clear(self) -> None:
        """Forget all planned failures; capacity and hooks stay."""
        self._failures.clear()
        self.crash_at_step = None

    def admit(self, operation: str, path: str) -> bool:
        """Count an operation and raise its planned error; True if the power goes with this one."""
        self.counts[operation] += 1
        for failure in self._failures:
            if failure.times > 0 and failure.operation == operation and fnmatchcase(path, failure.path):
                failure.times -= 1
                raise OSError(failure.code, os.strerror(failure.code), path)
        if operation not in PERSISTED:
            return False
        self.steps += 1
        return self.steps == self.crash_at_step

    def restarted(self) -> Faults:
        """The plan for the same disk after a power cut: same size and speed, no step to crash at."""
        faults = Faults()
        faults.capacity_bytes, faults.cold, faults.on_sync = self.capacity_bytes, self.cold, self.on_sync
        return faults

"""The one gate to a disk in memory: every operation is counted, may fail as planned, and may be the last.

Owns the disk's guard (reads may come from threads) and its power switch.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from threading import RLock

from goqueue.testing.disk import MemoryDisk, Survival
from goqueue.testing.faults import Crash, Faults


class PoweredDisk:
    """A MemoryDisk that is up until it crashes. After that, only its successor works."""

    def __init__(self, disk: MemoryDisk, faults: Faults, rng: Random) -> None:
        self.disk = disk
        self.faults = faults
        self.rng = rng
        self.guard = RLock()
        self.is_down = False

    def crash(self, survival: Survival, *, holes: bool) -> PoweredDisk:
        """Cut the power; the disk that comes up again holds what survived."""
        with self.guard:
            self.is_down = True
            disk, self.disk = self.disk, MemoryDisk()
            disk.crash(self.rng, survival, holes=holes)
            return PoweredDisk(disk, self.faults.restarted(), self.rng)

    def kill(self) -> PoweredDisk:
        """End the process, not the power: the page cache stays, unsynced as it is."""
        with self.guard:
            self.is_down = True
            disk, self.disk = self.disk, MemoryDisk()
            return PoweredDisk(disk, self.faults.restarted(), self.rng)

    def change(self, operation: str, path: str, act: Callable[[], None]) -> None:
        """Do something that waits for a sync; if the power goes now, the crash decides if it happened."""
        with self.guard:
            is_last = self.admit(operation, path)
            act()
            if is_last:
                self._go_down()

    def store(self, operation: str, path: str, act: Callable[[], None], fail: Callable[[], None]) -> None:
        """Do a sync; if the power goes now, it did not happen. `fail` is what a planned error does."""
        with self.guard:
            try:
                is_last = self.admit(operation, path)
            except OSError:
                fail()
                raise
            if is_last:
                self._go_down()
            act()

    def run_sync_hook(self, path: str) -> None:
        """Be as slow as the test wants, without holding up other threads."""
        self.check_power()
        if self.faults.on_sync is not None:
            self.faults.on_sync(path)

    def admit(self, operation: str, path: str) -> bool:
        """Count an operation, raise its planned error; True if it is the last before the crash."""
        self.check_power()
        return self.faults.admit(operation, path)

    def check_power(self) -> None:
        """Nothing works without power."""
        if self.is_down:
            raise Crash

    def _go_down(self) -> None:
        self.is_down = True
        raise Crash

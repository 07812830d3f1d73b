"""What the cores ask of the world: files, and a way to run blocking work.

Production hands in real files and threads; tests hand in a disk in memory that can
tear, forget and lie, and run the very same code on it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

T = TypeVar("T")

# Anything that exposes bytes without a copy.
Buffer = bytes | bytearray | memoryview


class ColdRead(Exception):
    """The bytes are not in the page cache; ask again where blocking is allowed."""


class File(Protocol):
    """One open file. Appends go to the end; reads name their position."""

    def size(self) -> int:
        """Bytes in the file, counting every append that returned."""
        ...

    def append(self, parts: Sequence[Buffer]) -> int:
        """Write the parts back to back at the end and return where they begin.

        On any error (disk full included) the file is cut back to its former size,
        so a failed append leaves nothing behind.
        """
        ...

    def pread(self, size: int, position: int, *, nowait: bool = False) -> bytes | bytearray:
        """Read up to `size` bytes; short only at the end. `nowait` may raise ColdRead.

        The kernel fills a fresh bytearray where that saves a copy; nobody else holds it.
        """
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        ...

    def sync(self) -> None:
        """Make every byte appended so far survive a power cut (fdatasync)."""
        ...

    def look_again(self) -> None:
        """Learn the size anew: the file may have grown through another handle. For the one who appends."""
        ...

    def finish(self) -> None:
        """Give back what is kept for appends on the disk: none is to come soon. For the one who appends."""
        ...

    def close(self) -> None:
        """Release the handle. A second close does no harm."""
        ...


class Files(Protocol):
    """A directory tree. Every path is relative to its root, with `/` between parts."""

    # Whether `sync_all` also reports that a file which has been closed since could not be written.
    sync_all_reports_closed_files: bool
    # How often `sync_all` has failed. A failure is reported once, to whoever calls next, and may be anybody's.
    sync_all_failures: int

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and appending; FileNotFoundError unless `create`."""
        ...

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there."""
        ...

    def size(self, path: str) -> int:
        """Bytes in a file that need not be open."""
        ...

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted; empty when there is no such directory."""
        ...

    def is_dir(self, path: str) -> bool:
        """Whether the path is a directory."""
        ...

    def make_dirs(self, path: str) -> None:
        """Create a directory and its parents, entries synced."""
        ...

    def read(self, path: str) -> bytes:
        """A whole small file."""
        ...

    def replace(self, path: str, content: bytes) -> None:
        """Write a small file atomically and durably: new file, sync, rename, sync directory."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory, replacing a file of that name."""
        ...

    def remove(self, path: str) -> None:
        """Delete a file; no error when it is gone."""
        ...

    def remove_tree(self, path: str) -> None:
        """Delete a directory and all in it; no error when it is gone."""
        ...

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory survive a power cut."""
        ...

    def sync_all(self) -> None:
        """Make every byte of every file survive a power cut (syncfs)."""
        ...

    def lock(self, path: str) -> AbstractContextManager[None]:
        """Hold the path exclusively until exit; raises `DataDirectoryInUse`."""
        ...

    def free_bytes(self) -> int:
        """Space left for us on this disk."""
        ...


# Makes a lock between threads. Where everything runs on one thread, `contextlib.nullcontext` is one.
MakeLock = Callable[[], AbstractContextManager[object]]


class Offload(Protocol):
    """Runs a blocking call where it does not hold up the event loop."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]:
        """Run `work` and await what it returns or raises."""
        ...

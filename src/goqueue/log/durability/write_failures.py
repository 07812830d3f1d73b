"""What the disk says when it refuses, in our words; and who is told of it."""

from __future__ import annotations

import errno
from typing import Protocol

from goqueue.errors import DiskFull, StorageError, TooManyOpenFiles

# Not the disk's doing: the process, or the whole system, has no handle left to open a file with.
NO_HANDLES = frozenset({errno.EMFILE, errno.ENFILE})


class WriteObserver(Protocol):
    """Told of every write that failed, and of the first that succeeds again."""

    # Whether a write has failed that no later one made up for.
    is_failing: bool

    def failed(self, directory: str, error: OSError) -> None:
        """Something could not be written for the log in this directory."""
        ...

    def sync_failed(self, directory: str, error: BaseException) -> None:
        """The log in this directory takes no more writes until it is opened again."""
        ...

    def succeeded(self, directory: str) -> None:
        """A write succeeded while `is_failing`."""
        ...


def storage_error(where: str, error: OSError, *, failed: str = "read") -> StorageError:
    """The error that a client gets; `failed` says what could not be done."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return DiskFull(where)
    if lacks_handles(error):
        return TooManyOpenFiles(where)
    return StorageError(f"{where} could not be {failed}: {error}")


def lacks_handles(error: BaseException | None) -> bool:
    """Whether a file could not be opened for want of a handle, so that nothing was read, written or synced."""
    return isinstance(error, OSError) and error.errno in NO_HANDLES

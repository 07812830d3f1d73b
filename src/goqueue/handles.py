"""How the file handles of the process are shared out: to segments, to connections, and a rest for everything else."""

from __future__ import annotations

import resource

# More open segments than this save nobody anything.
OPEN_FILES_MAX = 4096
# Kept for what has neither a segment nor a connection: indexes of delayed messages, checkpoints, syncs, metrics.
RESERVED = 48


def handles_max() -> int:
    """Handles that this process may have open at once."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else 2**20


def open_files_max(wanted: int = 0) -> int:
    """Files of segments to keep open: half of the handles, or fewer where the setting says so.

    While syncs are behind, half as many again may be open for a moment, with unsynced bytes.
    """
    half = max(handles_max() // 2, 8)
    return min(wanted, half) if wanted else min(half, OPEN_FILES_MAX)


def are_scarce(descriptor: int) -> bool:
    """Whether a new connection takes what is reserved: then it is refused, before accepting itself fails.

    The system gives the lowest descriptor that is free, so that the connection's own tells how many are in use.
    """
    return descriptor >= handles_max() - RESERVED

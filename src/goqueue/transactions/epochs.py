"""Which epochs of a writer are committed: ranges, oldest first, since epochs mostly follow one another.

Bounded: a writer that leaves holes loses its oldest ranges, and epochs in there are refused
from then on instead of being called done. Nothing is ever called committed that was not.
"""

from __future__ import annotations

from goqueue.errors import TransactionFenced

Ranges = tuple[tuple[int, int], ...]

RANGES_MAX = 64


def newest(ranges: Ranges) -> int:
    """The newest committed epoch, -1 before the first."""
    return ranges[-1][1] if ranges else -1


def is_committed(ranges: Ranges, epoch: int) -> bool:
    """Whether this epoch is done; an older one than the newest that was never committed is refused."""
    if epoch > newest(ranges):
        return False
    if any(first <= epoch <= last for first, last in ranges):
        return True
    raise TransactionFenced(f"epoch {epoch} was not committed, and epoch {newest(ranges)} was since")


def with_epoch(ranges: Ranges, epoch: int) -> Ranges:
    """The ranges with one more epoch, which must be newer than all of them."""
    if ranges and ranges[-1][1] == epoch - 1:
        return (*ranges[:-1], (ranges[-1][0], epoch))
    return (*ranges, (epoch, epoch))[-RANGES_MAX:]

"""How the files of a partition are called: a base offset in 20 digits, then what the file is."""

from __future__ import annotations

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
LANE_INDEX = ".laneindex"
ABORTED_INDEX = ".txnindex"
PRODUCER_SNAPSHOT = ".snapshot"
CHECKPOINT = "partition.ckpt"
POISONED = "poisoned"
TEMPORARY = ".tmp"

# Everything that belongs to one segment and goes when it goes, the data last.
SEGMENT_SUFFIXES = (OFFSET_INDEX, TIME_INDEX, LANE_INDEX, ABORTED_INDEX, LOG)

_DIGITS = 20


def file_name(offset: int, suffix: str) -> str:
    """The name of the file of that kind that begins at `offset`."""
    return f"{offset:0{_DIGITS}d}{suffix}"


def offset_in(name: str, suffix: str) -> int | None:
    """The offset in a name of that kind; None if it is the name of something else."""
    stem = name[:_DIGITS]
    if len(name) != _DIGITS + len(suffix) or not name.endswith(suffix) or not (stem.isascii() and stem.isdigit()):
        return None
    return int(stem)


def offsets_of(names: list[str], suffix: str) -> list[int]:
    """The offsets of all files of that kind in a listing, rising."""
    return sorted(offset for name in names if (offset := offset_in(name, suffix)) is not None)

"""How compacted segments take the place of old ones, so that a crash leaves all or nothing of it.

A pass writes its segments into the folder `cleaned`. Then one small file, replaced
atomically, says which ranges of the log they stand for: from that moment the new log is
the log, and whoever finds the file (recovery, first of all) finishes the moves. Every step
may be done twice. Without such a word in the file, the folder is rubbish from a crash.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from goqueue.codec.crc32c import crc32c
from goqueue.errors import CorruptFrame, DamagedIndex
from goqueue.log.segment.file_names import PRODUCER_SNAPSHOT, SEGMENT_SUFFIXES, file_name, offset_in

if TYPE_CHECKING:
    from goqueue.ports import Files

CLEANED = "cleaned"
STATE = "compaction.state"

_MAGIC = b"GQCS"
_VERSION = 1
_HEADER = struct.Struct(">4sHIqI")  # magic, version, crc, cleaned up to, swaps
_CRC_FROM = 10  # the checksum covers everything behind itself
_SWAP = struct.Struct(">qqq")


class Swap(NamedTuple):
    """The segment `cleaned/<base>` stands for all segments that begin in [base, end).

    Snapshots of producers taken in [snapshots_from, end) go with them.
    """

    base_offset: int
    end_offset: int
    snapshots_from: int


@dataclass(frozen=True, slots=True)
class CompactionState:
    """Below `cleaned_to` no key has two records. `swaps` is what was decided but perhaps not yet done."""

    cleaned_to: int = 0
    swaps: tuple[Swap, ...] = ()

    def encode(self) -> bytes:
        """The file's content."""
        body = struct.pack(">qI", self.cleaned_to, len(self.swaps)) + b"".join(_SWAP.pack(*s) for s in self.swaps)
        return _HEADER.pack(_MAGIC, _VERSION, crc32c(body), 0, 0)[:_CRC_FROM] + body

    @classmethod
    def decode(cls, data: bytes, *, where: str) -> CompactionState:
        """What `encode` wrote, or DamagedIndex."""
        if len(data) < _HEADER.size:
            raise DamagedIndex(where, f"only {len(data)} bytes")
        magic, version, crc, cleaned_to, count = _HEADER.unpack_from(data)
        if magic != _MAGIC or version != _VERSION or crc32c(memoryview(data)[_CRC_FROM:]) != crc:
            raise DamagedIndex(where, "its checksum does not match")
        if len(data) != _HEADER.size + count * _SWAP.size:
            raise DamagedIndex(where, f"{len(data)} bytes do not hold {count} swaps")
        return cls(cleaned_to, tuple(Swap._make(s) for s in _SWAP.iter_unpack(data[_HEADER.size :])))


def load_state(files: Files, directory: str) -> CompactionState:
    """How far the log is compacted; nothing is, if the file is missing or damaged."""
    path = f"{directory}/{STATE}"
    try:
        return CompactionState.decode(files.read(path), where=path)
    except (FileNotFoundError, DamagedIndex):
        return CompactionState()


def may_have_gaps(files: Files, directory: str) -> bool:
    """Whether a compaction has been at work, or nobody can say: then missing offsets prove nothing."""
    path = f"{directory}/{STATE}"
    try:
        return CompactionState.decode(files.read(path), where=path).cleaned_to > 0
    except FileNotFoundError:
        return False
    except DamagedIndex:
        return True


def forget_from(files: Files, directory: str, offset: int) -> int:
    """The log is about to be cut at `offset`: what will lie there afterwards no pass has seen.

    Returns how far it is compacted now. To be called before the cut, for it must not be forgotten.
    """
    state = load_state(files, directory)
    if state.cleaned_to <= offset:
        return state.cleaned_to
    files.replace(f"{directory}/{STATE}", CompactionState(offset).encode())
    return offset


def finish_interrupted(files: Files, directory: str) -> bool:
    """Bring a compaction that a crash interrupted to its end, or undo it. True if there was one.

    The first thing to do with a log's directory, before any name in it is believed.
    """
    if not files.exists(f"{directory}/{CLEANED}"):
        return False
    path = f"{directory}/{STATE}"
    try:
        state = CompactionState.decode(files.read(path), where=path)
    except FileNotFoundError:
        state = CompactionState()
    except DamagedIndex as damage:
        # Some of the old segments may be gone already, and which ones is what the file said.
        raise CorruptFrame(path, 0, f"{damage.reason}, and a compaction was under way") from damage
    for swap in state.swaps:
        install(files, directory, swap)
    finish(files, directory, state.cleaned_to)
    return True


def publish(files: Files, directory: str, state: CompactionState) -> None:
    """Decide for the new segments, which are on the disk whole: they are the log from here on."""
    files.replace(f"{directory}/{STATE}", state.encode())


def install(files: Files, directory: str, swap: Swap) -> None:
    """Remove the old segments of the range and move the new one in. May be done twice."""
    for name in files.list(directory):
        if _is_superseded(name, swap):
            files.remove(f"{directory}/{name}")
    # Every kind of file was written for the new segment, so one that is not here has been moved.
    for suffix in SEGMENT_SUFFIXES:
        name = file_name(swap.base_offset, suffix)
        if files.exists(f"{directory}/{CLEANED}/{name}"):
            files.rename(f"{directory}/{CLEANED}/{name}", f"{directory}/{name}")


def _is_superseded(name: str, swap: Swap) -> bool:
    taken = offset_in(name, PRODUCER_SNAPSHOT)
    if taken is not None:
        return swap.snapshots_from <= taken < swap.end_offset
    bases = (offset_in(name, suffix) for suffix in SEGMENT_SUFFIXES)
    return any(base is not None and swap.base_offset < base < swap.end_offset for base in bases)


def finish(files: Files, directory: str, cleaned_to: int) -> None:
    """All moves are done: make them durable, then forget that they were to be done."""
    # Before the word goes: a file system need not store the names in the order they changed.
    files.sync_dir(directory)
    if load_state(files, directory) != CompactionState(cleaned_to):
        files.replace(f"{directory}/{STATE}", CompactionState(cleaned_to).encode())
    discard(files, directory)


def discard(files: Files, directory: str) -> None:
    """Throw away what a pass wrote."""
    files.remove_tree(f"{directory}/{CLEANED}")

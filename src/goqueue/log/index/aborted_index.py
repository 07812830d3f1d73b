"""Aborted transactions of one segment (`.txnindex`): which records a committed reader must not see.

An entry lies with the segment that holds its abort marker, so entries are in the order of
their markers. The file: a header (magic `GQTX`, version, count, CRC), then fixed-width
entries, each with its own CRC, so that a sealed index is searched by pread and never held
in memory. An index without entries is a header alone: a missing file is not an empty one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from goqueue.codec.batch import parse_batch_header
from goqueue.codec.crc32c import crc32c
from goqueue.codec.frame import HEADER_BYTES as FRAME_HEADER_BYTES
from goqueue.codec.frame import Flags
from goqueue.errors import DamagedIndex
from goqueue.records import AbortedTransaction

if TYPE_CHECKING:
    from goqueue.codec.frame import FrameHeader
    from goqueue.log.state.producer_state import ProducerState
    from goqueue.ports import Buffer, File

_MAGIC = b"GQTX"
_VERSION = 1
_HEADER = struct.Struct(">4sHII")  # magic, version, count, crc of what is before it
# What a file without entries takes.
EMPTY_BYTES = _HEADER.size
_ENTRY = struct.Struct(">qqqqI")  # producer id, first, last, last stable, crc of what is before it
_ENTRY_BODY_BYTES = _ENTRY.size - 4
_ENTRIES_PER_READ = 1024
_NANOSECONDS_PER_MS = 1_000_000

_Read = Callable[[int, int], "list[AbortedTransaction]"]


class Overlap(NamedTuple):
    """Aborted transactions that touch a range. `complete`: no later segment can hold another one."""

    aborted: list[AbortedTransaction]
    complete: bool


class AbortedIndex:
    """The index of a segment that still grows. Entries come in the order of their markers."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[AbortedTransaction] = ()) -> None:
        self._entries = list(entries)

    def append(self, entry: AbortedTransaction) -> None:
        """Add what an abort marker closed."""
        self._entries.append(entry)

    def overlapping(self, first: int, upper: int) -> Overlap:
        """The aborted transactions with records in [first, upper)."""
        return _search(lambda at, count: self._entries[at : at + count], len(self._entries), first, upper)

    def truncate(self, offset: int) -> None:
        """The log now ends at `offset`: forget markers that lay there or later."""
        while self._entries and self._entries[-1].last_offset >= offset:
            self._entries.pop()

    def entries(self) -> list[AbortedTransaction]:
        """A copy, oldest marker first."""
        return list(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def encode(self) -> bytes:
        """The file's content."""
        head = _HEADER.pack(_MAGIC, _VERSION, len(self._entries), 0)[:-4]
        parts = [head + crc32c(head).to_bytes(4, "big")]
        for entry in self._entries:
            body = _ENTRY.pack(entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset, 0)[
                :-4
            ]
            parts.append(body + crc32c(body).to_bytes(4, "big"))
        return b"".join(parts)

    @classmethod
    def decode(cls, data: Buffer, *, where: str = "aborted index") -> AbortedIndex:
        """What `encode` wrote, or DamagedIndex."""
        count = _read_count(data, len(data), where)
        return cls(_parse_entries(memoryview(data)[_HEADER.size :], count, where))

    @classmethod
    def rebuild(cls, frames: Iterable[tuple[FrameHeader, Buffer]], producers: ProducerState) -> AbortedIndex:
        """The index again, from a segment's frames and the producers as they stood before it.

        `producers` is carried forward by the frames; a transaction may have begun in an earlier
        segment, so the frames alone do not tell where.
        """
        index = cls()
        for header, frame in frames:
            batch = parse_batch_header(frame, FRAME_HEADER_BYTES)
            commit = bool(header.flags & Flags.COMMIT) if header.flags & Flags.CONTROL else None
            now_ms = header.timestamp_ns // _NANOSECONDS_PER_MS
            aborted = producers.apply(batch, header.offset, commit=commit, now_ms=now_ms)
            if aborted is not None:
                index.append(aborted)
        return index


def search_file(file: File, first: int, upper: int, *, where: str) -> Overlap:
    """As `AbortedIndex.overlapping`, in the file of a sealed segment; DamagedIndex if it is unsound."""
    size = file.size()
    count = _read_count(file.pread(_HEADER.size, 0), size, where)

    def read(at: int, entries: int) -> list[AbortedTransaction]:
        entries = min(entries, count - at)
        data = file.pread(entries * _ENTRY.size, _HEADER.size + at * _ENTRY.size)
        return _parse_entries(data, entries, where)

    return _search(read, count, first, upper)


def _search(read: _Read, count: int, first: int, upper: int) -> Overlap:
    low, high = 0, count
    while low < high:  # the first entry whose marker is not before the range
        middle = (low + high) // 2
        if read(middle, 1)[0].last_offset < first:
            low = middle + 1
        else:
            high = middle
    found: list[AbortedTransaction] = []
    for at in range(low, count, _ENTRIES_PER_READ):
        for entry in read(at, _ENTRIES_PER_READ):
            if entry.first_offset < upper:
                found.append(entry)
            if entry.last_stable_offset >= upper:
                # All that began below `upper` had been decided by then.
                return Overlap(found, complete=True)
    return Overlap(found, complete=False)


def _read_count(header: Buffer, file_bytes: int, where: str) -> int:
    if len(header) < _HEADER.size:
        raise DamagedIndex(where, f"only {len(header)} bytes")
    magic, version, count, crc = _HEADER.unpack_from(header)
    if magic != _MAGIC or version != _VERSION or crc32c(memoryview(header)[: _HEADER.size - 4]) != crc:
        raise DamagedIndex(where, "its header is not sound")
    if file_bytes != _HEADER.size + count * _ENTRY.size:
        raise DamagedIndex(where, f"{file_bytes} bytes do not hold {count} entries")
    return int(count)


def _parse_entries(data: Buffer, count: int, where: str) -> list[AbortedTransaction]:
    if len(data) != count * _ENTRY.size:
        raise DamagedIndex(where, "it ends inside an entry")
    view = memoryview(data)
    entries = []
    for position in range(0, len(view), _ENTRY.size):
        producer_id, first, last, stable, crc = _ENTRY.unpack_from(view, position)
        if crc32c(view[position : position + _ENTRY_BODY_BYTES]) != crc:
            raise DamagedIndex(where, f"the entry at byte {_HEADER.size + position} fails its checksum")
        entries.append(AbortedTransaction(producer_id, first, last, stable))
    return entries

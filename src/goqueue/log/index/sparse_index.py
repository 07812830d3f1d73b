"""A sparse index: two rising columns, on disk but for the newest entries, which wait in memory.

Memory stays flat however long a segment grows: the tail spills to the file a block at a
time, and what has spilled is found again by a binary search of reads. The index is a
hint. Nothing believes it before looking at the frame it points to (`time_check` does so
for times), so it needs no checksum and no sync of its own while its segment grows.
"""

from __future__ import annotations

from bisect import bisect_right
from struct import Struct
from typing import NamedTuple

from goqueue.ports import File

BLOCK_ENTRIES = 512


class _Tail(NamedTuple):
    """What a reader takes in one look: how many entries are in the file, and those that are not."""

    spilled: int
    keys: list[int]
    values: list[int]


class SparseIndex:
    """Entries (key, value) of fixed width, keys rising. One thread adds, any thread searches."""

    __slots__ = ("_entry", "_tail")

    def __init__(self, entry: Struct, *, spilled: int = 0) -> None:
        self._entry = entry
        self._tail = _Tail(spilled, [], [])

    def __len__(self) -> int:
        tail = self._tail
        return tail.spilled + len(tail.keys)

    @property
    def spilled(self) -> int:
        """Entries that are in the file."""
        return self._tail.spilled

    @property
    def has_tail(self) -> bool:
        """Whether entries wait that the file does not have."""
        return bool(self._tail.keys)

    def add(self, key: int, value: int) -> bool:
        """Put an entry behind all others; True if a block's worth of them waits in memory."""
        _, keys, values = self._tail
        # Readers search the keys, so the value must be there first.
        values.append(value)
        keys.append(key)
        return not len(keys) % BLOCK_ENTRIES

    def spill(self, file: File) -> None:
        """Move the tail to the file. On an error nothing has moved."""
        tail = self._tail
        if not tail.keys:
            return
        pack = self._entry.pack
        file.append([b"".join(map(pack, tail.keys, tail.values))])
        self._tail = _Tail(tail.spilled + len(tail.keys), [], [])

    def floor(self, key: int, file: File | None, *, nowait: bool = False) -> tuple[int, int] | None:
        """The last entry whose key is not above `key`; None if there is none."""
        tail = self._tail
        at = bisect_right(tail.keys, key)
        if at:
            return tail.keys[at - 1], tail.values[at - 1]
        if not tail.spilled or file is None:
            return None
        return self._floor_in_file(0, key, file, tail.spilled, nowait=nowait)

    def floor_by_value(self, value: int, file: File | None, *, nowait: bool = False) -> tuple[int, int] | None:
        """As `floor`, by the other column, which must rise as well."""
        tail = self._tail
        # A value may be there a moment before its key.
        at = bisect_right(tail.values, value, 0, len(tail.keys))
        if at:
            return tail.keys[at - 1], tail.values[at - 1]
        if not tail.spilled or file is None:
            return None
        return self._floor_in_file(1, value, file, tail.spilled, nowait=nowait)

    def last(self, file: File | None) -> tuple[int, int] | None:
        """The newest entry."""
        tail = self._tail
        if tail.keys:
            return tail.keys[-1], tail.values[-1]
        if not tail.spilled or file is None:
            return None
        data = file.pread(self._entry.size, (tail.spilled - 1) * self._entry.size)
        return self._unpack(data, 0) if len(data) == self._entry.size else None

    def entries(self, file: File | None) -> list[tuple[int, int]]:
        """All entries: for recovery and inspection, not for lookups."""
        tail = self._tail
        found: list[tuple[int, int]] = []
        if tail.spilled and file is not None:
            data = file.pread(tail.spilled * self._entry.size, 0)
            whole = len(data) - len(data) % self._entry.size
            found.extend((key, value) for key, value in self._entry.iter_unpack(memoryview(data)[:whole]))
        found.extend(zip(tail.keys, tail.values, strict=True))
        return found

    def keep(self, count: int, file: File | None) -> None:
        """Forget all but the first `count` entries, in memory and in the file."""
        tail = self._tail
        whole_bytes = min(count, tail.spilled) * self._entry.size
        if file is not None and file.size() > whole_bytes:
            # Not only whole entries: a torn one at the end would shift all that are written behind it.
            file.truncate(whole_bytes)
        if count < tail.spilled and file is not None:
            self._tail = _Tail(count, [], [])
        else:
            left = max(count - tail.spilled, 0)
            self._tail = _Tail(tail.spilled, tail.keys[:left], tail.values[:left])

    def _floor_in_file(
        self, column: int, wanted: int, file: File, count: int, *, nowait: bool
    ) -> tuple[int, int] | None:
        width = self._entry.size
        low, high = 0, count
        while high - low > BLOCK_ENTRIES:
            middle = (low + high) // 2
            data = file.pread(width, middle * width, nowait=nowait)
            if len(data) < width:
                return None
            if self._unpack(data, 0)[column] <= wanted:
                low = middle
            else:
                high = middle
        block = file.pread((high - low) * width, low * width, nowait=nowait)
        unpack = self._entry.unpack_from
        behind = bisect_right(range(len(block) // width), wanted, key=lambda at: unpack(block, at * width)[column])
        return self._unpack(block, (behind - 1) * width) if behind else None

    def _unpack(self, data: bytes | bytearray, position: int) -> tuple[int, int]:
        key, value = self._entry.unpack_from(data, position)
        return key, value

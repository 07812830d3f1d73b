"""The offset index of a segment: which byte to start reading at, one entry per 4 KB of log.

`.index`: entries of 8 bytes, offset relative to the segment's base (4) and position (4).
"""

from __future__ import annotations

from struct import Struct

from goqueue.log.index.sparse_index import SparseIndex
from goqueue.ports import File

ENTRY = Struct(">II")
# Relative offsets and positions have 32 bits; a segment is rolled before either runs out.
RELATIVE_OFFSET_MAX = 2**32 - 1
POSITION_MAX = 2**32 - 1


class OffsetIndex(SparseIndex):
    """Maps offsets to the positions of the frames that hold them, or of frames shortly before."""

    __slots__ = ("_base_offset", "interval_bytes", "next_position")

    def __init__(self, base_offset: int, interval_bytes: int, *, spilled: int = 0) -> None:
        super().__init__(ENTRY, spilled=spilled)
        self._base_offset = base_offset
        self.interval_bytes = interval_bytes
        # The next frame at or behind this position gets an entry. The frame at position 0
        # needs none: every search that finds nothing starts there.
        self.next_position = interval_bytes

    def resume(self, file: File | None) -> None:
        """Go on behind the last entry of an index that was closed."""
        last = self.last(file)
        self.next_position = (last[1] if last else 0) + self.interval_bytes

    def note(self, offset: int, position: int) -> bool:
        """Index the frame at `position`; True if so many entries wait that they should spill."""
        self.next_position = position + self.interval_bytes
        return self.add(offset - self._base_offset, position)

    def position_before(self, offset: int, file: File | None, *, nowait: bool = False) -> int:
        """Where to start looking for `offset`: the last indexed frame not behind it."""
        found = self.floor(offset - self._base_offset, file, nowait=nowait)
        return found[1] if found else 0

    def frame_before(self, position: int, file: File | None, *, nowait: bool = False) -> int:
        """Where the last indexed frame begins that does not begin behind `position`."""
        found = self.floor_by_value(position, file, nowait=nowait)
        return found[1] if found else 0

    def cut(self, position: int, file: File | None) -> bool:
        """Forget the frames at or behind `position`; False if what is left is not a rising list."""
        kept, is_sound = 0, True
        last = (0, 0)
        for entry in self.entries(file):
            if entry[0] <= last[0] or entry[1] <= last[1]:
                is_sound = False
                break
            if entry[1] >= position:
                break
            kept += 1
            last = entry
        self.keep(kept, file)
        self.next_position = last[1] + self.interval_bytes
        return is_sound

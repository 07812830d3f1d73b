"""The time index of a segment: from which frame on a timestamp can have been reached.

`.timeindex`: entries of 12 bytes, largest timestamp so far (8) and the offset of the
frame that reached it, relative to the base (4). The first column is a running maximum,
so it rises whatever clocks the producers have: every frame up to and including
the one named has only timestamps up to the one beside it. Frames without a timestamp count
with the time of their append.
"""

from __future__ import annotations

from struct import Struct

from goqueue.codec.batch import BatchHeader
from goqueue.codec.frame import FrameHeader
from goqueue.log.index.sparse_index import SparseIndex
from goqueue.ports import File

ENTRY = Struct(">qI")
NO_TIMESTAMP = -1
_NS_PER_MS = 1_000_000


def frame_time_ms(header: FrameHeader, batch: BatchHeader) -> int:
    """The time by which a frame is kept, deleted and found: that of its newest record.

    0 or less is not a time: producers write it into the header of a batch whose records have no
    timestamp (librdkafka writes 0). Such a frame has the time of its append.
    """
    stamp_ms = batch.max_timestamp_ms
    return stamp_ms if stamp_ms > 0 else header.timestamp_ns // _NS_PER_MS


class TimeIndex(SparseIndex):
    """Maps timestamps to offsets before which no record has reached them."""

    __slots__ = ("_base_offset", "_max_offset", "_noted_ms", "max_timestamp_ms")

    def __init__(self, base_offset: int, *, spilled: int = 0) -> None:
        super().__init__(ENTRY, spilled=spilled)
        self._base_offset = base_offset
        self.max_timestamp_ms = NO_TIMESTAMP
        self._max_offset = base_offset
        self._noted_ms = NO_TIMESTAMP

    def see(self, timestamp_ms: int, offset: int) -> None:
        """Take note of a frame's largest timestamp."""
        if timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = timestamp_ms
            self._max_offset = offset

    def note(self) -> None:
        """Write down the running maximum if it has grown since the last entry."""
        if self.max_timestamp_ms > self._noted_ms:
            self._noted_ms = self.max_timestamp_ms
            self.add(self.max_timestamp_ms, self._max_offset - self._base_offset)

    @property
    def last_offset(self) -> int:
        """The frame that reached the largest timestamp seen."""
        return self._max_offset

    def entry_before(self, timestamp_ms: int, file: File | None) -> tuple[int, int] | None:
        """A time and the offset of the frame that reached it, such that nothing before that reaches `timestamp_ms`."""
        found = self.floor(timestamp_ms - 1, file)
        return (found[0], self._base_offset + found[1]) if found else None

    def load_maximum(self, file: File | None) -> None:
        """Take the running maximum from the last entry, which a sealed segment always has."""
        last = self.last(file)
        if last is not None:
            self.max_timestamp_ms = self._noted_ms = last[0]
            self._max_offset = self._base_offset + last[1]

    def cut(self, end_offset: int, file: File | None) -> bool:
        """Forget the frames at or behind `end_offset`; False if what is left is not a rising list."""
        kept, is_sound = 0, True
        last = (NO_TIMESTAMP, -1)
        for entry in self.entries(file):
            if entry[0] <= last[0] or entry[1] < last[1]:
                is_sound = False
                break
            if self._base_offset + entry[1] >= end_offset:
                break
            kept += 1
            last = entry
        self.keep(kept, file)
        self.max_timestamp_ms = self._noted_ms = last[0]
        self._max_offset = self._base_offset + max(last[1], 0)
        return is_sound

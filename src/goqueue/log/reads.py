"""Reading: batches or whole frames from an offset on, checked, as views into what the disk gave.

Nothing is copied and nothing is opened. A frame that fails its checksum is never
returned: what lies before it is, and a read that begins at it raises CorruptFrame.
"""

from __future__ import annotations

from typing import NamedTuple

from goqueue.codec.frame import HEADER_BYTES, FrameDamage, parse_frame_header, walk_frames
from goqueue.errors import CorruptFrame
from goqueue.log.frame_reader import find_frame
from goqueue.log.segment import Segment
from goqueue.log.segment_cache import SegmentFiles
from goqueue.log.segment_list import Segments
from goqueue.ports import ColdRead

# Room for the frames between an index entry and the offset asked for.
_SLACK_BYTES = 8 * 1024
_CHUNK_BYTES_MAX = 8 * 1024 * 1024


class Read(NamedTuple):
    """What a read found, and where to go on."""

    batches: list[memoryview]
    next_offset: int
    bytes: int


class Reader:
    """One read in the making."""

    __slots__ = ("_batches", "_frames", "_max_bytes", "_next_offset", "_nowait", "_taken", "_upper")

    def __init__(self, offset: int, *, max_bytes: int, upper: int, frames: bool, nowait: bool) -> None:
        self._next_offset = offset
        self._max_bytes = max_bytes
        self._upper = upper
        self._frames = frames
        self._nowait = nowait
        self._batches: list[memoryview] = []
        self._taken = 0

    def read(self, segments: Segments) -> Read:
        """Collect from as many segments as it takes."""
        for segment in segments.from_offset(self._next_offset):
            if segment.base_offset >= self._upper:
                break
            files = segment.pin()
            try:
                if self._collect(segment, files):
                    break
            except ColdRead:
                if not self._batches:
                    raise
                break
            finally:
                files.unpin()
        return Read(self._batches, self._next_offset, self._taken)

    def _collect(self, segment: Segment, files: SegmentFiles) -> bool:
        """Take what this segment has; True when the read is complete."""
        end = segment.size_bytes
        position = 0
        if self._next_offset > segment.base_offset:
            position = segment.position_before(self._next_offset, files, nowait=self._nowait)
        indexed = position > 0
        want = self._max_bytes - self._taken + _SLACK_BYTES
        while position < end:
            data = files.log.pread(min(want, _CHUNK_BYTES_MAX, end - position), position, nowait=self._nowait)
            view = memoryview(data)
            try:
                if self._take(view, indexed=indexed):
                    return True
                if not view:
                    raise FrameDamage(0, f"{end - position} bytes are missing")
                position += len(view)
            except _BadHint:
                position = 0
            except FrameDamage as damage:
                at = position + damage.position
                if damage.is_short and position + len(view) < end:
                    want = self._want_frame(view, damage.position)
                    if not want:
                        return True
                    position = at
                elif self._batches:
                    return True
                elif indexed and damage.position == 0:
                    position = 0
                else:
                    position = self._behind_damage(segment, files, at, end, damage.reason)
            indexed = False
        return False

    def _take(self, view: memoryview, *, indexed: bool) -> bool:
        """Take the frames in `view`; True when no more are wanted."""
        batches, upper, max_bytes = self._batches, self._upper, self._max_bytes
        next_offset, taken = self._next_offset, self._taken
        try:
            for position, end, header, batch in walk_frames(view):
                if indexed:
                    if batch[0] > next_offset:
                        raise _BadHint
                    indexed = False
                last = batch[0] + batch[6]
                if last < next_offset:
                    continue
                if last >= upper:
                    return True
                size = end - position if self._frames else header[6]
                if batches and taken + size > max_bytes:
                    return True
                start = position if self._frames else position + HEADER_BYTES
                batches.append(view[start : start + size])
                taken += size
                next_offset = last + 1
            return taken >= max_bytes
        finally:
            self._next_offset, self._taken = next_offset, taken

    def _want_frame(self, view: memoryview, position: int) -> int:
        """How much to read for the frame that the chunk cuts off; 0 if it is not wanted."""
        if len(view) - position < HEADER_BYTES:
            return self._max_bytes - self._taken + _SLACK_BYTES if self._taken < self._max_bytes else 0
        size = parse_frame_header(view, position).size
        if self._batches and self._taken + size > self._max_bytes:
            return 0
        return max(size, self._max_bytes - self._taken) + HEADER_BYTES

    def _behind_damage(self, segment: Segment, files: SegmentFiles, at: int, end: int, reason: str) -> int:
        """Where to go on when damage lies before the offset asked for; CorruptFrame when it lies there."""
        wanted = self._next_offset
        found = find_frame(files.log, at, end, offset_min=segment.base_offset, offset_max=segment.end_offset)
        if found is not None:
            header = parse_frame_header(files.log.pread(HEADER_BYTES, found))
            if header.offset <= wanted:
                return found
        raise CorruptFrame(segment.path, at, reason)


class _BadHint(Exception):
    """The index led behind the offset asked for: it is not of this log."""

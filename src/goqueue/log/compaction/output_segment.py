"""The segment that a compaction pass writes, in a folder of its own until it takes its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.codec.batch import CONTROL, parse_batch_header
from goqueue.codec.frame import HEADER_BYTES, parse_frame_header
from goqueue.log.index.aborted_index import AbortedIndex
from goqueue.log.index.batch_lanes import frame_runs
from goqueue.log.index.lane_index import LaneIndex
from goqueue.log.index.time_index import frame_time_ms
from goqueue.log.segment.file_names import SEGMENT_SUFFIXES
from goqueue.log.segment.handle_cache import SegmentCache
from goqueue.log.segment.segment import Segment

if TYPE_CHECKING:
    from goqueue.ports import Buffer, Files
    from goqueue.records import AbortedTransaction

_FLUSH_BYTES = 1024 * 1024
_FLUSH_FRAMES = 512


class CleanedSegment:
    """Takes frames in order and leaves a sealed segment with all its indexes, synced."""

    def __init__(self, files: Files, folder: str, base_offset: int, *, interval_bytes: int) -> None:
        self._files = files
        # A cache of its own: handles to the temporary names must not outlive them.
        self._segment = Segment(
            files,
            SegmentCache(1),
            folder,
            base_offset,
            size_bytes=0,
            end_offset=base_offset,
            interval_bytes=interval_bytes,
        )
        self._lanes = self._segment.lanes = LaneIndex(base_offset)
        self._aborted = self._segment.aborted = AbortedIndex()
        self._segment.begin(create=True)
        self._waiting: list[Buffer] = []
        self._waiting_bytes = 0
        self.base_offset = base_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of frames so far."""
        return self._segment.size_bytes + self._waiting_bytes

    def append(self, frame: Buffer) -> None:
        """Take the next frame; it is written with its neighbours."""
        self._waiting.append(frame)
        self._waiting_bytes += len(frame)
        if self._waiting_bytes >= _FLUSH_BYTES or len(self._waiting) >= _FLUSH_FRAMES:
            self._flush()

    def append_aborted(self, entry: AbortedTransaction) -> None:
        """Take an aborted transaction whose marker lies in this segment, in the order of the markers."""
        self._aborted.append(entry)

    def close(self, end_offset: int) -> None:
        """Write everything out and make it durable, but for the names in the folder."""
        self._flush()
        self._segment.end_offset = end_offset
        self._segment.write_indexes()
        handles = self._segment.hold()
        for suffix in SEGMENT_SUFFIXES:
            file = handles.index(suffix, create=True)
            if file is not None:
                file.sync()
        self._segment.release()

    def abandon(self) -> None:
        """Let go of the files; whoever owns the folder removes them."""
        self._segment.release()

    def discard(self) -> None:
        """Remove the files: they are not wanted."""
        self._segment.remove_files()

    def _flush(self) -> None:
        if not self._waiting:
            return
        position = self._segment.hold().log.append(self._waiting)
        for frame in self._waiting:
            self._note(frame, position)
            position += len(frame)
        self._segment.size_bytes = position
        self._waiting = []
        self._waiting_bytes = 0

    def _note(self, frame: Buffer, position: int) -> None:
        header = parse_frame_header(frame)
        batch = parse_batch_header(frame, HEADER_BYTES)
        self._segment.note_frame(header.offset, position, frame_time_ms(header, batch))
        if not batch.attributes & CONTROL:
            value = memoryview(frame)[HEADER_BYTES : HEADER_BYTES + header.value_bytes]
            for run in frame_runs(header.flags, header.priority, batch, value):
                self._lanes.append_run(*run)

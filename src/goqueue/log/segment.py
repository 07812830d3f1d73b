"""A segment: one stretch of a partition's log, in one `.log` file with its indexes beside it.

The last segment of a log is active and takes appends from one thread; the others are
sealed. Any thread may read any of them: it pins the open files first, and reads no
further than the size it found published.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from goqueue.codec.frame import HEADER_BYTES, FrameDamage, FrameHeader, parse_frame_header
from goqueue.errors import CorruptFrame
from goqueue.log.aborted_index import AbortedIndex
from goqueue.log.checkpoint import Checkpoint
from goqueue.log.frame_reader import frame_at, frames_in
from goqueue.log.lane_index import LaneIndex
from goqueue.log.offset_index import ENTRY as OFFSET_ENTRY
from goqueue.log.offset_index import OffsetIndex
from goqueue.log.pinned_files import PinnedFiles
from goqueue.log.segment_cache import SegmentCache, SegmentFiles
from goqueue.log.segment_names import ABORTED_INDEX, LANE_INDEX, OFFSET_INDEX, TIME_INDEX, file_name
from goqueue.log.time_index import ENTRY as TIME_ENTRY
from goqueue.log.time_index import TimeIndex
from goqueue.ports import Buffer, File, Files

# From this size on, a part of a frame that is read in vain costs more than a search of the index.
_LARGE_FRAME_BYTES = 64 * 1024


class Segment(PinnedFiles):
    """Frames from `base_offset` up to `end_offset`, in `size_bytes` bytes."""

    __slots__ = (
        "_index",
        "_interval_bytes",
        "_times",
        "aborted",
        "base_offset",
        "end_offset",
        "first_append_ms",
        "has_no_aborted",
        "lanes",
        "resume",
        "size_bytes",
    )

    def __init__(
        self,
        files: Files,
        cache: SegmentCache,
        directory: str,
        base_offset: int,
        *,
        size_bytes: int,
        end_offset: int,
        interval_bytes: int,
    ) -> None:
        super().__init__(files, cache, f"{directory}/{file_name(base_offset, '')}")
        self.base_offset = base_offset
        self.end_offset = end_offset
        self.size_bytes = size_bytes
        self._interval_bytes = interval_bytes
        self._index: OffsetIndex | None = None
        self._times: TimeIndex | None = None
        # When the first frame was written, by the leader's clock; not known before `begin`.
        self.first_append_ms: int | None = None
        # Where the last read ended: the next offset, its position, and the size of frames
        # there. Readers mostly go on from there, and need not search then.
        self.resume: tuple[int, int, int] | None = None
        # In memory while the segment grows; once it is sealed they are files.
        self.lanes: LaneIndex | None = None
        self.aborted: AbortedIndex | None = None
        # Sealed, and its file is known to hold no entry: whoever asks need not open it.
        self.has_no_aborted = False

    def __repr__(self) -> str:
        return f"Segment({self.path}, offsets {self.base_offset} to {self.end_offset}, {self.size_bytes} bytes)"

    # --- its life ---------------------------------------------------------------------

    def begin(self, *, now_ms: int | None = None, create: bool = False) -> None:
        """Take appends from now on. `now_ms` is when an empty segment gets its first frame, if that is known."""
        files = self.hold(create=create)
        self.index.resume(files.index(OFFSET_INDEX))
        if self.lanes is None:
            self.lanes = LaneIndex(self.base_offset)
        if self.aborted is None:
            self.aborted = AbortedIndex()
        self.first_append_ms = now_ms
        with suppress(FrameDamage):
            self.first_append_ms = parse_frame_header(files.log.pread(HEADER_BYTES, 0)).timestamp_ns // 1_000_000

    def write_indexes(self) -> None:
        """Write every index out whole, as a sealed segment has them. May be done again."""
        files = self.hold()
        self.spill_indexes(whole=True)
        for suffix, index in ((LANE_INDEX, self.lanes), (ABORTED_INDEX, self.aborted)):
            file = files.index(suffix, create=True)
            if file is not None and index is not None:
                file.truncate(0)
                file.append([index.encode()])

    def seal(self) -> SegmentFiles:
        """Take no more appends: the files are the cache's from now on. They are returned pinned."""
        with suppress(OSError):
            self.hold().log.finish()
        files = self.hand_over()
        self.lanes = None
        # In this order: a reader that finds no index looks at the flag next.
        self.has_no_aborted = self.aborted is not None and len(self.aborted) == 0
        self.aborted = None
        return files

    # --- writing ----------------------------------------------------------------------

    def append(self, parts: Sequence[Buffer], size: int, offset: int, end_offset: int, timestamp_ms: int) -> None:
        """Write one frame. On an error nothing has changed. The segment has begun."""
        position = (self._held or self.hold()).log.append(parts)
        self.note_frame(offset, position, timestamp_ms)
        # Published last, and the size before the end: a reader that sees the end finds the bytes.
        self.size_bytes = position + size
        self.end_offset = end_offset

    def note_frame(self, offset: int, position: int, timestamp_ms: int) -> None:
        """Keep the indexes up with a frame at `position`."""
        index, times = self._index, self._times
        if index is None or times is None:
            index, times = self.index, self.times
        if timestamp_ms > times.max_timestamp_ms:
            times.see(timestamp_ms, offset)
        if position >= index.next_position:
            times.note()
            if index.note(offset, position):
                # Without room on the disk the entries wait in memory: an index may not fail an append.
                with suppress(OSError):
                    self.spill_indexes()

    def spill_indexes(self, *, whole: bool = False) -> None:
        """Write index entries that wait in memory. `whole` also notes the largest timestamp of all."""
        files = self.hold()
        if whole:
            self.times.note()
        for suffix, index in ((OFFSET_INDEX, self.index), (TIME_INDEX, self.times)):
            if whole or index.has_tail:
                file = files.index(suffix, create=True)
                if file is not None:
                    index.spill(file)

    def cut(self, position: int, end_offset: int) -> None:
        """Forget everything from `position` on, which is where `end_offset` would begin."""
        files = self.hold()
        self.cut_indexes(position, end_offset)
        if files.log.size() > position:
            files.log.truncate(position)
        self.size_bytes = position
        self.end_offset = end_offset

    def cut_indexes(self, position: int, end_offset: int) -> bool:
        """Let the indexes end at that place; False if they are not sound and must be built again."""
        files = self.hold()
        is_sound = self.index.cut(position, files.index(OFFSET_INDEX))
        is_sound &= self.times.cut(end_offset, files.index(TIME_INDEX))
        if self.lanes is not None:
            self.lanes.truncate(end_offset)
        if self.aborted is not None:
            self.aborted.truncate(end_offset)
        return is_sound

    def load_indexes(self) -> None:
        """Look at the index files now: once others can see the segment, only one thread may."""
        self._index, self._times = self.index, self.times

    def expect_indexes(self, checkpoint: Checkpoint) -> None:
        """Take a checkpoint's word for what the index files hold, without opening them."""
        self._index = OffsetIndex(self.base_offset, self._interval_bytes, spilled=checkpoint.index_entries)
        self._times = TimeIndex(self.base_offset, spilled=checkpoint.time_entries)
        self._times.see(checkpoint.max_timestamp_ms, checkpoint.max_timestamp_offset)

    def restore_indexes(self, checkpoint: Checkpoint) -> bool:
        """Believe the index files up to the checkpoint's recovery point; False if they are lost or unsound."""
        files = self.hold()
        point = checkpoint.recovery
        for suffix, index, entries in (
            (OFFSET_INDEX, self.index, checkpoint.index_entries),
            (TIME_INDEX, self.times, checkpoint.time_entries),
        ):
            if index.spilled < entries:
                return False
            index.keep(entries, files.index(suffix))
        if not self.cut_indexes(point.position, point.offset):
            return False
        # Perhaps more than the frames before the point have: as a bound it is true of them too.
        offset = min(checkpoint.max_timestamp_offset, max(point.offset - 1, self.base_offset))
        self.times.see(checkpoint.max_timestamp_ms, offset)
        return True

    def sync_indexes(self) -> None:
        """Sync the index files that are open, here and now."""
        files = self.hold()
        for file in files.opened():
            if file is not files.log:
                file.sync()

    def sync(self) -> None:
        """Sync the frames and the open indexes, here and now."""
        for file in self.hold().opened():
            file.sync()

    # --- reading ----------------------------------------------------------------------

    @property
    def index(self) -> OffsetIndex:
        """Offsets to positions. For a sealed segment only its length is in memory."""
        if self._index is None:
            self._index = OffsetIndex(
                self.base_offset, self._interval_bytes, spilled=self._entries_on_disk(OFFSET_INDEX, OFFSET_ENTRY.size)
            )
        return self._index

    @property
    def times(self) -> TimeIndex:
        """Timestamps to offsets."""
        if self._times is None:
            times = TimeIndex(self.base_offset, spilled=self._entries_on_disk(TIME_INDEX, TIME_ENTRY.size))
            files = self.pin()
            try:
                times.load_maximum(files.index(TIME_INDEX))
            finally:
                files.unpin()
            self._times = times
        return self._times

    @property
    def max_timestamp_ms(self) -> int:
        """The largest timestamp of any record; -1 if none has one."""
        return self.times.max_timestamp_ms

    def position_before(self, offset: int, files: SegmentFiles, *, nowait: bool = False) -> int:
        """Where to start looking for `offset` in the pinned files. A hint: see what lies there."""
        index = self.index
        position = index.position_before(offset, _offset_file(index, files), nowait=nowait)
        return position if position < self.size_bytes else 0

    def large_frame_before(self, position: int, files: SegmentFiles, *, nowait: bool = False) -> int:
        """Where a frame begins, at or before `position`; 0 where frames are so small that looking is not worth it."""
        index = self.index
        if self.size_bytes < _LARGE_FRAME_BYTES * len(index):
            return 0
        return index.frame_before(position, _offset_file(index, files), nowait=nowait)

    def frames_before(self, offset: int, files: SegmentFiles) -> int:
        """As `position_before`, but looked at: a sound frame that begins at or before `offset`, else the first."""
        position = self.position_before(offset, files) if offset > self.base_offset else 0
        if position:
            try:
                _, frame = frame_at(files.log, position, self.size_bytes)
            except FrameDamage:
                return 0
            if frame.header.offset > offset:
                return 0
        return position

    def times_before(self, timestamp_ms: int) -> int:
        """An offset such that nothing before it in this segment reaches `timestamp_ms`."""
        files = self.pin()
        try:
            return self.times.offset_before(timestamp_ms, files.index(TIME_INDEX))
        finally:
            files.unpin()

    def frames(self, position: int = 0) -> Iterator[tuple[int, FrameHeader, memoryview]]:
        """Every frame from `position` on as (position, header, whole frame), checked."""
        files = self.pin()
        try:
            for chunk, view, frame in frames_in(files.log, position, self.size_bytes):
                yield chunk + frame.position, frame.header, view[frame.position : frame.end]
        except FrameDamage as damage:
            raise CorruptFrame(self.path, damage.position, damage.reason) from None
        finally:
            files.unpin()

    def _entries_on_disk(self, suffix: str, entry_bytes: int) -> int:
        files = self.pin()
        try:
            file = files.index(suffix)
            return file.size() // entry_bytes if file is not None else 0
        finally:
            files.unpin()


def _offset_file(index: OffsetIndex, files: SegmentFiles) -> File | None:
    """The file of an index that has one: to look for it in vain takes longer than a read in a young segment.

    If the first entries move there at this moment, the search finds none and begins at the start of the segment.
    """
    return files.index(OFFSET_INDEX) if index.spilled else None

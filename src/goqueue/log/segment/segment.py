"""A segment: one stretch of a partition's log, in one `.log` file with its indexes beside it.

The last segment of a log is active and takes appends from one thread; the others are
sealed. Any thread may read any of them: it pins the open files first, and reads no
further than the size it found published.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from errno import EIO

from goqueue.codec.frame import HEADER_BYTES, FrameDamage, FrameHeader, parse_frame_header
from goqueue.codec.frame_walk import StoredFrame
from goqueue.errors import CorruptFrame
from goqueue.log.index.aborted_index import AbortedIndex
from goqueue.log.index.lane_index import LaneIndex
from goqueue.log.index.offset_index import ENTRY as OFFSET_ENTRY
from goqueue.log.index.offset_index import OffsetIndex
from goqueue.log.index.time_check import is_true
from goqueue.log.index.time_index import ENTRY as TIME_ENTRY
from goqueue.log.index.time_index import TimeIndex, frame_time_ms
from goqueue.log.segment.file_names import ABORTED_INDEX, LANE_INDEX, OFFSET_INDEX, TIME_INDEX, file_name
from goqueue.log.segment.frame_reader import frame_at, frames_in
from goqueue.log.segment.handle_cache import SegmentCache
from goqueue.log.segment.pinned_files import PinnedFiles
from goqueue.log.segment.segment_files import SegmentFiles
from goqueue.log.state.checkpoint import Checkpoint
from goqueue.ports import Buffer, File, Files

# From this size on, a part of a frame that is read in vain costs more than a search of the index.
_LARGE_FRAME_BYTES = 64 * 1024


class Segment(PinnedFiles):
    """Frames from `base_offset` up to `end_offset`, in `size_bytes` bytes."""

    __slots__ = (
        "_index",
        "_times",
        "aborted",
        "base_offset",
        "end_offset",
        "first_append_ms",
        "has_no_aborted",
        "interval_bytes",
        "is_rebuilt",
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
        self.interval_bytes = interval_bytes
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
        # Its time index was made again from the frames; that is not tried twice.
        self.is_rebuilt = False

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
        # Its indexes were written just now, if nothing else.
        files.mark_unsynced()
        self.lanes = None
        # In this order: a reader that finds no index looks at the flag next.
        self.has_no_aborted = self.aborted is not None and len(self.aborted) == 0
        self.aborted = None
        return files

    # --- writing ----------------------------------------------------------------------

    def append(self, parts: Sequence[Buffer], size: int, offset: int, end_offset: int, timestamp_ms: int) -> None:
        """Write one frame. On an error nothing has changed. The segment has begun."""
        files = self._held
        is_first = files is None or not files.is_unsynced
        position = self._append_first(parts) if is_first else files.log.append(parts)  # type: ignore[union-attr]
        self.note_frame(offset, position, timestamp_ms)
        # Published last, and the size before the end: a reader that sees the end finds the bytes.
        self.size_bytes = position + size
        self.end_offset = end_offset

    def append_run(self, data: Buffer, frames: Sequence[StoredFrame]) -> None:
        """Write frames that lie back to back in `data`, as `append` does each of them, but at once."""
        files = self._held
        is_first = files is None or not files.is_unsynced
        start = self._append_first([data]) if is_first else files.log.append([data])  # type: ignore[union-attr]
        shift = start - frames[0].position
        for position, _, header, batch in frames:
            self.note_frame(header.offset, shift + position, frame_time_ms(header, batch))
        self.size_bytes = start + len(data)
        self.end_offset = frames[-1].batch.last_offset + 1

    def _append_first(self, parts: Sequence[Buffer]) -> int:
        """Append what no sync has covered yet: from now on the files stay open until one has, if there is room."""
        files = self.hold()
        try:
            size = files.log.size()
            if size > self.size_bytes:
                # Left by an append that failed and could not be cut back before these files were closed.
                files.log.truncate(self.size_bytes)
            elif size < self.size_bytes:
                raise OSError(EIO, f"the file has {size} bytes, fewer than the {self.size_bytes} written", self.path)
            position = files.log.append(parts)
        except OSError:
            # Not to the cache: the file may have to be cut back first, and these handles know it.
            self._cache.note_unsynced(self)
            raise
        files.mark_unsynced()
        self._cache.note_unsynced(self)
        return position

    def note_synced(self) -> None:
        """Everything that was written is synced, or never will be: the files need not stay open."""
        if self._held is not None:
            self._held.is_unsynced = False
            if self._cache.may_keep(self):
                # The next append needs them again: a busy log does not go through the cache after every sync.
                return
        self._cache.forget_unsynced(self)
        self.rest()

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
        """Write index entries that wait in memory. `whole` also notes the largest timestamp of all.

        Times first: if the second write fails, the time index still covers every frame that the offset index names.
        """
        if whole:
            self.times.note()
        for suffix, index in ((TIME_INDEX, self.times), (OFFSET_INDEX, self.index)):
            if whole or index.has_tail:
                file = self.hold().index(suffix, create=True)
                if file is not None:
                    index.spill(file)

    def cut(self, position: int, end_offset: int) -> None:
        """Forget everything from `position` on, which is where `end_offset` would begin."""
        files = self.hold()
        self.cut_indexes(position, end_offset)
        if files.log.size() > position:
            files.mark_unsynced()
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
        self._index = OffsetIndex(self.base_offset, self.interval_bytes, spilled=checkpoint.index_entries)
        self._times = TimeIndex(self.base_offset, spilled=checkpoint.time_entries)
        self._times.see(checkpoint.max_timestamp_ms, checkpoint.max_timestamp_offset)

    def restore_indexes(self, checkpoint: Checkpoint) -> bool:
        """Believe the index files up to the checkpoint's recovery point; False if they are lost or unsound."""
        files = self.hold()
        point = checkpoint.recovery
        if checkpoint.has_unknown_times:
            return False
        for suffix, index, entries in (
            (OFFSET_INDEX, self.index, checkpoint.index_entries),
            (TIME_INDEX, self.times, checkpoint.time_entries),
        ):
            if index.spilled < entries:
                return False
            index.keep(entries, files.index(suffix))
        if not self.cut_indexes(point.position, point.offset):
            return False
        if checkpoint.max_timestamp_offset < point.offset:
            self.times.see(checkpoint.max_timestamp_ms, checkpoint.max_timestamp_offset)
        elif not self._see_last_frames(point.position):
            # More than the frames before the point have: as a bound it is true of them too.
            self.times.see(checkpoint.max_timestamp_ms, max(point.offset - 1, self.base_offset))
        return True

    def _see_last_frames(self, end: int) -> bool:
        """Learn the times of the frames behind the last index entry, up to `end`; False if one of them is damaged.

        The time index covers all frames up to the last that the offset index names, so these few are missing.
        """
        files = self.hold()
        last = self.index.last(files.index(OFFSET_INDEX))
        try:
            for _, _, frame in frames_in(files.log, last[1] if last else 0, end):
                self.times.see(frame_time_ms(frame.header, frame.batch), frame.header.offset)
        except FrameDamage:
            return False
        return True

    def take_times(self, times: TimeIndex) -> None:
        """Go by another time index, whose entries are in the file."""
        self._times = times
        self.is_rebuilt = True

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

    def pin_to_end(self) -> tuple[SegmentFiles, int]:
        """The open files, pinned, and how far they may be read.

        Taken in this order: files that are pinned may be retired, and the segment grow in others from then on.
        """
        end = self.size_bytes
        files = self.pin()
        if files.log.size() < end:
            # A reader opened them before the last append, and left them to the cache only now. Not the cache's next
            # ones: they may be another such reader's.
            files.unpin()
            self._cache.discard(self)
            files = self._cache.open(self)
            files.share()
            files.retire()
        return files, end

    @property
    def index(self) -> OffsetIndex:
        """Offsets to positions. For a sealed segment only its length is in memory."""
        if self._index is None:
            self._index = OffsetIndex(
                self.base_offset, self.interval_bytes, spilled=self._entries_on_disk(OFFSET_INDEX, OFFSET_ENTRY.size)
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
                if times.max_timestamp_ms > 0 and not self._is_true(times.max_timestamp_ms, times.last_offset, files):
                    # As if it were lost: the frames themselves are asked, and the index is written again.
                    times = TimeIndex(self.base_offset)
            finally:
                files.unpin()
            self._times = times
        return self._times

    @property
    def max_timestamp_ms(self) -> int:
        """The largest timestamp of any record, or time of a frame without one; 0 or less if the index does not say."""
        return self.times.max_timestamp_ms

    @property
    def has_unknown_times(self) -> bool:
        """Whether there are frames, but their times can be learned only from themselves.

        The index is lost, or an earlier version took "no timestamp" for the year 1970.
        """
        return self.times.max_timestamp_ms <= 0 < self.size_bytes

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
        if self.has_unknown_times:
            return self.base_offset
        files = self.pin()
        try:
            found = self.times.entry_before(timestamp_ms, files.index(TIME_INDEX))
            if found is None or not self._is_true(*found, files):
                return self.base_offset
            return found[1]
        finally:
            files.unpin()

    def _is_true(self, timestamp_ms: int, offset: int, files: SegmentFiles) -> bool:
        position = self.frames_before(offset, files)
        return is_true(files.log, position, self.size_bytes, offset=offset, timestamp_ms=timestamp_ms)

    def frames(self, position: int = 0) -> Iterator[tuple[int, FrameHeader, memoryview]]:
        """Every frame from `position` on as (position, header, whole frame), checked."""
        files, size = self.pin_to_end()
        try:
            for chunk, view, frame in frames_in(files.log, position, size):
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

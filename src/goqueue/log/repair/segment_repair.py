"""SegmentRepair: one damaged or missing segment, written anew beside the log and then put in its place.

`look` finds what of it is sound and which offsets are missing, the holes. Whoever repairs goes through these pieces in
their order: `copy` takes a sound stretch from the file, `take` frames that another replica has. All of this may run on
any thread while the log is used. `close` makes the new segment durable; then `put_in_place` replaces the old one, as a
compaction does, so that a crash leaves all or nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from goqueue.codec.batch import verify_batch
from goqueue.codec.frame import HEADER_BYTES, FrameDamage, FrameHeader
from goqueue.codec.frame_walk import walk_frames
from goqueue.errors import CorruptFrame, OffsetOutOfRange, StorageError
from goqueue.log.compaction.output_segment import CleanedSegment
from goqueue.log.compaction.swap import CLEANED, CompactionState, Swap, discard, finish, install, load_state, publish
from goqueue.log.index.aborted_index import AbortedIndex
from goqueue.log.index.aborted_rebuild import producers_before
from goqueue.log.inspection.verify import Damage, walk_segment
from goqueue.log.recovery.replay import restore_producers
from goqueue.log.segment.frame_reader import frames_in
from goqueue.log.segment.segment import Segment
from goqueue.log.state.log_state import LogState
from goqueue.log.state.producer_state import ProducerState
from goqueue.log.state.snapshot_files import forget_snapshots
from goqueue.ports import Buffer


class Stretch(NamedTuple):
    """Sound bytes of the damaged file."""

    position: int
    end: int


class Hole(NamedTuple):
    """Offsets that the file does not have, or not soundly."""

    first_offset: int
    end_offset: int


class SegmentRepair:
    """One repair. `segment` is None where the whole file is missing."""

    def __init__(self, state: LogState, base_offset: int, end_offset: int, segment: Segment | None) -> None:
        self._state = state
        self.base_offset = base_offset
        self.end_offset = end_offset
        self._segment = segment
        self._folder = f"{state.directory}/{CLEANED}"
        self._output: CleanedSegment | None = None
        # What was written: first offset, end and size of each new segment.
        self._written: list[tuple[int, int, int]] = []
        self._next_offset = base_offset
        self._producers: ProducerState | None = None

    # --- on any thread ----------------------------------------------------------------

    def look(self) -> list[Stretch | Hole]:
        """What of the segment is sound and what is missing, in the order of the offsets."""
        state, segment = self._state, self._segment
        pieces: list[Stretch | Hole] = []
        expected = self.base_offset
        if segment is not None:
            with suppress(FileNotFoundError):
                file = state.files.open(segment.path)
                try:
                    for found in walk_segment(file, segment.path, self.base_offset, self.end_offset - 1):
                        if isinstance(found, Damage) or found.batch.last_offset >= self.end_offset:
                            continue
                        if found.header.offset > expected:
                            pieces.append(Hole(expected, found.header.offset))
                        end = found.position + found.size_bytes
                        last = pieces[-1] if pieces else None
                        if isinstance(last, Stretch) and last.end == found.position:
                            pieces[-1] = Stretch(last.position, end)
                        else:
                            pieces.append(Stretch(found.position, end))
                        expected = found.batch.last_offset + 1
                finally:
                    file.close()
        if expected < self.end_offset:
            pieces.append(Hole(expected, self.end_offset))
        return pieces

    def begin(self) -> None:
        """Make room for what is written now."""
        discard(self._state.files, self._state.directory)
        self._state.files.make_dirs(self._folder)
        self._producers = producers_before(self._state, self.base_offset)

    def copy(self, stretch: Stretch) -> None:
        """Take a sound stretch as it is."""
        if self._segment is None:
            return
        file = self._state.files.open(self._segment.path)
        try:
            for _, view, frame in frames_in(file, stretch.position, stretch.end):
                self._append(frame.header, bytes(view[frame.position : frame.end]), frame.batch.last_offset + 1)
        except FrameDamage as damage:
            raise CorruptFrame(self._segment.path, damage.position, damage.reason) from None
        finally:
            file.close()

    def take(self, data: Buffer, hole: Hole) -> int:
        """Take frames of another replica into a hole, checked; returns the offset that is due next.

        They must follow what was taken before, without a gap, and end at or before the end of the hole.
        """
        view = memoryview(data)
        try:
            frames = list(walk_frames(view))
        except FrameDamage as damage:
            raise CorruptFrame(f"{self._state.directory} (for a repair)", damage.position, damage.reason) from None
        for frame in frames:
            end = frame.batch.last_offset + 1
            if frame.header.offset != self._next_offset or end > hole.end_offset:
                raise OffsetOutOfRange(frame.header.offset, self._next_offset, hole.end_offset)
            verify_batch(view[frame.position + HEADER_BYTES :][: frame.header.value_bytes])
            self._append(frame.header, bytes(view[frame.position : frame.end]), end)
        return self._next_offset

    def close(self) -> None:
        """All pieces were taken: make the new segment durable."""
        if self._next_offset != self.end_offset:
            raise StorageError(f"the repair ended at offset {self._next_offset}, not {self.end_offset}")
        self._close_output()
        self._state.files.sync_dir(self._folder)

    def abandon(self) -> None:
        """Leave everything as it is."""
        if self._output is not None:
            self._output.abandon()
            self._output = None
        discard(self._state.files, self._state.directory)

    # --- while nobody else uses the log -------------------------------------------------

    def put_in_place(self, *, with_producers: bool) -> None:
        """Let the new segment be the log's. `with_producers`: what they wrote in the holes is learned, which reads."""
        state = self._state
        if state.sync.poison is not None or not self._is_wanted():
            self.abandon()
            raise StorageError(f"{state.directory} has changed: its repair begins anew")
        state.check_sound()
        try:
            self._swap()
        except OSError as error:
            # The names on the disk may be ahead of the list in memory: only a recovery can say.
            state.sync.poison = f"a repair could not be put in place: {error}"
            raise state.storage_error(error) from error
        if with_producers:
            forget_snapshots(state.files, state.directory, behind=self.base_offset)
            restore_producers(state, state.end_offset)

    def _is_wanted(self) -> bool:
        """Whether the log still has the damaged segment, or misses the one that is not there; it may have been cut."""
        segments = self._state.segments
        if self._segment is not None:
            return self._segment in segments.current.all
        return any((gap.first_offset, gap.end_offset) == (self.base_offset, self.end_offset) for gap in segments.gaps)

    def _swap(self) -> None:
        state, files, directory = self._state, self._state.files, self._state.directory
        cleaned_to = load_state(files, directory).cleaned_to
        swaps = tuple(Swap(base, end, base + 1) for base, end, _ in self._written)
        publish(files, directory, CompactionState(cleaned_to, swaps))
        if self._segment is not None:
            with suppress(FileNotFoundError):
                # Readers that still have the old file go on with it, and find that the log has changed.
                self._segment.hold()
        state.segments.replace(state.segments.current.all)
        for swap in swaps:
            install(files, directory, swap)
        fresh = [state.new_segment(base, size_bytes=size, end_offset=end) for base, end, size in self._written]
        kept = [segment for segment in state.segments.current.all if segment is not self._segment]
        state.segments.replace(sorted([*kept, *fresh], key=_base_of))
        if self._segment is not None:
            self._segment.release()
        finish(files, directory, cleaned_to)
        self._forget_damage(fresh)

    def _forget_damage(self, fresh: Sequence[Segment]) -> None:
        state = self._state
        repaired = [gap for gap in state.segments.gaps if self.base_offset <= gap.first_offset < self.end_offset]
        state.segments.gaps = tuple(gap for gap in state.segments.gaps if gap not in repaired)
        for gap in repaired:
            state.damage = tuple(one for one in state.damage if (one.where, one.position) != (gap.where, gap.position))
        for segment in fresh:
            state.forget_damage(segment.path)

    # --- the new segment ----------------------------------------------------------------

    def _append(self, header: FrameHeader, frame: bytes, end_offset: int) -> None:
        output = self._output
        if output is not None and output.size_bytes + len(frame) > self._state.settings.segment_bytes:
            self._close_output()
            output = None
        if output is None:
            output = self._output = CleanedSegment(
                self._state.files,
                self._folder,
                self._next_offset,
                interval_bytes=self._state.settings.index_interval_bytes,
            )
        output.append(frame)
        if self._producers is not None:
            for entry in AbortedIndex.rebuild([(header, frame)], self._producers).entries():
                output.append_aborted(entry)
        self._next_offset = end_offset

    def _close_output(self) -> None:
        output, self._output = self._output, None
        if output is not None:
            output.close(self._next_offset)
            self._written.append((output.base_offset, self._next_offset, output.size_bytes))


def _base_of(segment: Segment) -> int:
    return segment.base_offset


def damaged_segments(state: LogState) -> list[SegmentRepair]:
    """A repair for every segment that is missing or in which somebody found damage. The active one must be sealed."""
    found = [SegmentRepair(state, gap.first_offset, gap.end_offset, None) for gap in state.segments.gaps]
    paths = {one.where for one in state.damage if not _is_gap(state, one)}
    found += [
        SegmentRepair(state, segment.base_offset, segment.end_offset, segment)
        for segment in state.segments.sealed
        if segment.path in paths
    ]
    # Before the recovery point has passed a segment, a recovery would look for it as it is now.
    recorded_base = -1 if state.recorded is None else state.recorded.base_offset
    return sorted((one for one in found if one.end_offset <= recorded_base), key=lambda one: one.base_offset)


def _is_gap(state: LogState, damage: CorruptFrame) -> bool:
    return any((gap.where, gap.position) == (damage.where, damage.position) for gap in state.segments.gaps)

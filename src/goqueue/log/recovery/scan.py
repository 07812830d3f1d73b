"""The scan behind the recovery point: which frames are sound, what is damage, what is a torn tail.

`recovery` says why the rules are what they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from goqueue.codec.batch import HEADER_BYTES as BATCH_HEADER_BYTES
from goqueue.codec.batch import parse_batch_header
from goqueue.codec.frame import HEADER_BYTES, FrameDamage, parse_frame_header
from goqueue.errors import CorruptFrame, DamagedIndex
from goqueue.log.index.aborted_index import AbortedIndex
from goqueue.log.index.lane_index import LaneIndex
from goqueue.log.index.time_index import frame_time_ms
from goqueue.log.recovery.plain_frames import take_plain_frames
from goqueue.log.recovery.replay import OFFSET_MAX, restore_producers
from goqueue.log.segment.file_names import LOG, file_name
from goqueue.log.segment.frame_reader import find_frame, frames_in
from goqueue.log.segment.segment import Segment
from goqueue.log.segment.segment_list import Gap
from goqueue.log.state.checkpoint import Checkpoint, LogPoint
from goqueue.log.state.log_state import LogState
from goqueue.log.state.producer_state import ProducerState
from goqueue.log.state.snapshot_files import forget_snapshots


@dataclass(slots=True)
class RecoveryReport:
    """What a recovery did, for the operator."""

    is_clean: bool = True
    scanned_bytes: int = 0
    # A torn tail: bytes of a write that the crash left incomplete.
    cut_bytes: int = 0
    cut_where: str = ""
    segments_dropped: int = 0
    damage: list[CorruptFrame] = field(default_factory=list)


class Scan:
    """One recovery's pass over everything behind the recovery point."""

    def __init__(self, state: LogState, checkpoint: Checkpoint | None, report: RecoveryReport) -> None:
        self._state = state
        self._checkpoint = checkpoint
        self._report = report
        # Producers have seen everything before this offset already.
        self._producers_from = 0

    def run(self) -> None:
        """Scan to the end, cut the tail, and leave the last segment ready for appends."""
        state = self._state
        segments = state.segments.current.all
        number, point = self._begin(segments)
        while True:
            segment = segments[number]
            next_base = segments[number + 1].base_offset if number + 1 < len(segments) else None
            end, reason = self._scan_segment(segment, point, next_base)
            if next_base is None:
                state.end_offset = self._finish_last(segment, end, reason)
                break
            if self._ends_early(segment, end, next_base, reason):
                self._drop(segments[number + 1 :])
                segments = segments[: number + 1]
                state.segments.replace(segments)
                state.end_offset = self._finish_last(segment, end, reason)
                break
            number += 1
            segment.write_indexes()
            state.sync.add_sealed(segment.seal(), segment)
            point = self._open_whole(segments[number])
        forget_snapshots(state.files, state.directory, behind=state.end_offset)
        if state.end_offset < self._producers_from:
            restore_producers(state, state.end_offset)
            if segment.aborted is not None:
                segment.aborted.truncate(state.end_offset)
        known = self._checkpoint
        if known is None:
            # A first append that failed leaves an empty segment and nothing that says whose it is. Only
            # then: with frames there, a recovery point at their beginning would unsay what was promised.
            state.is_checkpoint_stale = state.end_offset == segments[0].base_offset
        else:
            state.is_checkpoint_stale = known.is_cut or known.end.offset > state.end_offset
        state.sync.synced = min(state.sync.synced, state.end_point())
        state.sync.change_names()

    # --- where to begin ---------------------------------------------------------------

    def _begin(self, segments: tuple[Segment, ...]) -> tuple[int, LogPoint]:
        """The first segment to scan and the point in it, everything before which is restored."""
        state, checkpoint = self._state, self._checkpoint
        if checkpoint is None:
            restore_producers(state, segments[0].base_offset)
            return 0, self._open_whole(segments[0])
        recovery = checkpoint.recovery
        # The segment that held the point, though a roll may have put another at its offset since:
        # its indexes were written by that roll and may not have reached the disk.
        number = state.segments.current.at(recovery.base_offset)
        segment = segments[number]
        state.epochs.truncate_end(recovery.offset)
        if self._restore(segment, checkpoint):
            return number, recovery
        state.epochs.truncate_end(segment.base_offset)
        restore_producers(state, segment.base_offset)
        self._producers_from = segment.base_offset
        return number, self._open_whole(segment)

    def _restore(self, segment: Segment, checkpoint: Checkpoint) -> bool:
        """Give the segment its indexes up to the recovery point, if the checkpoint knows them."""
        recovery = checkpoint.recovery
        if not segment.base_offset == checkpoint.end.base_offset == recovery.base_offset:
            return False
        if recovery.position > segment.size_bytes:
            return False
        try:
            lanes, aborted = LaneIndex.decode(checkpoint.lanes), AbortedIndex.decode(checkpoint.aborted)
            producers = decode_producers(self._state, checkpoint)
        except DamagedIndex:
            return False
        segment.lanes, segment.aborted = lanes, aborted
        segment.begin()
        if not segment.restore_indexes(checkpoint):
            return False
        # Like the producers, what they aborted is as of the checkpoint's end, not of its recovery point.
        segment.aborted = AbortedIndex.decode(checkpoint.aborted)
        self._state.producers = producers
        self._producers_from = checkpoint.end.offset
        return True

    def _open_whole(self, segment: Segment) -> LogPoint:
        """Forget the segment's indexes and begin at its first byte."""
        segment.lanes, segment.aborted = LaneIndex(segment.base_offset), AbortedIndex()
        segment.begin()
        segment.cut_indexes(0, segment.base_offset)
        return LogPoint(segment.base_offset, segment.base_offset, 0)

    # --- one segment ------------------------------------------------------------------

    def _scan_segment(self, segment: Segment, start: LogPoint, next_base: int | None) -> tuple[LogPoint, str]:
        """Take every sound frame from `start` on; returns where the last one ends, and why it is the last.

        Unsound bytes before a sound frame are reported on the way.
        """
        offset_max = OFFSET_MAX if next_base is None else next_base - 1
        log = segment.hold().log
        size = segment.size_bytes
        self._report.scanned_bytes += size - start.position
        expected, position = start.offset, start.position
        resume = position
        while True:
            try:
                expected, position = self._take_frames(segment, resume, expected, position)
                return LogPoint(expected, segment.base_offset, position), ""
            except _Broken as broken:
                expected, position, damage = broken.expected, broken.position, broken.damage
            found = find_frame(log, damage.position, size, offset_min=expected, offset_max=offset_max)
            if found is None:
                return LogPoint(expected, segment.base_offset, position), damage.reason
            self._report.damage.append(CorruptFrame(segment.path, damage.position, damage.reason))
            resume = found

    def _take_frames(self, segment: Segment, resume: int, expected: int, position: int) -> tuple[int, int]:
        state, producers_from = self._state, self._producers_from
        lanes = segment.lanes if segment.lanes is not None else LaneIndex(segment.base_offset)

        def take_plain(view: memoryview, chunk: int) -> int:
            nonlocal expected, position
            taken, expected = take_plain_frames(segment, lanes, view, chunk, expected, state.epochs.latest)
            if taken:
                position = chunk + taken
            return taken

        try:
            for chunk, view, frame in frames_in(segment.hold().log, resume, segment.size_bytes, take_plain):
                offset = frame.header.offset
                if offset < expected:
                    reason = f"offset {offset} comes where {expected} is due"
                    raise FrameDamage(chunk + frame.position, reason)
                segment.note_frame(offset, chunk + frame.position, frame_time_ms(frame.header, frame.batch))
                state.apply_frame(segment, frame, view, producers_from=producers_from)
                expected = offset + frame.batch.last_offset_delta + 1
                position = chunk + frame.end
        except FrameDamage as damage:
            raise _Broken(expected, position, damage) from None
        return expected, position

    # --- what follows the last sound frame --------------------------------------------

    def _finish_last(self, segment: Segment, end: LogPoint, reason: str) -> int:
        """Cut the torn tail of the last segment, and let it take appends; returns the log's end."""
        promised = self._promised(segment)
        if promised is not None and promised.position > end.position:
            # These bytes were synced once, so this is no torn write: it is damage, and it stays.
            where = min(end.position, segment.size_bytes)
            if segment.size_bytes > end.position or promised.offset <= end.offset:
                self._report.damage.append(CorruptFrame(segment.path, where, reason or "synced bytes are missing"))
                segment.end_offset = max(end.offset, promised.offset)
            else:
                self._note_gap(segment, end, promised.offset, "synced bytes are missing")
                return promised.offset
        elif (lost := self._lost_segment(segment, end)) is not None:
            name = file_name(lost.base_offset, LOG)
            missing = f"offsets {end.offset} to {lost.offset - 1} are missing: {name} was synced and is gone"
            # They were given out: no other records may get them.
            known = [gap.first_offset for gap in self._state.segments.gaps if gap.first_offset >= end.offset]
            until = min(known, default=lost.offset)
            if until > end.offset:
                self._note_gap(segment, end, until, missing)
            segment.end_offset = end.offset
            return lost.offset
        else:
            if segment.size_bytes > end.position:
                self._cut(segment, end, reason)
            segment.end_offset = end.offset
        return segment.end_offset

    def _promised(self, segment: Segment) -> LogPoint | None:
        recovery = self._checkpoint.recovery if self._checkpoint is not None else None
        return recovery if recovery is not None and recovery.base_offset == segment.base_offset else None

    def _lost_segment(self, last: Segment, end: LogPoint) -> LogPoint | None:
        """The recovery point, if it lies in a segment behind the last one, whose file is gone therefore."""
        if self._checkpoint is None or self._checkpoint.is_cut:
            return None
        recovery = self._checkpoint.recovery
        return recovery if recovery.base_offset > last.base_offset and recovery.offset > end.offset else None

    def _ends_early(self, segment: Segment, end: LogPoint, next_base: int, reason: str) -> bool:
        """Whether a power cut took this segment's end, so that all behind it goes. Damage is reported."""
        if end.offset >= next_base and not reason:
            return False
        promised = self._promised(segment)
        unpromised = self._checkpoint is not None and (promised is None or promised.position <= end.position)
        if unpromised and end.offset >= next_base:
            # No offset is missing: an earlier torn tail, whose cutting the power cut undid.
            self._cut(segment, end, reason)
            return False
        if unpromised and not self._fills_gap(segment, end, next_base):
            return True
        if reason:
            self._report.damage.append(CorruptFrame(segment.path, end.position, reason))
        elif not self._state.settings.cleanup_compact:
            self._note_gap(segment, end, next_base, f"offsets {end.offset} to {next_base - 1} are missing")
        return False

    def _note_gap(self, segment: Segment, end: LogPoint, until: int, reason: str) -> None:
        """Offsets are missing behind a segment. Nothing in the bytes tells a reader of this: it must be told."""
        self._report.damage.append(CorruptFrame(segment.path, end.position, reason))
        self._state.segments.gaps += (Gap(end.offset, until, segment.path, end.position, reason),)
        segment.end_offset = end.offset

    def _cut(self, segment: Segment, end: LogPoint, reason: str) -> None:
        """Cut a torn tail."""
        self._report.cut_bytes += segment.size_bytes - end.position
        self._report.cut_where = f"{segment.path} at byte {end.position}: {reason}"
        files = segment.hold()
        files.mark_unsynced()
        files.log.truncate(end.position)
        segment.size_bytes = end.position

    def _fills_gap(self, segment: Segment, end: LogPoint, next_base: int) -> bool:
        """Whether a damaged frame of exactly the missing offsets reaches exactly to the segment's end.

        A power cut shortens files; a frame that is all there but fails its checksum is rot.
        """
        start = segment.hold().log.pread(HEADER_BYTES + BATCH_HEADER_BYTES, end.position)
        if len(start) < HEADER_BYTES + BATCH_HEADER_BYTES:
            return False
        try:
            header = parse_frame_header(start)
        except FrameDamage:
            return False
        batch = parse_batch_header(start, HEADER_BYTES)
        return (
            end.position + header.size == segment.size_bytes and end.offset + batch.last_offset_delta + 1 == next_base
        )

    def _drop(self, segments: tuple[Segment, ...]) -> None:
        # Newest first, and the names synced at once: none may come back behind a log that grew again.
        for segment in reversed(segments):
            self._report.segments_dropped += 1
            self._report.cut_bytes += segment.size_bytes
            segment.remove_files()
        self._state.files.sync_dir(self._state.directory)


def decode_producers(state: LogState, checkpoint: Checkpoint) -> ProducerState:
    """The producers that a checkpoint holds, or DamagedIndex."""
    settings = state.settings
    return ProducerState.decode(checkpoint.producers, settings.producer_window_batches, settings.producer_expiry_ms)


class _Broken(Exception):
    """The frames end here: what was taken so far, and what stopped it."""

    def __init__(self, expected: int, position: int, damage: FrameDamage) -> None:
        super().__init__(damage.reason)
        self.expected = expected
        self.position = position
        self.damage = damage

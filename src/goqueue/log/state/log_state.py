"""Everything one open log knows: its segments, what travels with them, and how far they are safe.

The operations (append, remove, recover) are in modules of their own and share this.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from uuid import UUID

from goqueue.codec.batch_decode import decode_records
from goqueue.codec.frame import HEADER_BYTES, Flags
from goqueue.codec.frame_walk import StoredFrame
from goqueue.errors import CorruptBatch, CorruptFrame, LogPoisoned, StorageError
from goqueue.log.compaction.swap import load_state
from goqueue.log.durability.sync_rounds import SyncTracker
from goqueue.log.durability.write_failures import WriteObserver, storage_error
from goqueue.log.index.batch_lanes import frame_runs
from goqueue.log.index.lane_index import LaneIndex
from goqueue.log.segment.handle_cache import SegmentCache
from goqueue.log.segment.segment import Segment
from goqueue.log.segment.segment_list import SegmentList
from goqueue.log.settings import LogSettings
from goqueue.log.state.checkpoint import Checkpoint, LogPoint, write_checkpoint
from goqueue.log.state.leader_epochs import LeaderEpochs
from goqueue.log.state.producer_state import ProducerState
from goqueue.ports import Buffer, Files
from goqueue.records import AbortedTransaction

_CONTROL = int(Flags.CONTROL)
_COMMIT = int(Flags.COMMIT)
_MIXED_LANES = int(Flags.MIXED_LANES)
# Damage that is remembered; beyond it, more of the same tells an operator nothing new.
_DAMAGE_MAX = 100


@dataclass(slots=True)
class LogState:
    """The parts of one log."""

    files: Files
    directory: str
    topic_id: UUID
    settings: LogSettings
    cache: SegmentCache
    segments: SegmentList
    producers: ProducerState
    epochs: LeaderEpochs
    sync: SyncTracker
    start_offset: int
    end_offset: int
    high_watermark: int
    opened_ms: int = 0
    observer: WriteObserver | None = None
    damage: tuple[CorruptFrame, ...] = ()
    # The recovery point on the disk. It must reach a segment before anything in that is promised.
    recorded: LogPoint | None = None
    # A power cut took frames that the checkpoint knows of. Were others written in their place, the
    # next start would believe it of those too, and take a producer's lost batch for a stored one.
    is_checkpoint_stale: bool = False
    # Whether the checkpoint on the disk says "closed in order" of exactly this state.
    is_closed_clean: bool = False
    # Held by whoever makes the first segment; handed in where a thread may do that before the first append.
    first_segment_lock: AbstractContextManager[object] = field(default_factory=nullcontext)
    # What a thread does to the whole log. Until it is done nobody else reads, writes or syncs it. Empty: nothing.
    busy_with: str = ""
    # Below this offset tombstones and markers may be missing whose time was over, here or where this log was copied.
    tombstones_gone_to: int = 0
    _compacted_to: int | None = None

    def note_damage(self, found: CorruptFrame) -> None:
        """Remember damage that somebody came upon, so that it can be shown."""
        known = {(one.where, one.position) for one in self.damage}
        if len(known) < _DAMAGE_MAX and (found.where, found.position) not in known:
            # A copy: the one that was raised holds on to the frames of whoever was reading.
            self.damage = (*self.damage, CorruptFrame(found.where, found.position, found.reason))

    def compacted_to(self) -> int:
        """Below this offset no key has two records."""
        if self._compacted_to is None:
            self._compacted_to = load_state(self.files, self.directory).cleaned_to
        return self._compacted_to

    def note_compacted(self, offset: int) -> None:
        """A compaction has reached that offset."""
        self._compacted_to = offset

    def new_segment(self, base_offset: int, *, size_bytes: int = 0, end_offset: int | None = None) -> Segment:
        """A segment of this log; nothing is opened or created yet."""
        return Segment(
            self.files,
            self.cache,
            self.directory,
            base_offset,
            size_bytes=size_bytes,
            end_offset=base_offset if end_offset is None else end_offset,
            interval_bytes=self.settings.index_interval_bytes,
        )

    def end_point(self) -> LogPoint:
        """Where the next frame goes."""
        active = self.segments.active
        if active is None:
            return LogPoint(self.end_offset, self.end_offset, 0)
        return LogPoint(self.end_offset, active.base_offset, active.size_bytes)

    def apply_frame(self, segment: Segment, frame: StoredFrame, view: memoryview, *, producers_from: int = 0) -> None:
        """Let a frame that lies in `segment` change what travels with the log.

        `view` is the buffer that `frame` was found in. Producers have seen everything
        before `producers_from` already.
        """
        _, _, header, batch = frame
        flags, offset = header[0], header[2]
        self.epochs.assign(batch[2], offset)
        if segment.lanes is not None and not flags & _CONTROL:
            if flags & _MIXED_LANES:
                self._add_mixed_lanes(segment.lanes, frame, view)
            elif batch[12]:
                segment.lanes.append_run(header[4], offset, batch[6] + 1)
        if batch[9] >= 0 and offset >= producers_from:
            aborted = self.apply_to_producers(frame, view)
            if aborted is not None and segment.aborted is not None:
                segment.aborted.append(aborted)

    def apply_to_producers(self, frame: StoredFrame, view: memoryview) -> AbortedTransaction | None:
        """Let a stored frame of a producer, data or marker, change the producers alone."""
        flags = frame.header.flags
        is_marker = bool(flags & _CONTROL)
        value = frame.position + HEADER_BYTES
        return self.producers.apply(
            frame.batch,
            frame.header.offset,
            commit=bool(flags & _COMMIT) if is_marker else None,
            now_ms=frame.header.timestamp_ns // 1_000_000,
            coordinator_epoch=coordinator_epoch_of(view[value : value + frame.header.value_bytes]) if is_marker else -1,
        )

    def write_checkpoint(self, *, is_clean: bool = False, is_cut: bool = False, first: Segment | None = None) -> None:
        """Put on the disk what the segments do not say. The recovery point is what is synced by now.

        `is_cut` says that the log is being cut here, and nothing of its last segment, which
        is therefore scanned at the next start. `first` is a segment that nobody sees yet.
        """
        active = first or (self.segments.active if not is_cut else None)
        if active is not None and not is_clean:
            # A lost index is noticed by its length, and is a hint in any case.
            with suppress(OSError):
                active.spill_indexes()
        write_checkpoint(
            self.files,
            self.directory,
            Checkpoint(
                topic_id=self.topic_id,
                start_offset=self.start_offset,
                recovery=self.sync.synced,
                high_watermark=self.high_watermark,
                is_clean=is_clean,
                end=self.end_point(),
                is_cut=is_cut,
                index_entries=active.index.spilled if active is not None else 0,
                time_entries=active.times.spilled if active is not None else 0,
                max_timestamp_ms=active.times.max_timestamp_ms if active is not None else -1,
                max_timestamp_offset=active.times.last_offset if active is not None else 0,
                epochs=tuple(self.epochs.entries()),
                producers=self.producers.encode() if not is_cut else b"",
                lanes=active.lanes.encode() if active is not None and active.lanes is not None else b"",
                aborted=active.aborted.encode() if active is not None and active.aborted is not None else b"",
                tombstones_gone_to=self.tombstones_gone_to,
                bases=self._bases(first),
            ),
        )
        if active is not None:
            active.rest()
        self.recorded = self.sync.synced
        self.is_checkpoint_stale = False
        self.is_closed_clean = is_clean

    def _bases(self, first: Segment | None) -> tuple[int, ...]:
        """Where segments begin, those included that are missing and not repaired yet: they must not be forgotten."""
        found = {segment.base_offset for segment in self.segments.current.all}
        found.update(gap.first_offset for gap in self.segments.gaps)
        if first is not None:
            found.add(first.base_offset)
        return tuple(sorted(found))

    def is_dense(self) -> bool:
        """Whether no offset may be missing: the log was never compacted."""
        return not self.settings.cleanup_compact and not self.compacted_to()

    def forget_damage(self, where: str, *, position_min: int = 0) -> None:
        """The bytes from there on are sound again, or gone."""
        self.damage = tuple(one for one in self.damage if one.where != where or one.position < position_min)

    def check_idle(self) -> None:
        """A log that a thread is working on is nobody else's."""
        if self.busy_with:
            raise StorageError(f"{self.directory} cannot be used now: {self.busy_with}")

    def check_writable(self) -> None:
        """A log takes writes unless a thread works on it, or a sync of it failed."""
        self.check_idle()
        self.check_sound()

    def check_sound(self) -> None:
        """A log whose sync failed takes no more writes."""
        if self.sync.poison is not None:
            raise LogPoisoned(self.directory, self.sync.poison)
        if self.is_checkpoint_stale:
            try:
                self.write_checkpoint()
            except OSError as error:
                raise self.storage_error(error) from error

    def storage_error(self, error: OSError) -> StorageError:
        """What the disk said, in our words; whoever watches is told."""
        if self.observer is not None:
            self.observer.failed(self.directory, error)
        return storage_error(self.directory, error, failed="written")

    def _add_mixed_lanes(self, lanes: LaneIndex, frame: StoredFrame, view: memoryview) -> None:
        header = frame.header
        value = frame.position + HEADER_BYTES
        try:
            runs = frame_runs(header.flags, header.priority, frame.batch, view[value : value + header.value_bytes])
        except CorruptBatch:
            # Its checksums hold, so it was written like this; the lane in the frame must do.
            runs = frame_runs(0, header.priority, frame.batch, b"")
        for run in runs:
            lanes.append_run(*run)


def coordinator_epoch_of(marker: Buffer) -> int:
    """Which coordinator wrote a transaction marker: bytes 2 to 6 of its value; -1 if it does not say."""
    records = decode_records(marker)
    value = records[0].value if records else None
    return int.from_bytes(value[2:6], "big", signed=True) if value is not None and len(value) >= 6 else -1

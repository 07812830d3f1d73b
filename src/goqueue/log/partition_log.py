"""PartitionLog: one partition on disk, as the rest of the broker sees it.

Appends, rolls, removals and the bookkeeping of syncs belong to one thread. Reads may run
on others meanwhile. What the operations do is in the modules named in the imports.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from uuid import UUID

from goqueue.codec.frame import parse_frame_header
from goqueue.errors import CorruptFrame, StorageError
from goqueue.log import appends, removal, timestamps
from goqueue.log.appends import append_data
from goqueue.log.compaction import compaction_round as compacting
from goqueue.log.compaction.compaction_pass import Compaction, CompactionReport
from goqueue.log.durability import checkpoints as durability
from goqueue.log.durability.sync_rounds import SyncRound
from goqueue.log.durability.write_failures import WriteObserver
from goqueue.log.index.aborted_lookup import aborted_between
from goqueue.log.index.lane_lookup import LaneRuns, lane_runs
from goqueue.log.index.time_rebuild import segment_without_times
from goqueue.log.producers import LogProducers
from goqueue.log.reads import Read, read_log
from goqueue.log.recovery.recovery import recover
from goqueue.log.recovery.scan import RecoveryReport
from goqueue.log.repair.segment_repair import SegmentRepair, damaged_segments
from goqueue.log.segment.handle_cache import SegmentCache
from goqueue.log.segment.segment import Segment
from goqueue.log.settings import LogSettings
from goqueue.log.state.log_state import LogState
from goqueue.log.timestamps import TimestampOffset
from goqueue.ports import Buffer, Files
from goqueue.records import AbortedTransaction, Appended

__all__ = ["PartitionLog", "Read", "TimestampOffset"]

# A log that was handed no cache shares none: a few open segments of its own are enough.
_OWN_OPEN_SEGMENTS = 8


class PartitionLog:
    """The log of one partition."""

    __slots__ = ("_state", "producers", "recovery")

    def __init__(self, state: LogState, recovery: RecoveryReport) -> None:
        self._state = state
        self.producers = LogProducers(state)
        self.recovery = recovery

    @classmethod
    def open(
        cls,
        files: Files,
        directory: str,
        *,
        settings: LogSettings,
        topic_id: UUID,
        now_ms: int,
        cache: SegmentCache | None = None,
        observer: WriteObserver | None = None,
        lock: AbstractContextManager[object] | None = None,
    ) -> PartitionLog:
        """Open what is there, recovered if need be. A log without a directory is empty, and none is made.

        With a `lock`, `make_first_segment` may run on another thread than the appends.
        """
        # Not `or`: an empty cache is a cache.
        cache = cache if cache is not None else SegmentCache(_OWN_OPEN_SEGMENTS)
        state, report = recover(files, directory, settings=settings, topic_id=topic_id, cache=cache)
        state.opened_ms = now_ms
        state.observer = observer
        if lock is not None:
            state.first_segment_lock = lock
        if state.segments.active is not None:
            state.segments.active.rest()
            if state.segments.active.held is not None:
                # Cut by the recovery, and not synced since. From here on the segment is the owner's.
                cache.note_recovered(state.segments.active)
        if state.sync.holds_sealed:
            cache.note_recovered(state.sync)
        return cls(state, report)

    # --- what it is -------------------------------------------------------------------

    @property
    def directory(self) -> str:
        """Where it lies."""
        return self._state.directory

    @property
    def topic_id(self) -> UUID:
        """Whose log it is."""
        return self._state.topic_id

    @property
    def settings(self) -> LogSettings:
        """What it obeys."""
        return self._state.settings

    @property
    def damage(self) -> tuple[CorruptFrame, ...]:
        """What recovery, readers and compaction found unsound before the tail, as far as it is still there."""
        state = self._state
        if not state.damage:
            return ()
        files = {segment.path for segment in state.segments.current.all} | {gap.where for gap in state.segments.gaps}
        return tuple(one for one in state.damage if one.where in files)

    @property
    def start_offset(self) -> int:
        """The first offset that may be read."""
        return self._state.start_offset

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._state.end_offset

    @property
    def synced_end(self) -> int:
        """Everything below is on the disk."""
        return self._state.sync.synced.offset

    @property
    def high_watermark(self) -> int:
        """Everything below may be read."""
        return self._state.high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        state = self._state
        offset = min(offset, state.end_offset)
        if offset > state.high_watermark:
            state.high_watermark = offset
            state.producers.settle(offset)

    @property
    def last_stable_offset(self) -> int:
        """Everything below may be read by those who want only what is decided."""
        state = self._state
        first = state.producers.first_unstable_offset()
        # What an open transaction wrote before the start is deleted, and holds up nobody.
        return state.high_watermark if first is None else max(min(first, state.high_watermark), state.start_offset)

    @property
    def leader_epoch(self) -> int:
        """The newest epoch that has written; -1 if none has."""
        return self._state.epochs.latest_below(self._state.end_offset)

    def epoch_below(self, offset: int) -> int:
        """The epoch in which the last record before an offset was written; -1 if it is not known."""
        return self._state.epochs.latest_below(offset)

    @property
    def size_bytes(self) -> int:
        """Bytes of all frames."""
        return self._state.segments.size_bytes

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments, oldest first, for inspection."""
        return self._state.segments.current.all

    @property
    def is_dirty(self) -> bool:
        """Whether a sync round has something to do."""
        state = self._state
        return state.end_offset > state.sync.synced.offset or state.sync.has_leftovers

    @property
    def poisoned(self) -> bool:
        """Whether a sync has failed: no more writes are taken."""
        return self._state.sync.poison is not None

    @property
    def poison(self) -> str:
        """Why no more writes are taken; empty while they are."""
        return self._state.sync.poison or ""

    # --- work on the whole log ----------------------------------------------------------

    @property
    def busy_with(self) -> str:
        """What a thread is doing to the whole log; empty if nothing."""
        return self._state.busy_with

    def begin_work(self, what: str) -> None:
        """Let a thread cut, reset or repair the log from now on: it takes neither reads, frames nor syncs meanwhile."""
        self._state.check_idle()
        self._state.busy_with = what

    def end_work(self) -> None:
        """The thread is done."""
        self._state.busy_with = ""

    @property
    def tombstones_gone_to(self) -> int:
        """Below this offset tombstones may be gone: whoever ended before it, and copies on, keeps what was deleted."""
        return self._state.tombstones_gone_to

    def note_tombstones_gone(self, offset: int) -> None:
        """The log of which this one is a copy has lost tombstones below `offset`. Kept with the next checkpoint."""
        self._state.tombstones_gone_to = max(self._state.tombstones_gone_to, offset)

    @property
    def is_dense(self) -> bool:
        """Whether it was never compacted: then all replicas are the same byte by byte, and can repair each other."""
        return self._state.is_dense()

    def begin_repairs(self) -> list[SegmentRepair]:
        """A repair for every damaged segment of a dense log, as far as one can be begun now."""
        state = self._state
        state.check_writable()
        active = state.segments.active
        if active is not None and any(one.where == active.path for one in self.damage):
            appends.roll(state, even_empty=True)
        return damaged_segments(state)

    # --- writing ----------------------------------------------------------------------

    def append_batch(
        self,
        batch: Buffer,
        *,
        now_ms: int,
        leader_epoch: int,
        priority: int = 2,
        flags: int = 0,
        headers: bytes = b"",
        marker: bool = False,
        thinned: bool = False,
    ) -> Appended:
        """Check and write one closed batch. It is written when this returns, not yet synced.

        From one that is `thinned` the broker took records away: it has fewer than offsets, perhaps none.
        """
        if marker:
            return appends.append_marker(self._state, batch, now_ms=now_ms, leader_epoch=leader_epoch)
        return append_data(self._state, batch, now_ms, leader_epoch, priority, flags, headers, thinned=thinned)

    def append_frames(self, data: Buffer, *, continues: int) -> int:
        """Write frames as the leader has them, which follow everything below `continues`; returns the new end."""
        return appends.append_frames(self._state, data, continues)

    def begin_epoch(self, epoch: int) -> None:
        """This node leads in `epoch` from the end of the log on, whether or not it writes anything.

        Nothing is synced for it: an entry that a crash takes belonged to an epoch without a record.
        """
        self._state.epochs.assign(epoch, self._state.end_offset)

    def forget_empty_epoch(self) -> None:
        """This node leads no more: an epoch in which it wrote nothing is none of the log's."""
        self._state.epochs.truncate_end(self._state.end_offset)

    def start_at(self, offset: int) -> None:
        """Let an empty log begin at `offset`: with the first batch of the log of which this one becomes a copy."""
        removal.start_at(self._state, offset)

    @property
    def has_segments(self) -> bool:
        """Whether an append only writes; else it first makes a directory and files, which takes several syncs."""
        return self._state.segments.active is not None

    def make_first_segment(self) -> None:
        """Do, on any thread, what the first append would do before it writes. Raises OSError."""
        appends.make_first_segment(self._state)

    def note_write_failure(self, error: OSError) -> StorageError:
        """What the disk said when something was done for this log, in our words; whoever watches is told."""
        return self._state.storage_error(error)

    def roll(self) -> None:
        """Seal the active segment and begin another."""
        self._state.check_writable()
        appends.roll(self._state)

    def reconfigure(self, settings: LogSettings) -> None:
        """Obey other settings from now on."""
        state = self._state
        state.settings = settings
        state.producers.reconfigure(settings.producer_window_batches, settings.producer_expiry_ms)

    # --- reading ----------------------------------------------------------------------

    def read_batches(self, offset: int, *, max_bytes: int, upper: int, nowait: bool = False) -> Read:
        """Closed batches from `offset` on that end below `upper`; at least one if there is one."""
        return read_log(self._state, offset, max_bytes, upper, frames=False, nowait=nowait)

    def read_frames(self, offset: int, *, max_bytes: int, upper: int, nowait: bool = False) -> Read:
        """As `read_batches`, with the frames around them."""
        return read_log(self._state, offset, max_bytes, upper, frames=True, nowait=nowait)

    def offset_for_timestamp(self, timestamp_ms: int, *, upper: int) -> TimestampOffset | None:
        """The first record below `upper` at or after a time."""
        state = self._state
        return state.segments.search(
            lambda segments: timestamps.first_at_or_after(segments, timestamp_ms, start=state.start_offset, upper=upper)
        )

    def offset_of_max_timestamp(self, upper: int) -> TimestampOffset | None:
        """The first record with the largest timestamp below `upper`."""
        state = self._state
        return state.segments.search(
            lambda segments: timestamps.newest(segments, start=state.start_offset, upper=upper)
        )

    def append_time_ms(self, offset: int, *, nowait: bool = False) -> int:
        """When the batch that holds `offset`, or the next one behind it, was appended; -1 if there is none."""
        frames = self.read_frames(offset, max_bytes=1, upper=self._state.end_offset, nowait=nowait).batches
        return parse_frame_header(frames[0]).timestamp_ns // 1_000_000 if frames else -1

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch not above `epoch`, and the first offset behind it."""
        return self._state.epochs.end_offset_for(epoch, self._state.end_offset)

    def has_lost(self, end_offset: int, epoch: int) -> bool:
        """Whether the log lacks some of what lay below `end_offset`, the last of it written in `epoch`: it was cut.

        It may have grown since.
        """
        if end_offset > self.end_offset:
            return True
        return 0 <= epoch < self.leader_epoch and self.end_offset_for_epoch(epoch)[1] < end_offset

    def aborted_between(self, first: int, upper: int) -> list[AbortedTransaction]:
        """The aborted transactions with records in [first, upper)."""
        return aborted_between(self._state, first, upper)

    def lane_runs(self, lane: int | None, offset: int, *, upper: int, runs_max: int, nowait: bool = False) -> LaneRuns:
        """The runs of a lane (None: of all) from `offset` up to `upper`; how far is in the answer."""
        return lane_runs(self._state, lane, offset, upper=upper, runs_max=runs_max, nowait=nowait)

    # --- taking away ------------------------------------------------------------------

    def delete_before(self, offset: int) -> int:
        """Let the log start at `offset`; returns the new start."""
        return removal.delete_before(self._state, offset)

    def truncate_to(self, offset: int) -> int:
        """Forget everything from `offset` on; returns the new end."""
        return removal.truncate_to(self._state, offset)

    def reset_to(self, offset: int) -> None:
        """Forget everything, and begin at `offset`, where the log of which this one is a copy starts."""
        removal.reset_to(self._state, offset)

    def apply_retention(self, now_ms: int) -> int:
        """Delete segments that are too old or too many; returns how many."""
        return removal.apply_retention(self._state, now_ms)

    def segment_without_times(self, now_ms: int) -> Segment | None:
        """A segment whose age must be learned by `rebuild_times`, on any thread, before retention can go on."""
        return segment_without_times(self._state, now_ms)

    def seal_for_compaction(self, now_ms: int) -> None:
        """Seal the active segment if its records are due for compaction: only sealed ones are compacted."""
        if compacting.seal_due(self._state, now_ms):
            self.roll()

    def needs_compaction(self, now_ms: int) -> bool:
        """Whether a compaction is worth its reading and writing."""
        return compacting.needs_compaction(self._state, now_ms)

    def compact(self, now_ms: int) -> CompactionReport:
        """Compact what may be compacted, all on this thread."""
        compaction = self.begin_compaction(now_ms)
        report = compaction.run()
        return self.end_compaction(compaction) or report

    def begin_compaction(self, now_ms: int) -> Compaction:
        """A pass to `run` on any thread, then to hand to `end_compaction` on this one."""
        return compacting.begin(self._state, now_ms)

    def end_compaction(self, compaction: Compaction) -> CompactionReport | None:
        """Put the outcome of a pass in place; None if the log changed meanwhile and it was thrown away."""
        report = compacting.finish(self._state, compaction)
        if report is not None and report.damage is not None:
            self._state.note_damage(report.damage)
        return report

    # --- syncing ----------------------------------------------------------------------

    def begin_sync(self) -> SyncRound | None:
        """A round that makes everything written so far safe, to be run on any thread; None if nothing waits."""
        return durability.begin_sync(self._state)

    def end_sync(self, round_: SyncRound, error: BaseException | None) -> None:
        """Take the outcome of a round: what it covered is safe, or the log is poisoned."""
        durability.end_sync(self._state, round_, error)

    def checkpoint(self) -> None:
        """Write down how far the log is safe, so that less is scanned after a crash."""
        durability.checkpoint(self._state)

    def begin_use(self) -> None:
        """Let the next recovery be a clean one only after another `close`, even if nothing is written until then."""
        durability.begin_use(self._state)

    def close(self) -> None:
        """Sync everything and say so on the disk, so that nothing is scanned at the next start."""
        try:
            durability.close(self._state)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go of every file without writing anything."""
        self._state.sync.drop()
        self._state.cache.forget_unsynced(self._state.sync)
        for segment in self._state.segments.current.all:
            segment.release()

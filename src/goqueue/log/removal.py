"""Taking away: from the front by retention and by order, from the end when a replica must agree with its leader."""

from __future__ import annotations

from contextlib import suppress

from goqueue.errors import OffsetOutOfRange, StorageError
from goqueue.log.appends import roll
from goqueue.log.compaction.compaction_pass import forget_from
from goqueue.log.recovery.replay import cut_point, load_segment_indexes, recover_max_timestamp, restore_producers
from goqueue.log.retention import expired_count
from goqueue.log.segment.file_names import PRODUCER_SNAPSHOT, offsets_of
from goqueue.log.segment.segment import Segment
from goqueue.log.state.checkpoint import LogPoint
from goqueue.log.state.log_state import LogState
from goqueue.log.state.snapshot_files import snapshot_path

# A stop is no idleness: who was in the middle of something has so long after the start to send it again,
# the broker's own producers above all, whose delayed messages and dead letters must not be stored twice.
PRODUCER_GRACE_MS = 10 * 60_000


def delete_before(state: LogState, offset: int) -> int:
    """Let the log start at `offset`; returns the new start. Whole segments below it are deleted."""
    if offset <= state.start_offset:
        return state.start_offset
    if offset > state.high_watermark:
        raise OffsetOutOfRange(offset, state.start_offset, state.high_watermark)
    state.check_idle()
    former, state.start_offset = state.start_offset, offset
    try:
        # The new start must survive before the bytes go, or a crash would leave a log that
        # starts where nothing is.
        state.write_checkpoint()
    except OSError as error:
        state.start_offset = former
        raise state.storage_error(error) from error
    state.epochs.truncate_start(offset)
    drop_below_start(state)
    return offset


def drop_below_start(state: LogState) -> int:
    """Delete the sealed segments that end at or before the log's start; returns how many."""
    state.segments.gaps = tuple(gap for gap in state.segments.gaps if gap.end_offset > state.start_offset)
    gone = [segment for segment in state.segments.sealed if segment.end_offset <= state.start_offset]
    if gone:
        # Without the frames, only this says which producers wrote them.
        first = state.segments.current.all[len(gone)].base_offset
        with suppress(OSError):
            state.sync.sync_path(snapshot_path(state.directory, first))
        state.segments.replace(state.segments.current.all[len(gone) :])
        for segment in gone:
            remove_segment(state, segment)
        state.sync.change_names()
    return len(gone)


def apply_retention(state: LogState, now_ms: int) -> int:
    """Delete what is too old or too much; returns the number of segments deleted."""
    if state.busy_with:
        return 0
    if now_ms - state.opened_ms >= PRODUCER_GRACE_MS:
        state.producers.expire(now_ms)
    if state.sync.poison is not None:
        return 0
    segments = state.segments.current.all
    count = expired_count(
        segments,
        settings=state.settings,
        now_ms=now_ms,
        start_offset=state.start_offset,
        high_watermark=state.high_watermark,
    )
    if count and count == len(segments):
        try:
            roll(state)
        except StorageError:
            count -= 1  # the active one can go only once there is another
    if count:
        state.start_offset = max(segments[count - 1].end_offset, state.start_offset)
        # First, so that after a crash the segments are not missed. A full disk has no room for it, and gets some.
        with suppress(OSError):
            state.write_checkpoint()
        state.epochs.truncate_start(state.start_offset)
        drop_below_start(state)
        with suppress(OSError):
            state.write_checkpoint()
    return count


def truncate_to(state: LogState, offset: int) -> int:
    """Forget everything from `offset` on; returns the new end.

    A batch is never split: when `offset` lies inside one, the whole batch goes.
    """
    if offset >= state.end_offset:
        # An epoch that began at the end, and wrote nothing, would make frames of the one before it look old.
        state.epochs.truncate_end(state.end_offset)
        return state.end_offset
    state.check_sound()
    try:
        return _cut(state, max(offset, 0))
    except OSError as error:
        # Half cut: only a new recovery can say what is left.
        state.sync.poison = f"a truncation failed: {error}"
        raise state.storage_error(error) from error


def reset_to(state: LogState, offset: int) -> None:
    """Forget everything, and let the log begin at `offset`: the log of which this one is a copy starts there."""
    state.check_sound()
    try:
        # Emptied first: what a crash leaves of a log that was cut is a shorter log, and no wrong one.
        _cut(state, 0)
        if offset:
            _begin_at(state, offset)
    except OSError as error:
        state.sync.poison = f"a reset failed: {error}"
        raise state.storage_error(error) from error


def start_at(state: LogState, offset: int) -> None:
    """Let a log without any segment begin at `offset`."""
    if state.segments.active is not None or state.end_offset > offset:
        raise OffsetOutOfRange(offset, state.start_offset, state.end_offset)
    state.start_offset = state.end_offset = state.high_watermark = offset
    state.sync.synced = state.end_point()


def remove_segment(state: LogState, segment: Segment) -> None:
    """Delete one segment that is out of the list already. What cannot be deleted now goes at the next start."""
    with suppress(OSError):
        segment.remove_files()
        state.files.remove(snapshot_path(state.directory, segment.base_offset))


def _cut(state: LogState, offset: int) -> int:
    former = state.segments.current.all
    kept = [segment for segment in former if segment.base_offset < offset]
    if kept:
        point = cut_point(kept[-1], offset)
        last = state.new_segment(point.base_offset, size_bytes=point.position, end_offset=point.offset)
        load_segment_indexes(state, kept[-1], last)
        last.hold()
        last.load_indexes()
        survivors = [*kept[:-1], last]
    else:
        point = LogPoint(offset, offset, 0)
        last = state.new_segment(offset)
        survivors = [last]
    state.note_compacted(forget_from(state.files, state.directory, point.offset))
    # Nor have tombstones been seen that were cut off: what comes in their place may have others, gone by then.
    state.tombstones_gone_to = min(state.tombstones_gone_to, point.offset)
    state.end_offset = point.offset
    state.start_offset = min(state.start_offset, point.offset)
    state.high_watermark = min(state.high_watermark, point.offset)
    # Readers that come now see the shorter log; those under way notice that it changed.
    state.segments.replace(survivors)
    state.segments.gaps = tuple(gap for gap in state.segments.gaps if gap.end_offset <= point.offset)
    state.forget_damage(last.path, position_min=point.position)
    state.sync.cut(min(state.sync.synced, point))
    # If the power goes before the cut is complete, the next start completes it.
    state.write_checkpoint(is_cut=True)
    for segment in reversed(former[len(kept) :]):
        segment.release()
        segment.remove_files()
    if kept:
        kept[-1].release()
    last.begin(create=True)
    last.cut(point.position, point.offset)
    recover_max_timestamp(last)
    last.sync()
    for taken in offsets_of(state.files.list(state.directory), PRODUCER_SNAPSHOT):
        if taken > point.offset:
            state.files.remove(snapshot_path(state.directory, taken))
    state.files.sync_dir(state.directory)
    state.epochs.truncate_end(point.offset)
    restore_producers(state, point.offset)
    state.write_checkpoint()
    return point.offset


def _begin_at(state: LogState, offset: int) -> None:
    """Let a log that was emptied, and has one segment without frames, begin at `offset`."""
    (emptied,) = state.segments.current.all
    fresh = state.new_segment(offset)
    state.start_offset = state.end_offset = state.high_watermark = offset
    state.segments.replace([fresh])
    state.sync.cut(LogPoint(offset, offset, 0))
    state.sync.synced = LogPoint(offset, offset, 0)
    fresh.begin(create=True)
    fresh.cut(0, offset)
    fresh.sync()
    state.files.sync_dir(state.directory)
    state.write_checkpoint()
    emptied.release()
    emptied.remove_files()
    state.files.sync_dir(state.directory)

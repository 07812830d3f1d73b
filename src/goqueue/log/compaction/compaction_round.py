"""Compaction as the log runs it: what may be compacted now, and the swap of the outcome into the log.

`begin` and `finish` belong to the log's thread; the pass between them runs on any.
"""

from __future__ import annotations

from goqueue.log.compaction.compaction_pass import (
    Compaction,
    CompactionReport,
    Replacement,
    compactable,
    dirty_ratio,
    load_state,
)
from goqueue.log.index.aborted_lookup import aborted_between
from goqueue.log.segment.segment import Segment
from goqueue.log.settings import NEVER_MS
from goqueue.log.state.log_state import LogState


def needs_compaction(state: LogState, now_ms: int) -> bool:
    """Whether enough of what may be compacted has not been seen by a pass."""
    settings = state.settings
    if not settings.cleanup_compact or state.sync.poison is not None or state.busy_with:
        return False
    segments = _candidates(state, now_ms)
    if not segments:
        return False
    cleaned_to = state.compacted_to()
    if dirty_ratio(segments, cleaned_to) >= settings.compaction_dirty_ratio:
        return True
    first_dirty = next((one for one in segments if one.end_offset > cleaned_to), None)
    return first_dirty is not None and now_ms - first_dirty.max_timestamp_ms >= settings.max_compaction_lag_ms


def seal_due(state: LogState, now_ms: int) -> bool:
    """Whether the active segment holds records that compaction must look at now, though nothing is written any more."""
    active = state.segments.active
    if active is None or not active.size_bytes or state.sync.poison is not None or state.busy_with:
        return False
    lag_ms = state.settings.max_compaction_lag_ms
    if lag_ms == NEVER_MS:
        return False
    if active.first_append_ms is None:
        active.begin(now_ms=now_ms)
    return active.first_append_ms is not None and now_ms - active.first_append_ms >= lag_ms


def begin(state: LogState, now_ms: int) -> Compaction:
    """A pass over everything that may be compacted now."""
    state.check_writable()
    settings = state.settings
    return Compaction(
        state.files,
        state.directory,
        _candidates(state, now_ms),
        lambda first, upper: aborted_between(state, first, upper),
        state.producers.last_batches(),
        now_ms=now_ms,
        segment_bytes=settings.segment_bytes,
        index_interval_bytes=settings.index_interval_bytes,
        tombstone_retention_ms=settings.tombstone_retention_ms,
    )


def finish(state: LogState, done: Compaction) -> CompactionReport | None:
    """Put the outcome of a pass in place; None if the log has changed so that it no longer fits."""
    report = done.report
    current = state.segments.current.all
    if report is None or state.busy_with or any(segment not in current for segment in done.segments):
        done.abandon()
        return None
    state.check_writable()
    try:
        if report.tombstones_gone_to > state.tombstones_gone_to:
            # On the disk before the tombstones go: a replica that never saw them is told to begin anew.
            state.tombstones_gone_to = report.tombstones_gone_to
            state.write_checkpoint()
        # The same list once more: a read that opens a file just as its name changes hands finds
        # that the log has changed, and looks again.
        done.swap(
            lambda one: _replace(state, one),
            announce=lambda _: state.segments.replace(state.segments.current.all),
        )
    except OSError as error:
        # The names on the disk may be ahead of the list in memory: only a recovery can say.
        state.sync.poison = f"a compaction could not be put in place: {error}"
        raise state.storage_error(error) from error
    state.note_compacted(load_state(state.files, state.directory).cleaned_to)
    return report


def _candidates(state: LogState, now_ms: int) -> list[Segment]:
    synced = state.sync.synced
    stable = state.producers.first_unstable_offset()
    upper = min(state.high_watermark, synced.offset, synced.offset if stable is None else stable)
    if state.producers.has_seen_transactions():
        # A marker that a power cut may still take has decided nothing: were records dropped, or older
        # ones superseded, because of it, the next marker could decide otherwise.
        upper = min(upper, state.sync.stable_end)
    # A recovery that begins inside a segment must find it as the checkpoint describes it.
    recorded_base = state.recorded.base_offset if state.recorded is not None else 0
    return compactable(
        [segment for segment in state.segments.sealed if segment.end_offset <= recorded_base],
        upper=upper,
        now_ms=now_ms,
        min_lag_ms=state.settings.min_compaction_lag_ms,
    )


def _replace(state: LogState, one: Replacement) -> None:
    fresh = state.new_segment(one.base_offset, size_bytes=one.size_bytes, end_offset=one.end_offset)
    segments: list[Segment] = []
    for segment in state.segments.current.all:
        if segment is one.old[0]:
            segments.append(fresh)
        if segment not in one.old:
            segments.append(segment)
    state.segments.replace(segments)
    for segment in one.old:
        segment.release()

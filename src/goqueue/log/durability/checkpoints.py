"""Durability as the log keeps it: rounds of syncing, checkpoints, and the clean stop."""

from __future__ import annotations

from goqueue.log.durability.sync_rounds import CLOSED, SyncRound
from goqueue.log.segment.segment import Segment
from goqueue.log.state.log_state import LogState


def begin_sync(state: LogState) -> SyncRound | None:
    """A round over everything written so far; None if nothing waits, or nothing can be proved any more."""
    if state.sync.poison is not None or state.busy_with:
        return None
    active = state.segments.active
    first_open = state.producers.first_open_offset()
    return state.sync.begin(
        state.end_point(),
        active,
        stable_end=state.end_offset if first_open is None else first_open,
    )


def end_sync(state: LogState, done: SyncRound, error: BaseException | None) -> None:
    """Move the synced end to where the round began, or poison the log."""
    if state.busy_with:
        # A thread cuts the log, or replaces parts of it: what the round synced may be gone.
        state.sync.end_void(done, error)
        return
    if not state.sync.end(done, error):
        if error is not None:
            _note_failed_sync(state, error)
        return
    former, state.sync.synced = state.sync.synced, max(state.sync.synced, done.end)
    if state.recorded is None or state.recorded.base_offset != state.sync.synced.base_offset:
        try:
            state.write_checkpoint()
        except OSError as failure:
            # Nothing in a new segment is promised before; the next round tries again.
            state.storage_error(failure)
            state.sync.synced = former
            state.sync.change_names()
            return
    state.sync.stable_end = max(state.sync.stable_end, done.stable_end)
    if not state.sync.holds_sealed:
        state.cache.forget_unsynced(state.sync)
    active = state.segments.active
    if active is not None and state.sync.synced == state.end_point():
        active.note_synced()


def _note_failed_sync(state: LogState, error: BaseException) -> None:
    if state.sync.poison is None or state.sync.poison == CLOSED:
        return
    if state.segments.active is not None:
        # Nothing that is written through these files will ever be promised: they need not stay open.
        state.segments.active.note_synced()
    if state.observer is not None:
        state.observer.sync_failed(state.directory, error)


def checkpoint(state: LogState) -> None:
    """Write a checkpoint, unless the one on the disk says it all."""
    if state.segments.active is None or state.is_closed_clean or state.sync.poison == CLOSED or state.busy_with:
        return
    try:
        state.write_checkpoint()
    except OSError as error:
        raise state.storage_error(error) from error


def begin_use(state: LogState) -> None:
    """Take back what the last clean stop said, although nothing has been written since."""
    if state.segments.active is not None and state.is_closed_clean and state.sync.poison is None:
        try:
            state.write_checkpoint()
        except OSError as error:
            raise state.storage_error(error) from error


def close(state: LogState) -> None:
    """Leave the log so that nothing is scanned at the next start. The files stay open."""
    active = state.segments.active
    if active is None or state.is_closed_clean or state.sync.poison is not None:
        return
    try:
        _close_clean(state, active)
    except OSError as error:
        # Not lost, only not clean: the next start looks through what was not synced.
        raise state.storage_error(error) from error


def _close_clean(state: LogState, active: Segment) -> None:
    begun = begin_sync(state)
    try:
        active.spill_indexes()
        active.sync_indexes()
        if begun is not None:
            begun.run()
    except OSError as error:
        if begun is not None:
            end_sync(state, begun, error)
        raise
    if begun is not None:
        end_sync(state, begun, None)
    state.write_checkpoint(is_clean=True)

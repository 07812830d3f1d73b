"""Snapshots: a queue as one record, and the holds that such a record speaks of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.delivery.leases.outstanding import Hold, State
from goqueue.delivery.state.records import HoldState, QueueState, ranges_of

if TYPE_CHECKING:
    from goqueue.delivery.state.queue import Queue

# What has changed by time alone changes so again after a replay.
_STORED = {
    State.LEASED: 0,
    State.EXPIRED: 0,
    State.EXHAUSTED: 0,
    State.WAITING: 3,
    State.DUE: 3,
    State.PARKED: 5,
    State.DYING: 6,
}


def snapshot_of(queue: Queue) -> QueueState:
    """All that records have made of it."""
    by_hold: dict[Hold, list[int]] = {}
    for offset in sorted(queue.outstanding):
        by_hold.setdefault(queue.outstanding[offset], []).append(offset)
    return QueueState(
        queue.sequence,
        queue.cursors,
        queue.policy,
        [_hold_state(hold, offsets, queue.chains.keys(offsets)) for hold, offsets in by_hold.items()],
        queue.producer_id,
        queue.next_sequence,
        queue.moving,
        list(queue.promises),
        queue.epoch,
        list(queue.reopenings),
        queue.incarnation,
    )


def hold_of(state: HoldState) -> Hold:
    """The hold that a snapshot describes, not yet in a queue."""
    return Hold(
        State(state.state),
        state.lane,
        state.ranges,
        lease_id=state.lease_id,
        consumer=state.consumer,
        count=state.count,
        visible_at_ms=state.visible_at_ms,
        first_ms=state.first_ms,
        last_ms=state.last_ms,
        reason=state.reason,
        error=state.error,
    )


def _hold_state(hold: Hold, offsets: list[int], keys: list[int]) -> HoldState:
    return HoldState(
        _STORED[hold.state],
        hold.lane,
        hold.lease_id,
        hold.consumer,
        hold.count,
        hold.visible_at_ms,
        hold.first_ms,
        hold.last_ms,
        hold.reason,
        hold.error,
        ranges_of(offsets),
        keys,
    )

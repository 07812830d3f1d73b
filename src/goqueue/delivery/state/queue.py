"""Queue: where one group stands in one partition.

Per lane a cursor; everything of the lane below it that is not outstanding is settled, so no
set of settled offsets exists. Only `apply` changes what is durable. Whatever follows from that
and the time (what is ready, who holds how many) is kept beside it.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby, repeat
from typing import Any, ClassVar

from goqueue.broker.lane_rates import LaneRates
from goqueue.delivery.dead_letters.reopenings import Reopenings
from goqueue.delivery.lanes.lane_scheduler import LANES, LaneScheduler
from goqueue.delivery.leases.key_order import KeyChains
from goqueue.delivery.leases.lowest_offsets import LowestOffsets
from goqueue.delivery.leases.outstanding import Hold, State, Timers, runs_by_hold
from goqueue.delivery.policy import DeliveryPolicy
from goqueue.delivery.state.promised_offsets import PromisedOffsets
from goqueue.delivery.state.records import (
    Change,
    Cursors,
    Cut,
    Delta,
    Dying,
    Extended,
    Governed,
    Incarnated,
    Leased,
    Moved,
    Moving,
    Parked,
    Promised,
    Quarantined,
    QueueId,
    QueueState,
    Reopened,
    Reopening,
    Requeued,
    Reset,
    Settled,
    Withdrawn,
    offsets_of,
    ranges_of,
)
from goqueue.delivery.state.snapshots import hold_of

_DEFAULT_POLICY = DeliveryPolicy()
# Why a message dies that lies in a stretch that nobody can read.
UNREADABLE = "unreadable"


class Queue:
    """One group on one partition. `leases` belongs to the shard: lease id -> queue and how many offsets."""

    def __init__(
        self,
        queue_id: QueueId,
        timers: Timers,
        leases: dict[int, list[Any]],
        advance: Callable[[int], None],
    ) -> None:
        self.id = queue_id
        # Lets everything in the shard change that changes by time alone.
        self.advance = advance
        self.sequence = 0
        self.deltas = 0
        # Compaction took neighbours of what was read: nothing counts until a snapshot comes.
        self.is_incomplete = False
        self.cursors = [0] * LANES
        # The topic's leader epoch when the cursors last moved, and the one for which that was compared with the log.
        self.epoch = -1
        self.agreed_epoch = -1
        self.policy = _DEFAULT_POLICY
        self.outstanding: dict[int, Hold] = {}
        self.in_flight: Counter[str] = Counter()
        self.in_flight_count = 0
        self.lane_in_flight = [0] * LANES
        self.scheduler = LaneScheduler()
        # Offsets that may be available again, per lane; looked at again before they are given out.
        self.ready: list[list[int]] = [[] for _ in range(LANES)]
        self.exhausted: list[Hold] = []
        self.dying: dict[int, Hold] = {}
        self.producer_id = -1
        self.next_sequence = 0
        self.moving: list[int] = []
        self.chains = KeyChains()
        # Offsets that an open transaction may settle: they do not become available meanwhile.
        self.promises = PromisedOffsets()
        self.pending = self.promises.producers
        self.reopenings = Reopenings()
        # Which group of this name it is; and as far as that is stored. 0: not known.
        self.incarnation = 0
        self.stored_incarnation = 0
        self.counts: Counter[str] = Counter()
        self.served = LaneRates()
        self._lows = LowestOffsets()
        self._timers = timers
        self._leases = leases

    # --- what it knows ------------------------------------------------------------------

    def lowest_outstanding(self) -> int | None:
        """The lowest offset that is neither settled nor untouched."""
        return self._lows.lowest(self.outstanding)

    def is_ready(self, offset: int) -> bool:
        """Whether an outstanding message may be given out again."""
        hold = self.outstanding.get(offset)
        if hold is None or offset in self.pending:
            return False
        if hold.state is State.PARKED:
            return self.chains.is_first(offset)
        return hold.state is State.EXPIRED or hold.state is State.DUE

    def ready_offsets(self, lane: int, limit: int) -> list[int]:
        """Up to `limit` messages of a lane that may be given out again, lowest first."""
        heap = self.ready[lane]
        found: list[int] = []
        last = -1
        while heap and len(found) < limit:
            offset = heapq.heappop(heap)
            if offset != last and self.is_ready(offset):
                found.append(offset)
            last = offset
        # Only a proposal: they stay listed until a record takes them away. Rising, so still a heap in front of it.
        for offset in found:
            heapq.heappush(heap, offset)
        return found

    # --- time ----------------------------------------------------------------------------

    def expire(self, hold: Hold, since_ms: int = 0) -> bool:
        """The hold's time has come; whether messages became available. Counted is what came since the start."""
        if hold.state is State.LEASED:
            self._out_of_flight(hold, hold.live)
            # What expired before the node was started was counted then, by the process that is gone.
            self.counts["expired"] += hold.live if hold.visible_at_ms >= since_ms else 0
            if hold.count > self.policy.retries_max:
                hold.state = State.EXHAUSTED
                self.exhausted.append(hold)
                return False
            hold.state = State.EXPIRED
        elif hold.state is State.WAITING:
            hold.state = State.DUE
        else:
            return False
        self._list_ready(hold)
        return True

    def _list_ready(self, hold: Hold) -> None:
        heap = self.ready[hold.lane]
        outstanding = self.outstanding
        for offset in offsets_of(hold.ranges):
            if outstanding.get(offset) is hold:
                heapq.heappush(heap, offset)

    # --- records -------------------------------------------------------------------------

    def apply(self, delta: Delta) -> None:
        """Take in what a command did."""
        if delta.sequence != self.sequence + 1:
            self.is_incomplete = True
        if self.is_incomplete:
            return
        self.sequence = delta.sequence
        self.deltas += 1
        for change in delta.changes:
            self.change(change)

    def restore(self, state: QueueState) -> None:
        """Become what a snapshot says, whatever was known before."""
        self._take(list(self.outstanding))
        self._lows.clear()
        self.is_incomplete = False
        self.sequence = state.sequence
        self.deltas = 0
        self.cursors = state.cursors
        self.epoch = state.epoch
        self.policy = state.policy
        self.producer_id = state.producer_id
        self.next_sequence = state.next_sequence
        self.moving = state.moving
        for one in state.holds:
            self._put(hold_of(one), fresh=True, keys=one.keys)
        self.promises.clear()
        for promise in state.promises:
            self.promises.add(promise)
        self.reopenings = Reopenings(state.reopenings)
        self.incarnation = self.stored_incarnation = state.incarnation
        for lane, offset in self.chains.sort(lambda offset: self.outstanding[offset].state is State.PARKED):
            heapq.heappush(self.ready[lane], offset)

    def change(self, change: Change) -> None:
        """Take in one change."""
        self._CHANGES[type(change)](self, change)

    def _cursors(self, change: Cursors) -> None:
        self.cursors, self.epoch = change.cursors, change.epoch

    def _leased(self, change: Leased) -> None:
        hold = Hold(
            State.LEASED,
            change.lane,
            change.ranges,
            lease_id=change.lease_id,
            consumer=change.consumer,
            count=change.count,
            visible_at_ms=change.deadline_ms,
            first_ms=change.first_ms,
            last_ms=change.at_ms,
        )
        self._put(hold, fresh=change.fresh, keys=change.keys)

    def _parked(self, change: Parked) -> None:
        self._put(Hold(State.PARKED, change.lane, change.ranges), fresh=True, keys=change.keys)

    def _reopened(self, change: Reopened) -> None:
        hold = Hold(State.WAITING, change.lane, change.ranges, visible_at_ms=change.at_ms)
        self._put(hold, fresh=True, keys=change.keys)

    def _settled(self, change: Settled) -> None:
        ranges = change.ranges
        for at in range(0, len(ranges), 2):
            self._take(range(ranges[at], ranges[at + 1] + 1))

    def _requeued(self, change: Requeued) -> None:
        for hold, offsets in runs_by_hold(self.outstanding, offsets_of(change.ranges)):
            ranges, at_ms = ranges_of(offsets), change.visible_at_ms
            self._put(hold.but(State.WAITING, ranges, count=change.count, visible_at_ms=at_ms, reason=change.reason))

    def _extended(self, change: Extended) -> None:
        for hold, offsets in runs_by_hold(self.outstanding, offsets_of(change.ranges)):
            ranges, at_ms = ranges_of(offsets), change.deadline_ms
            self._put(hold.but(State.LEASED, ranges, lease_id=hold.lease_id, visible_at_ms=at_ms))

    def _dying(self, change: Dying) -> None:
        for hold, offsets in runs_by_hold(self.outstanding, offsets_of(change.ranges)):
            self._put(hold.but(State.DYING, ranges_of(offsets), reason=change.reason, error=change.error))
            for offset in offsets:
                # It no longer stands in the way of others of its key.
                self._leave_chain(offset)

    def _moving(self, change: Moving) -> None:
        self.producer_id = change.producer_id
        self.next_sequence = change.sequence
        self.moving = change.offsets

    def _moved(self, change: Moved) -> None:
        self.counts["dead_lettered"] += len(self.moving)
        self._take(self.moving)
        self.moving = []
        self.next_sequence = change.next_sequence

    def _governed(self, change: Governed) -> None:
        self.policy = change.policy

    def _withdrawn(self, change: Withdrawn) -> None:
        self.reopenings.end(change.producer_id)
        for offset in self.promises.end(change.producer_id):
            self._look_again(offset)

    def _look_again(self, offset: int) -> None:
        """What was passed over while it was promised counts now."""
        hold = self.outstanding.get(offset)
        if hold is None:
            return
        if hold.state is State.EXHAUSTED and hold not in self.exhausted:
            self.exhausted.append(hold)
        elif hold.state in {State.EXPIRED, State.DUE, State.PARKED}:
            heapq.heappush(self.ready[hold.lane], offset)

    def _reset(self, change: Reset) -> None:
        self._take(list(self.outstanding))
        self.cursors, self.epoch = change.cursors, change.epoch
        self.moving = []

    def _cut(self, change: Cut) -> None:
        end = change.end
        self._take([offset for offset in self.outstanding if offset >= end])
        self.cursors, self.epoch = [min(cursor, end) for cursor in self.cursors], change.epoch
        if any(offset >= end for offset in self.moving):
            # Another batch is moved instead: under the same producer's sequence it would be taken for this one.
            self.moving, self.producer_id, self.next_sequence = [], -1, 0
        self.reopenings.cut(end)
        self.promises.cut(end)

    def _quarantined(self, change: Quarantined) -> None:
        first, last = change.first, change.last
        kept = {State.DYING} if change.with_leased else {State.DYING, State.LEASED}
        inside = [at for at, hold in self.outstanding.items() if first <= at <= last and hold.state not in kept]
        self._take([at for at in inside if at not in self.pending])
        self.cursors = [last + 1 if first <= cursor <= last else cursor for cursor in self.cursors]
        if change.dies and change.offset not in self.outstanding:
            hold = Hold(State.DYING, change.lane, [change.offset] * 2, reason=UNREADABLE, error=change.error)
            self._put(hold, fresh=True)
        self.counts["unreadable"] += 1

    def _incarnated(self, change: Incarnated) -> None:
        self.incarnation = self.stored_incarnation = change.incarnation

    _CHANGES: ClassVar[dict[type, Callable[..., None]]] = {
        Cursors: _cursors,
        Leased: _leased,
        Parked: _parked,
        Settled: _settled,
        Requeued: _requeued,
        Extended: _extended,
        Dying: _dying,
        Moving: _moving,
        Moved: _moved,
        Governed: _governed,
        Reset: _reset,
        Promised: lambda queue, change: queue.promises.add(change),
        Withdrawn: _withdrawn,
        Cut: _cut,
        Reopening: lambda queue, change: queue.reopenings.add(change),
        Reopened: _reopened,
        Quarantined: _quarantined,
        Incarnated: _incarnated,
    }

    # --- holds ---------------------------------------------------------------------------

    def _put(self, hold: Hold, *, fresh: bool = False, keys: list[int] | None = None) -> None:
        """Let the hold's messages be outstanding in its way, whatever they were before."""
        outstanding, ranges = self.outstanding, hold.ranges
        for at in range(0, len(ranges), 2):
            first, last = ranges[at], ranges[at + 1]
            if fresh:
                self._lows.add(first, last)
            else:
                for before, run in groupby(map(outstanding.__getitem__, range(first, last + 1))):
                    self._detach(before, len(list(run)))
            outstanding.update(dict.fromkeys(range(first, last + 1), hold))
            hold.live += last - first + 1
        if keys:
            self.chains.join(hold.lane, offsets_of(ranges), keys)
        if hold.state is State.LEASED:
            self.in_flight[hold.consumer] += hold.live
            self.in_flight_count += hold.live
            self.lane_in_flight[hold.lane] += hold.live
            lease = self._leases.get(hold.lease_id)
            if lease is None:
                self._leases[hold.lease_id] = [self, hold.live]
            else:
                lease[1] += hold.live
        if hold.state is State.LEASED or hold.state is State.WAITING:
            self._timers.add(self, hold)
        elif hold.state is State.DYING:
            self.dying.update(dict.fromkeys(offsets_of(ranges), hold))

    def _take(self, offsets: Sequence[int]) -> None:
        """They are settled."""
        # Neighbours nearly always share a hold: it is told once how many it lost.
        for hold, run in groupby(map(self.outstanding.pop, offsets, repeat(None))):
            size = len(list(run))
            if hold is not None:
                self._detach(hold, size)
        if self.chains:
            for offset in offsets:
                self._leave_chain(offset)
        if self.dying:
            for offset in offsets:
                self.dying.pop(offset, None)

    def _detach(self, hold: Hold, count: int) -> None:
        if hold.state is State.LEASED:
            self._out_of_flight(hold, count)
        hold.live -= count
        if hold.lease_id:
            lease = self._leases.get(hold.lease_id)
            if lease is not None:
                lease[1] -= count
                if lease[1] <= 0:
                    del self._leases[hold.lease_id]
        if hold.live == 0:
            self._timers.forget()

    def _out_of_flight(self, hold: Hold, count: int) -> None:
        self.in_flight_count -= count
        self.lane_in_flight[hold.lane] -= count
        left = self.in_flight[hold.consumer] - count
        if left:
            self.in_flight[hold.consumer] = left
        else:
            del self.in_flight[hold.consumer]

    def _leave_chain(self, offset: int) -> None:
        following = self.chains.leave(offset)
        if following is not None:
            lane, first = following
            heapq.heappush(self.ready[lane], first)

"""Holds: messages that are outstanding, and in which way. Neighbours that share all of it share one hold."""

from __future__ import annotations

import heapq
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goqueue.delivery.state.queue import Queue

_STALE_MIN = 1024


class State(IntEnum):
    """LEASED -> EXPIRED and WAITING -> DUE by time alone, in memory; the others by a record."""

    LEASED = 0
    # Its visibility ended: available, and its receipt is no longer good.
    EXPIRED = 1
    # Its visibility ended after the last delivery that the policy allows.
    EXHAUSTED = 2
    WAITING = 3
    DUE = 4
    # Waits for an earlier message of its key.
    PARKED = 5
    DYING = 6


class Hold:
    """Some messages of one lane that are outstanding in the same way."""

    __slots__ = (
        "consumer",
        "count",
        "error",
        "first_ms",
        "lane",
        "last_ms",
        "lease_id",
        "live",
        "ranges",
        "reason",
        "state",
        "visible_at_ms",
    )

    def __init__(
        self,
        state: State,
        lane: int,
        ranges: list[int],
        *,
        lease_id: int = 0,
        consumer: str = "",
        count: int = 0,
        visible_at_ms: int = 0,
        first_ms: int = 0,
        last_ms: int = 0,
        reason: str = "",
        error: str = "",
    ) -> None:
        self.state = state
        self.lane = lane
        # What it began with; an offset belongs to it only while `outstanding` says so.
        self.ranges = ranges
        self.lease_id = lease_id
        self.consumer = consumer
        # Deliveries so far.
        self.count = count
        self.visible_at_ms = visible_at_ms
        self.first_ms = first_ms
        self.last_ms = last_ms
        self.reason = reason
        self.error = error
        # How many offsets still belong to it.
        self.live = 0

    def but(
        self,
        state: State,
        ranges: list[int],
        *,
        lease_id: int = 0,
        count: int | None = None,
        visible_at_ms: int = 0,
        reason: str = "",
        error: str = "",
    ) -> Hold:
        """One for some of its messages, outstanding in another way; who had them, and when, stays."""
        return Hold(
            state,
            self.lane,
            ranges,
            lease_id=lease_id,
            consumer=self.consumer,
            count=self.count if count is None else count,
            visible_at_ms=visible_at_ms,
            first_ms=self.first_ms,
            last_ms=self.last_ms,
            reason=reason,
            error=error,
        )


def runs_by_hold(outstanding: dict[int, Hold], offsets: list[int]) -> list[tuple[Hold, list[int]]]:
    """The offsets that are outstanding, in runs that share a hold."""
    runs: list[tuple[Hold, list[int]]] = []
    for offset in offsets:
        hold = outstanding.get(offset)
        if hold is None:
            continue
        if runs and runs[-1][0] is hold:
            runs[-1][1].append(offset)
        else:
            runs.append((hold, [offset]))
    return runs


class Timers:
    """When holds change by time, for all queues of a shard."""

    __slots__ = ("_heap", "_number", "_stale")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Queue, Hold]] = []
        self._number = 0
        self._stale = 0

    def add(self, queue: Queue, hold: Hold) -> None:
        """Look at the hold when its time has come."""
        self._number += 1
        heapq.heappush(self._heap, (hold.visible_at_ms, self._number, queue, hold))

    def forget(self) -> None:
        """One more hold has become empty; the heap is swept when half of it is."""
        self._stale += 1
        if self._stale > _STALE_MIN and 2 * self._stale > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[3].live]
            heapq.heapify(self._heap)
            self._stale = 0

    def next_ms(self) -> int | None:
        """When the next hold is due."""
        heap = self._heap
        while heap and not heap[0][3].live:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def pop_due(self, now_ms: int) -> tuple[Queue, Hold] | None:
        """A hold whose time has come."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            _, _, queue, hold = heapq.heappop(heap)
            if hold.live:
                return queue, hold
        return None

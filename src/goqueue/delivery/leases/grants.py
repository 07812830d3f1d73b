"""Grants: which leases a receive gets, as changes to its queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from goqueue.delivery.state.commands import FreshShare, Granted, Lease
from goqueue.delivery.state.records import Change, Leased, Parked, offsets_of, ranges_of

if TYPE_CHECKING:
    from goqueue.delivery.state.queue import Queue


class Grants:
    """Leases in the making: one per lane and number of deliveries."""

    def __init__(self, command: Lease, now_ms: int) -> None:
        self.changes: list[Change] = []
        self.granted: list[Granted] = []
        self._command = command
        self._now_ms = now_ms
        self._deadline_ms = now_ms + command.visibility_ms
        self._retries: dict[tuple[int, int, int], Leased] = {}

    def add_retry(self, queue: Queue, offset: int) -> None:
        """One more delivery of a message that came back."""
        hold = queue.outstanding[offset]
        first_ms = hold.first_ms or self._now_ms
        kind = (hold.lane, hold.count + 1, first_ms)
        leased = self._retries.get(kind)
        if leased is None:
            leased = self._retries[kind] = self._lease(hold.lane, hold.count + 1, first_ms, [], fresh=False)
        leased.ranges += (offset, offset)

    def add_fresh(self, queue: Queue, shares: Iterable[FreshShare]) -> None:
        """The first delivery of messages; those that wait for an earlier one of their key are parked."""
        for lane, ranges, keys in shares:
            if not keys:
                self._lease(lane, 1, self._now_ms, ranges, fresh=True)
                continue
            free, parked = by_key(queue, lane, offsets_of(ranges), keys)
            if free:
                leased = self._lease(lane, 1, self._now_ms, ranges_of([one[0] for one in free]), fresh=True)
                leased.keys = [one[1] for one in free]
            if parked:
                self.changes.append(Parked(lane, ranges_of([one[0] for one in parked]), [one[1] for one in parked]))

    def count(self, queue: Queue) -> None:
        """Count what is given out. Here and not when records are applied: a replay gives nothing to anybody."""
        for _, lane, count, _, _, ranges in self.granted:
            size = sum(ranges[1::2]) - sum(ranges[::2]) + len(ranges) // 2
            queue.counts["delivered"] += size
            queue.counts["redelivered"] += size if count > 1 else 0
            queue.served.add(lane, size, self._now_ms)

    def _lease(self, lane: int, count: int, first_ms: int, ranges: list[int], *, fresh: bool) -> Leased:
        command = self._command
        # Consecutive ids: what one receive gave out stays apart, and costs one draw of chance.
        lease_id = command.lease_id + len(self.granted)
        leased = Leased(
            lane, lease_id, command.consumer, count, self._deadline_ms, self._now_ms, first_ms, fresh, ranges
        )
        self.changes.append(leased)
        self.granted.append(Granted(lease_id, lane, count, self._deadline_ms, first_ms, ranges))
        return leased


def by_key(
    queue: Queue, lane: int, offsets: Sequence[int], keys: Sequence[int]
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Which messages may go, and which wait for an earlier one of their key."""
    free: list[tuple[int, int]] = []
    parked: list[tuple[int, int]] = []
    taken: set[int] = set()
    for offset, key in zip(offsets, keys, strict=True):
        if key and (key in taken or (lane, key) in queue.chains):
            parked.append((offset, key))
        else:
            free.append((offset, key))
            taken.add(key)
    return free, parked

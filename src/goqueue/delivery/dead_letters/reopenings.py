"""Reopenings: settled messages that an open transaction makes available again if it is committed.

A queue keeps no settled offsets: all below a lane's cursor that is not outstanding is settled. To reopen a message is
to put it among the outstanding ones, however far the cursor has gone since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from goqueue.delivery.leases.grants import by_key
from goqueue.delivery.state.records import Change, Parked, Reopened, Reopening, offsets_of, ranges_of

if TYPE_CHECKING:
    from goqueue.delivery.state.queue import Queue


class Reopenings:
    """What open transactions will reopen in one queue, by producer."""

    __slots__ = ("_by_producer",)

    def __init__(self, known: Iterable[Reopening] = ()) -> None:
        self._by_producer: dict[int, list[Reopening]] = {}
        for one in known:
            self.add(one)

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._by_producer

    def __bool__(self) -> bool:
        return bool(self._by_producer)

    def __iter__(self) -> Iterator[Reopening]:
        return (one for of_producer in self._by_producer.values() for one in of_producer)

    def of(self, producer_id: int) -> list[Reopening]:
        """What one producer's transaction will reopen."""
        return self._by_producer.get(producer_id, [])

    def add(self, change: Reopening) -> None:
        """The transaction is open."""
        self._by_producer.setdefault(change.producer_id, []).append(change)

    def end(self, producer_id: int) -> None:
        """The transaction is over."""
        self._by_producer.pop(producer_id, None)

    def cut(self, end: int) -> None:
        """The log lost what lies from `end` on."""
        for one in self:
            keys = dict(zip(offsets_of(one.ranges), one.keys or (0,) * len(offsets_of(one.ranges)), strict=True))
            left = [offset for offset in keys if offset < end]
            one.ranges, one.keys = ranges_of(left), [keys[offset] for offset in left] if one.keys else []


def reopened(queue: Queue, producer_id: int, now_ms: int) -> list[Change]:
    """What the commit of a transaction reopens. A message behind an earlier one of its key waits for that."""
    found: list[Change] = []
    done: set[int] = set()
    for one in queue.reopenings.of(producer_id):
        offsets = offsets_of(one.ranges)
        keys = dict(zip(offsets, one.keys or (0,) * len(offsets), strict=True))
        settled = [
            offset
            for offset in offsets
            if offset < queue.cursors[one.lane] and offset not in queue.outstanding and offset not in done
        ]
        done.update(settled)
        if not one.keys:
            if settled:
                found.append(Reopened(one.lane, ranges_of(settled), now_ms))
            continue
        free, parked = by_key(queue, one.lane, settled, [keys[offset] for offset in settled])
        if free:
            found.append(Reopened(one.lane, ranges_of([at for at, _ in free]), now_ms, [key for _, key in free]))
        if parked:
            found.append(Parked(one.lane, ranges_of([at for at, _ in parked]), [key for _, key in parked]))
    return found

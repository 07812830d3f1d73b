"""Deadlines: which key is due when, with the nearest one always at hand.

A deadline is moved by setting it again, which is what every heartbeat does; the entry that
it replaces stays in the heap until it surfaces, so moving one costs a push.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

# The heap is built anew when this many times more entries lie in it than are alive.
_STALE_RATIO_MAX = 4
_STALE_ENTRIES_MIN = 64


class Deadlines(Generic[Key]):
    """One deadline per key."""

    __slots__ = ("_at_ms", "_heap", "_order")

    def __init__(self) -> None:
        self._at_ms: dict[Key, tuple[int, int]] = {}
        # Ties fall in the order in which they were set, and keys are never compared.
        self._heap: list[tuple[int, int, Key]] = []
        self._order = 0

    def __contains__(self, key: Key) -> bool:
        return key in self._at_ms

    def __len__(self) -> int:
        return len(self._at_ms)

    def at_ms(self, key: Key) -> int | None:
        """When this key is due, if it is."""
        entry = self._at_ms.get(key)
        return None if entry is None else entry[0]

    def set(self, key: Key, at_ms: int) -> None:
        """Make the key due then, instead of whenever it was due before."""
        self._order += 1
        self._at_ms[key] = (at_ms, self._order)
        heapq.heappush(self._heap, (at_ms, self._order, key))
        if len(self._heap) > _STALE_ENTRIES_MIN + _STALE_RATIO_MAX * len(self._at_ms):
            self._rebuild()

    def cancel(self, key: Key) -> None:
        """Forget the key; no harm when it has no deadline."""
        self._at_ms.pop(key, None)

    def shift(self, ms: int) -> None:
        """Put every deadline off by so much."""
        self._at_ms = {key: (at_ms + ms, order) for key, (at_ms, order) in self._at_ms.items()}
        self._rebuild()

    def next_ms(self) -> int | None:
        """When the nearest key is due."""
        heap = self._heap
        while heap:
            at_ms, order, key = heap[0]
            if self._at_ms.get(key) == (at_ms, order):
                return at_ms
            heapq.heappop(heap)
        return None

    def pop_due(self, now_ms: int) -> Key | None:
        """Take out the nearest key that is due, or None when nothing is."""
        at_ms = self.next_ms()
        if at_ms is None or at_ms > now_ms:
            return None
        key = heapq.heappop(self._heap)[2]
        del self._at_ms[key]
        return key

    def _rebuild(self) -> None:
        self._heap = [(at_ms, order, key) for key, (at_ms, order) in self._at_ms.items()]
        heapq.heapify(self._heap)

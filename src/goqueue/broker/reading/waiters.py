"""Readers that wait for more: one future per fetch, shared by all partitions it reads.

A waiter counts the bytes it still misses, so that a hundred small appends wake a patient
reader once and not a hundred times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence


class Waiter:
    """One fetch that waits."""

    __slots__ = ("_future", "_missing_bytes")

    def __init__(self, missing_bytes: int) -> None:
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._missing_bytes = missing_bytes

    def grew(self, size: int) -> None:
        """Some partition has that many bytes more to show."""
        self._missing_bytes -= size
        if self._missing_bytes <= 0:
            self.wake()

    def wake(self) -> None:
        """Look again now."""
        if not self._future.done():
            self._future.set_result(None)

    async def wait(self, places: Sequence[Waiters], timeout_s: float) -> None:
        """Sleep in all places until woken or out of time. Cancelled or not, nothing stays behind."""
        timer = asyncio.get_running_loop().call_later(timeout_s, self.wake)
        for place in places:
            place.add(self)
        try:
            await self._future
        finally:
            timer.cancel()
            for place in places:
                place.discard(self)


class Waiters:
    """Who waits at one partition."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        # A dict keeps the order of arrival, so that the longest waiting is woken first.
        self._waiting: dict[Waiter, None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, waiter: Waiter) -> None:
        """Wake it when the partition grows."""
        self._waiting[waiter] = None

    def discard(self, waiter: Waiter) -> None:
        """It no longer waits here."""
        self._waiting.pop(waiter, None)

    def grew(self, size: int) -> None:
        """Tell everyone that there are `size` bytes more."""
        for waiter in self._waiting:
            waiter.grew(size)

    def wake_all(self) -> None:
        """Make everyone look again: what they may see has changed in another way."""
        for waiter in self._waiting:
            waiter.wake()

"""SetAside: due slots that cannot be read, because their delay log is damaged there, wait until they can.

Meanwhile they are not on their way: they may be cancelled, and others have their room.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from goqueue.delay.due.index import Row
from goqueue.delay.due.indexing import OnTrouble
from goqueue.delay.holding.store import Store
from goqueue.errors import GoQueueError, ShuttingDown

# A damaged log is repaired by another replica, or by an operator: that takes a while.
DAMAGED_RETRY_MS = 10_000
# Slots that are looked up at one stroke, which nobody else on the loop gets in between.
_LOOK_UPS_MAX = 200


class SetAside:
    """Of all partitions. `wake` is called when some are due again."""

    def __init__(
        self, spawn: Callable[[Coroutine[Any, Any, None]], None], wake: Callable[[], None], on_trouble: OnTrouble
    ) -> None:
        self._spawn = spawn
        self._wake = wake
        self._on_trouble = on_trouble
        # By partition, the slots that wait already: the near future may be loaded again meanwhile, and has them then.
        self._waiting: dict[Store, set[int]] = {}

    def without(self, store: Store, rows: Sequence[Row], damaged: Mapping[int, Exception]) -> list[Row]:
        """Set aside what is damaged of the rows of a partition; returns the others."""
        aside = [row for row in rows if row.slot in damaged]
        if aside:
            for row in aside:
                store.settle(row.slot)
            what = f"{len(aside)} delayed messages of {store.place} cannot be read"
            self._on_trouble(what, damaged[aside[0].slot])
            waiting = self._waiting.setdefault(store, set())
            if fresh := [row for row in aside if row.slot not in waiting]:
                waiting.update(row.slot for row in fresh)
                self._spawn(self._bring_back(store, fresh))
        return [row for row in rows if row.slot not in damaged]

    async def _bring_back(self, store: Store, aside: Sequence[Row]) -> None:
        left = list(reversed(aside))
        while left and not store.is_over:
            await asyncio.sleep(DAMAGED_RETRY_MS / 1000)
            try:
                await self._put_back(store, left)
            except ShuttingDown:
                return
            except GoQueueError as error:
                self._on_trouble(f"delayed messages of {store.place} could not be looked up", error)
            self._wake()
        if store.is_over:
            self._waiting.pop(store, None)

    async def _put_back(self, store: Store, left: list[Row]) -> None:
        """Take off the list, one after the other, what may be read again."""
        while left and not store.is_over:
            for row in left[: -_LOOK_UPS_MAX - 1 : -1]:
                # As it is by now: cancelled, perhaps, or put off. Done twice, it has no effect.
                store.near.put(row.key, store.find(row.slot))
                # Not later: the driver may find it damaged once more before the others are looked up.
                self._waiting[store].discard(row.slot)
                left.pop()
            if not self._waiting[store]:
                del self._waiting[store]
                return
            await asyncio.sleep(0)

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

    def without(self, store: Store, rows: Sequence[Row], damaged: Mapping[int, Exception]) -> list[Row]:
        """Set aside what is damaged of the rows of a partition; returns the others."""
        aside = [row for row in rows if row.slot in damaged]
        if aside:
            for row in aside:
                store.settle(row.slot)
            what = f"{len(aside)} delayed messages of {store.place} cannot be read"
            self._on_trouble(what, damaged[aside[0].slot])
            self._spawn(self._bring_back(store, aside))
        return [row for row in rows if row.slot not in damaged]

    async def _bring_back(self, store: Store, aside: Sequence[Row]) -> None:
        while True:
            await asyncio.sleep(DAMAGED_RETRY_MS / 1000)
            try:
                for at, row in enumerate(aside):
                    if at % _LOOK_UPS_MAX == 0:
                        await asyncio.sleep(0)
                    if store.is_over:
                        return
                    # As it is by now: cancelled, perhaps, or put off. Done twice, it has no effect.
                    store.near.put(row.key, store.find(row.slot))
            except ShuttingDown:
                return
            except GoQueueError as error:
                self._on_trouble(f"delayed messages of {store.place} could not be looked up", error)
            else:
                self._wake()
                return

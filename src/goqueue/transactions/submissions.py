"""Submissions: commands on their way to the shard of a transactional id or writer.

A command that meets a transaction that is being ended is held until the transaction has ended, for a bounded time.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import cast

from goqueue.coordinator.runtime import Coordinator
from goqueue.errors import ConcurrentTransactions, GoQueueError
from goqueue.ids import parse_transactional_id
from goqueue.transactions.commands import Describe, Described
from goqueue.transactions.markers import Markers
from goqueue.transactions.names import Name, shard_key

# A transaction that is being ended is done within milliseconds. Clients that are told to come back
# wait much longer than that, so the answer is held instead.
HOLD_SECONDS_MAX = 5.0


class Submissions:
    """Submits to the coordinator's shards, and waits for the markers of what they decide."""

    def __init__(self, coordinator: Coordinator, markers: Markers) -> None:
        self._coordinator = coordinator
        self._markers = markers

    async def submit(self, name: Name, command: object) -> object:
        """The reply of the shard that the transactional id or writer belongs to."""
        if isinstance(name, str):
            parse_transactional_id(name)
        shard = self._coordinator.partition_for(shard_key(name))
        self._markers.watch((shard,))
        loop = asyncio.get_running_loop()
        deadline = loop.time() + HOLD_SECONDS_MAX
        while True:
            try:
                return await self._coordinator.submit_to(shard, command)
            except ConcurrentTransactions:
                left = deadline - loop.time()
                if left <= 0:
                    raise
                await self._markers.ended(name, left)

    async def until_applied(self, transactional_id: str) -> None:
        """Wait until the markers of a decided transaction are written. It is decided, so no failure is raised."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + HOLD_SECONDS_MAX
        with suppress(GoQueueError):
            while (left := deadline - loop.time()) > 0:
                described = cast("Described", await self.submit(transactional_id, Describe(transactional_id)))
                if not described.state.is_prepared:
                    return
                await self._markers.ended(transactional_id, left)

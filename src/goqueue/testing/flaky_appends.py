"""Appends over a bad network: slow, lost on the way there or back, and carried out twice.

Whoever appends elsewhere must send the same batch again after a failure, and a partition must recognise it. The order
of calls is kept only as far as the caller waits for one before the next.
"""

from __future__ import annotations

import asyncio
from random import Random

import msgspec

from goqueue.broker.arrivals.append_anywhere import AppendAnywhere, Stored
from goqueue.errors import NotLeader, RequestTimedOut
from goqueue.ports import Buffer
from goqueue.records import Acks, TopicPartition


class AppendFaults(msgspec.Struct, frozen=True):
    """How likely each fault is for one call, and how long one takes."""

    lost_request: float = 0.15
    lost_reply: float = 0.25
    refused: float = 0.1
    repeated: float = 0.1
    wait_ms_max: int = 200


class FlakyAppends:
    """Stands before an `AppendAnywhere`, and loses what it may."""

    def __init__(self, append: AppendAnywhere, faults: AppendFaults, rng: Random) -> None:
        self._append = append
        self._faults = faults
        self._rng = rng

    async def __call__(
        self, place: TopicPartition, batch: Buffer, acks: Acks, /, *, transaction: int | None = None
    ) -> Stored:
        """Append, or not, or say that it is not known."""
        faults, rng = self._faults, self._rng
        await self._pause()
        if rng.random() < faults.refused:
            raise NotLeader(f"a simulated node does not lead {place}")
        if rng.random() < faults.lost_request:
            raise RequestTimedOut("a simulated request was lost")
        stored = await self._append(place, batch, acks, transaction=transaction)
        if rng.random() < faults.repeated:
            # A connection that was replaced delivers the request a second time.
            await self._append(place, batch, acks, transaction=transaction)
        await self._pause()
        if rng.random() < faults.lost_reply:
            raise RequestTimedOut("a simulated reply was lost: the batch is stored")
        return stored

    async def _pause(self) -> None:
        await asyncio.sleep(self._rng.random() * self._faults.wait_ms_max / 1000)

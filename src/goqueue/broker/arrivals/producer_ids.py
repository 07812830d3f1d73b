"""Producer ids: taken from durable blocks, so that none is ever given out twice."""

from __future__ import annotations

import asyncio

from goqueue.errors import GuardFailed
from goqueue.metadata.events import ProducerIdsReserved
from goqueue.metadata.keys import PRODUCER_IDS
from goqueue.metadata.store import Guard, MetadataStore

BLOCK_SIZE = 1000
# Ids from here on write no transactions, which every node of a cluster sees without asking whoever gave one out. Far
# above all blocks, and small enough for clients that keep numbers as floating point (2 ** 53).
PLAIN_FIRST = 1 << 50


def is_plain(producer_id: int) -> bool:
    """Whether the id was given out to whoever writes outside transactions."""
    return producer_id >= PLAIN_FIRST


class ProducerIds:
    """Hands out ids; a block that a stop leaves half used is lost, never used again."""

    def __init__(self, metadata: MetadataStore, *, block_size: int = BLOCK_SIZE) -> None:
        self._metadata = metadata
        self._block_size = block_size
        self._next = 0
        self._end = 0
        self._reserving = asyncio.Lock()

    async def allocate(self) -> int:
        """A new id. It waits for the disk only once per block."""
        while self._next == self._end:
            await self._reserve()
        allocated = self._next
        self._next += 1
        return allocated

    async def allocate_plain(self) -> int:
        """A new id for whoever writes outside transactions."""
        return PLAIN_FIRST + await self.allocate()

    async def _reserve(self) -> None:
        async with self._reserving:
            if self._next < self._end:
                return
            image = self._metadata.image
            first, guard = image.next_producer_id, Guard(PRODUCER_IDS, image.revision_of(PRODUCER_IDS))
            end = first + self._block_size
            try:
                await self._metadata.commit([ProducerIdsReserved(end)], [guard])
            except GuardFailed:
                # Another node took this block. The image shows by now where the next one begins.
                return
            self._next, self._end = first, end

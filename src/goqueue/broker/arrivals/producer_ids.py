"""Producer ids: taken from durable blocks, so that none is ever given out twice."""

from __future__ import annotations

import asyncio

from goqueue.errors import GuardFailed
from goqueue.metadata.events import ProducerIdsReserved
from goqueue.metadata.keys import PRODUCER_IDS
from goqueue.metadata.store import Guard, MetadataStore

BLOCK_SIZE = 1000
# The oldest are forgotten first.
_PLAIN_MAX = 100_000


class ProducerIds:
    """Hands out ids; a block that a stop leaves half used is lost, never used again."""

    def __init__(self, metadata: MetadataStore, *, block_size: int = BLOCK_SIZE) -> None:
        self._metadata = metadata
        self._block_size = block_size
        self._next = 0
        self._end = 0
        self._reserving = asyncio.Lock()
        self._plain: dict[int, None] = {}

    async def allocate(self) -> int:
        """A new id. It waits for the disk only once per block."""
        while self._next == self._end:
            await self._reserve()
        allocated = self._next
        self._next += 1
        return allocated

    async def allocate_plain(self) -> int:
        """A new id for whoever writes outside transactions."""
        allocated = await self.allocate()
        if len(self._plain) >= _PLAIN_MAX:
            del self._plain[next(iter(self._plain))]
        self._plain[allocated] = None
        return allocated

    def is_plain(self, producer_id: int) -> bool:
        """Whether this node gave the id out for that, so that it writes no transactions; others may have given more."""
        return producer_id in self._plain

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

"""Producer ids: taken from durable blocks, so that none is ever given out twice."""

from __future__ import annotations

import asyncio

from goqueue.metadata.image import ProducerIdsReserved
from goqueue.metadata.local import LocalMetadata

BLOCK_SIZE = 1000


class ProducerIds:
    """Hands out ids; a block that a stop leaves half used is lost, never used again."""

    def __init__(self, metadata: LocalMetadata, *, block_size: int = BLOCK_SIZE) -> None:
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

    async def _reserve(self) -> None:
        async with self._reserving:
            if self._next < self._end:
                return
            first = self._metadata.image.next_producer_id
            end = first + self._block_size
            await self._metadata.commit([ProducerIdsReserved(end)])
            self._next, self._end = first, end

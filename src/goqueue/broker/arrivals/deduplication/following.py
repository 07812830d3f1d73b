"""WindowFeed: the windows of partitions that other nodes lead follow their logs, in the background.

So a follower that becomes the leader has all but the newest ids in memory, however long the window is, and no write
waits while it is read.
"""

from __future__ import annotations

import asyncio
import logging

from goqueue.broker.arrivals.deduplication.windows import Deduplication
from goqueue.broker.replicas.partitions import Partition, Partitions
from goqueue.broker.replicas.roles import Following
from goqueue.clock import Clock
from goqueue.errors import GoQueueError

_log = logging.getLogger(__name__)

# Between two looks at the high watermarks. What came since is read when this node becomes the leader.
_PAUSE_SECONDS = 1.0


class WindowFeed:
    """Feeds windows until it is closed. Of use in a cluster only: a single node follows nobody."""

    def __init__(self, deduplication: Deduplication, partitions: Partitions, clock: Clock) -> None:
        self._deduplication = deduplication
        self._partitions = partitions
        self._clock = clock
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """From now on, follow."""
        self._running = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop. What was followed counts for nothing: the next start reads the logs."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])

    async def _run(self) -> None:
        while True:
            for place in self._partitions.all_open():
                if place.config.dedup_window_ms and isinstance(place.role, Following):
                    await self._follow(place)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _follow(self, place: Partition) -> None:
        try:
            while isinstance(place.role, Following) and await self._deduplication.follow(place, self._clock.now_ms()):
                pass
        except (GoQueueError, OSError, ValueError) as error:
            # A log that was let go while it was read, or that cannot be read for the moment: it is tried again.
            _log.debug("the deduplication ids of %s could not be read beforehand: %s", place.key, error)

"""Verification: every log of this node is read once in a while, slowly, so that damage is found before it is needed.

Nobody reads the logs of a follower, and old segments of a leader may be read by nobody for long. What is damaged is
noted by the log, and repaired from other replicas by `repairs`.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from goqueue.broker.replicas.partitions import Partitions
from goqueue.errors import CorruptFrame, GoQueueError
from goqueue.log.partition_log import PartitionLog
from goqueue.ports import Offload

_log = logging.getLogger("goqueue.cluster")

_READ_BYTES = 256 * 1024
# After the start there is more urgent work.
_FIRST_PAUSE_S = 5.0


class Verification:
    """Reads everything, at `bytes_per_s_max`; after all logs it rests for `pause_s`."""

    def __init__(self, partitions: Partitions, offload: Offload, *, bytes_per_s_max: int, pause_s: float) -> None:
        self._partitions = partitions
        self._offload = offload
        self._bytes_per_s_max = bytes_per_s_max
        self._pause_s = pause_s
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin. With a rate of 0 nothing is read."""
        if self._bytes_per_s_max > 0:
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Leave off."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        await asyncio.sleep(min(self._pause_s, _FIRST_PAUSE_S))
        while True:
            for log in list(self._partitions.open_logs()):
                try:
                    await self._verify(log)
                except (GoQueueError, OSError) as error:
                    # Closed, deleted or being cut: it has its turn again.
                    _log.debug("%s was not verified: %s", log.directory, error)
                except Exception:  # noqa: BLE001 - without this loop no damage would be found before it is needed
                    _log.exception("%s could not be verified, and will be tried again", log.directory)
                await asyncio.sleep(0)
            await asyncio.sleep(self._pause_s)

    async def _verify(self, log: PartitionLog) -> None:
        offset = log.start_offset
        while offset < log.high_watermark:
            read = partial(log.read_frames, offset, max_bytes=_READ_BYTES, upper=log.high_watermark)
            try:
                found = await self._offload(read)
            except CorruptFrame as damage:
                # The log has noted it.
                if damage.next_offset is None or damage.next_offset <= offset:
                    return
                offset = damage.next_offset
                continue
            if found.next_offset <= offset:
                return
            offset = found.next_offset
            await asyncio.sleep(found.bytes / self._bytes_per_s_max)

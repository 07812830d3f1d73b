"""FollowerFeed: the due index takes in the delay logs of partitions that other nodes lead, in the background.

So a follower that becomes the leader has all but the newest slots in its index, however many are held. Only what lies
below the high watermark is taken in: no election but an unclean one cuts that off, and the index notices by the leader
epochs that something is gone (`has_lost`) and is rebuilt for the partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from goqueue.broker.replicas.family import FamilyLog
from goqueue.broker.replicas.partitions import Partition, Partitions
from goqueue.broker.replicas.roles import Following, Role
from goqueue.delay.due.indexing import Indexing, OnTrouble
from goqueue.errors import GoQueueError, ShuttingDown
from goqueue.log.partition_log import PartitionLog
from goqueue.records import LogKind, TopicPartition

# Between two looks at the high watermarks. The leader's own writes are in the index after 50 ms; a follower has time.
_PAUSE_SECONDS = 1.0


class Followed(NamedTuple):
    """A delay log of which this node has a copy."""

    topic_id: bytes
    partition: int
    log: PartitionLog


class FollowerFeed:
    """Feeds the index files from the delay logs that this node follows. A node that follows none does nothing."""

    def __init__(
        self, partitions: Partitions, file_of: Callable[[bytes, int], Indexing], on_trouble: OnTrouble
    ) -> None:
        self._partitions = partitions
        self._file_of = file_of
        self._on_trouble = on_trouble
        self._open: dict[TopicPartition, tuple[Partition, FamilyLog]] = {}
        # How far the index has each log, in the present term.
        self._fed: dict[TopicPartition, int] = {}
        self._running: asyncio.Task[None] | None = None
        self._closed = False

    def start(self) -> None:
        """From now on, follow."""
        for partition in self._partitions.all_open():
            member = partition.member(LogKind.DELAY)
            if member is not None:
                self._on_member(partition, member)
        self._partitions.on_member(self._on_member)
        self._partitions.on_role(self._on_role)

    async def close(self) -> None:
        """Stop where it is: what is missing is taken in later."""
        self._closed = True
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])

    def _on_member(self, partition: Partition, member: FamilyLog) -> None:
        if member.kind is LogKind.DELAY:
            self._open[partition.key] = (partition, member)
            self._begin()

    def _on_role(self, place: TopicPartition, role: Role | None) -> None:
        # In another term the log may have been cut: it is compared with the index again.
        self._fed.pop(place, None)
        if role is None:
            self._open.pop(place, None)
        elif place in self._open:
            self._begin()

    def _begin(self) -> None:
        if self._running is None and not self._closed and any(self._followed()):
            self._running = asyncio.get_running_loop().create_task(self._run())

    def _followed(self) -> list[TopicPartition]:
        return [place for place, (partition, _) in self._open.items() if isinstance(partition.role, Following)]

    async def _run(self) -> None:
        try:
            while places := self._followed():
                for place in places:
                    await self._feed(place)
                await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            self._running = None

    async def _feed(self, place: TopicPartition) -> None:
        """Take in what one log has below its high watermark, a stretch at a time: others use the file in between."""
        while place in self._open:
            partition, member = self._open[place]
            log = member.log
            end = min(log.high_watermark, log.end_offset)
            if not isinstance(partition.role, Following) or self._fed.get(place, -1) >= end:
                return
            role = partition.role
            topic_id = partition.topic_id.bytes
            try:
                fed = await self._file_of(topic_id, partition.id).feed(Followed(topic_id, partition.id, log), end)
            except ShuttingDown:
                return
            except (GoQueueError, OSError, ValueError) as error:
                # A log that was let go while it was read, or a file that cannot be used for the moment.
                self._on_trouble(f"the delayed messages of {place} could not be indexed beforehand", error)
                return
            if fed is None or partition.role is not role or self._fed.get(place) == fed:
                return
            self._fed[place] = fed

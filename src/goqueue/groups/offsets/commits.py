"""Offsets on their way to be committed: what they mean, whether they may last, and whose turn it is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

from goqueue.broker.topics import TopicService
from goqueue.errors import GoQueueError, PartitionNotFound, TopicNotFound
from goqueue.groups.commands import OffsetToCommit

# (topic, partition, offset): wait until all records below the offset survive a power cut; None if they do.
DataSynced = Callable[[str, int, int], Awaitable[None] | None]

# An offset that can be committed, or why it cannot.
Resolved = OffsetToCommit | GoQueueError


@dataclass(frozen=True, slots=True)
class NewOffset:
    """An offset to commit, as a front-end knows it: by the topic's name."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class Commits:
    """Prepares commits for the machine."""

    def __init__(self, topics: TopicService, synced: DataSynced) -> None:
        self._topics = topics
        self._synced = synced
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def turn(self, group: str) -> asyncio.Lock:
        """Commits of a group hold this while they are prepared, so that they stay in their order."""
        return self._turns.setdefault(group, asyncio.Lock())

    def resolved(self, one: NewOffset) -> Resolved:
        """The offset of the topic that has the name now."""
        topic = self._topics.find(one.topic)
        if topic is None:
            return TopicNotFound(one.topic)
        if not 0 <= one.partition < topic.partition_count:
            return PartitionNotFound(one.topic, one.partition)
        return OffsetToCommit(one.topic, topic.topic_id, one.partition, one.offset, one.leader_epoch, one.metadata)

    async def lasting(self, resolved: Sequence[Resolved]) -> Sequence[Resolved]:
        """Wait until no power cut can take what was read: else others would lie below the offset, never to be read."""
        begun = [self._begin_wait(one) for one in resolved]
        return [one if wait is None else await _after(wait, one) for one, wait in begun]

    def _begin_wait(self, one: Resolved) -> tuple[Resolved, Awaitable[None] | None]:
        if not isinstance(one, OffsetToCommit):
            return one, None
        try:
            return one, self._synced(one.topic, one.partition, one.offset)
        except GoQueueError as error:
            return error, None


async def _after(wait: Awaitable[None], one: Resolved) -> Resolved:
    try:
        await wait
    except GoQueueError as error:
        return error
    return one

"""RedrivenTopics: which topics may hold records that are for one group only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from uuid import UUID

from goqueue.broker.topics import TopicService
from goqueue.clock import Clock
from goqueue.delivery.shards import QueueShards
from goqueue.errors import GoQueueError
from goqueue.ids import DEAD_LETTER_SUFFIX, REDRIVE_GROUP
from goqueue.records import TopicPartition

# For how long other leaders are believed that a redrive has not begun. The node that begins one tells all others; this
# is for those that it could not reach.
_BELIEVED_MS = 1_000
_FOR_EVER_MS = 2**62

# (partitions of a dead-letter topic): whether any of their leaders knows of a redrive.
AskLeaders = Callable[[Sequence[TopicPartition]], Awaitable[bool]]


class RedrivenTopics:
    """Topics whose dead letters were ever sent back: the redrive leaves a queue of its own behind in those."""

    def __init__(self, shards: QueueShards, topics: TopicService, clock: Clock) -> None:
        self._shards = shards
        self._topics = topics
        self._clock = clock
        # By the ids of dead-letter topics, as far as anybody asked: the answer, and until when it holds.
        self._known: dict[UUID, tuple[bool, int]] = {}
        # In a cluster, set by the node: other nodes lead partitions of dead letters.
        self.ask_leaders: AskLeaders | None = None

    def note(self, letters: Iterable[str]) -> None:
        """Letters of these dead-letter topics are sent back from now on."""
        for topic in filter(None, map(self._topics.find, letters)):
            self._known[topic.topic_id] = (True, _FOR_EVER_MS)

    async def reaches(self, topic: str) -> bool:
        """Whether records of a topic may be for one group only."""
        letters = self._topics.find(topic + DEAD_LETTER_SUFFIX)
        if letters is None:
            return False
        known, until_ms = self._known.get(letters.topic_id, (False, -1))
        if self._clock.monotonic_ms() < until_ms:
            return known
        places = [TopicPartition(letters.name, number) for number in range(letters.partition_count)]
        found, believed_ms = await self._ask(places)
        known, until_ms = self._known.get(letters.topic_id, (False, -1))
        if not (known and until_ms == _FOR_EVER_MS):
            # Nobody has begun one while the others were asked.
            known = found
            self._known[letters.topic_id] = (found, min(self._clock.monotonic_ms() + believed_ms, _FOR_EVER_MS))
        return known

    async def here(self, letters: Sequence[TopicPartition]) -> bool:
        """Whether a redrive has a queue in any of these partitions, which this node leads."""
        queues = [await self._shards.known(self._shards.id_of(REDRIVE_GROUP, one)) for one in letters]
        return any(queue is not None and queue.sequence for queue in queues)

    async def _ask(self, places: Sequence[TopicPartition]) -> tuple[bool, int]:
        """The answer, and how long it holds."""
        if self.ask_leaders is None:
            return await self.here(places), _FOR_EVER_MS
        try:
            found = await self.ask_leaders(places)
        except GoQueueError:
            # Looked at one by one, records are given to nobody whom they are not for.
            return True, _BELIEVED_MS
        return found, _FOR_EVER_MS if found else _BELIEVED_MS

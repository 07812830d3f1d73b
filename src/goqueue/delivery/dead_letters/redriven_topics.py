"""RedrivenTopics: which topics may hold records that are for one group only."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from goqueue.broker.topics import TopicService
from goqueue.delivery.shards import QueueShards
from goqueue.delivery.state.records import QueueId
from goqueue.ids import DEAD_LETTER_SUFFIX, REDRIVE_GROUP


class RedrivenTopics:
    """Topics whose dead letters were ever sent back: the redrive leaves a queue of its own behind in those."""

    def __init__(self, shards: QueueShards, topics: TopicService) -> None:
        self._shards = shards
        self._topics = topics
        # By the ids of dead-letter topics, as far as anybody asked.
        self._known: dict[UUID, bool] = {}

    def note(self, letters: Iterable[str]) -> None:
        """Letters of these dead-letter topics are sent back from now on."""
        self._known |= {topic.topic_id: True for topic in filter(None, map(self._topics.find, letters))}

    async def reaches(self, topic: str) -> bool:
        """Whether records of a topic may be for one group only."""
        letters = self._topics.find(topic + DEAD_LETTER_SUFFIX)
        if letters is None:
            return False
        known = self._known.get(letters.topic_id)
        if known is None:
            ids = [QueueId(REDRIVE_GROUP, letters.topic_id, number) for number in range(letters.partition_count)]
            queues = [await self._shards.known(one) for one in ids]
            known = any(queue is not None and queue.sequence for queue in queues)
            known = self._known.setdefault(letters.topic_id, known)
        return known

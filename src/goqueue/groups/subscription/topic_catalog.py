"""The topics of the node as groups see them."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from goqueue.broker.topics import TopicService
from goqueue.errors import TopicIdNotFound
from goqueue.groups.subscription.topic_partitions import TopicShape
from goqueue.metadata.events import Delta, PartitionsAdded, TopicCreated, TopicDeleted


class NodeTopics:
    """A `TopicCatalog` over the node's topics. It must be told of metadata deltas."""

    def __init__(self, topics: TopicService) -> None:
        self._topics = topics
        self._version = 0

    @property
    def version(self) -> int:
        """How many changes have been heard of."""
        return self._version

    def on_delta(self, delta: Delta) -> None:
        """Listen to metadata: members get new targets at their next heartbeat, once per transaction."""
        if any(isinstance(event, TopicCreated | TopicDeleted | PartitionsAdded) for event in delta.events):
            self._version += 1

    def shape(self, name: str) -> TopicShape | None:
        """Id and partition count of a topic."""
        topic = self._topics.find(name)
        return None if topic is None else TopicShape(topic.topic_id, topic.partition_count)

    def name_of(self, topic_id: UUID) -> str | None:
        """The name of a topic that is there."""
        try:
            return self._topics.by_id(topic_id).name
        except TopicIdNotFound:
            return None

    def names(self) -> Iterable[str]:
        """Every topic but the broker's own."""
        return [topic.name for topic in self._topics.list() if not topic.internal]

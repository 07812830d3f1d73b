"""TopicSettings: what applies to each topic here, parsed once per change, and whose turn it is among its partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from goqueue.config import LogConfig
from goqueue.metadata.settings.broker_defaults import with_defaults
from goqueue.metadata.settings.topic_config import TopicConfig, parse_topic_config
from goqueue.partitioner import RoundRobin

if TYPE_CHECKING:
    from uuid import UUID

    from goqueue.metadata.events import Topic


class TopicSettings:
    """The settings of all topics, over the broker's own and the defaults that were altered at run time."""

    def __init__(self, log_config: LogConfig, defaults: Mapping[str, str]) -> None:
        self.broker = log_config
        # The broker's own topics keep to its file.
        self._altered = with_defaults(log_config, defaults)
        self._configs: dict[UUID, tuple[Topic, TopicConfig]] = {}
        self._turns: dict[UUID, RoundRobin] = {}

    def __len__(self) -> int:
        """How many topics anything is kept of."""
        return len(self._configs.keys() | self._turns.keys())

    def of(self, topic: Topic) -> TopicConfig:
        """The topic's settings."""
        known = self._configs.get(topic.topic_id)
        if known is None or known[0] is not topic:
            known = (topic, parse_topic_config(topic.config, self.log_config(topic)))
            self._configs[topic.topic_id] = known
        return known[1]

    def log_config(self, topic: Topic) -> LogConfig:
        """The broker's settings that the topic follows where it has none of its own."""
        return self.broker if topic.internal else self._altered

    def turns(self, topic: Topic) -> RoundRobin:
        """Whose turn it is among the topic's partitions, for records without a key."""
        return self._turns.setdefault(topic.topic_id, RoundRobin())

    def alter(self, defaults: Mapping[str, str]) -> None:
        """The broker's defaults were changed: every topic is parsed again when it is asked for."""
        self._altered = with_defaults(self.broker, defaults)
        self._configs.clear()

    def forget(self, topic_id: UUID) -> None:
        """The topic is gone."""
        self._configs.pop(topic_id, None)
        self._turns.pop(topic_id, None)

"""The offset of a stream, as Spark keeps it in its checkpoint.

`{"topic": {"0": 17}, "@group": "spark-topic-1f2e3d4c", "@ids": {"topic": "3d9f..."}}`. The group is drawn once, when
the stream begins, and travels in the checkpoint with the offsets: so a query keeps its group over restarts, and its
progress is the group's lag, for every tool that shows lag. The ids say which topic the offsets belong to: a topic
that was deleted and created again has the same name and another id. Checkpoints of older versions have no ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from goqueue.pipeline.source.catalogue import Offsets
from goqueue.records import TopicPartition

# No topic can be called so.
_GROUP, _IDS = "@group", "@ids"


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """Where a stream stands in every partition, in which group, and in topics of which ids."""

    places: Offsets
    group: str | None = None
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def decode(cls, encoded: Mapping[str, Any]) -> Self:
        """From the form in the checkpoint."""
        places = {
            TopicPartition(topic, int(partition)): offset
            for topic, partitions in encoded.items()
            if not topic.startswith("@")
            for partition, offset in partitions.items()
        }
        return cls(places, encoded.get(_GROUP), encoded.get(_IDS) or {})

    def encode(self) -> dict[str, Any]:
        """The form in the checkpoint."""
        encoded: dict[str, Any] = {}
        for place, offset in sorted(self.places.items()):
            encoded.setdefault(place.topic, {})[str(place.partition)] = offset
        ids = {topic: self.topic_ids[topic] for topic in encoded if topic in self.topic_ids}
        return encoded | ({_GROUP: self.group} if self.group else {}) | ({_IDS: ids} if ids else {})

    def recreated(self, now: Mapping[str, str]) -> set[str]:
        """The topics that have other ids now."""
        return {topic for topic, known in self.topic_ids.items() if now.get(topic, known) != known}

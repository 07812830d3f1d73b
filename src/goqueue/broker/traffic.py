"""What went in and out of each topic since the start: plain counters, one add per batch.

Whoever shows them turns them into series; the paths only count.
"""

from __future__ import annotations

from collections import Counter

from goqueue.records import Priority


class TopicTraffic:
    """The counters of one topic."""

    __slots__ = ("bytes_in", "bytes_out", "failures", "lanes_in", "messages_in", "messages_out")

    def __init__(self) -> None:
        self.messages_in = 0
        # Of these, by lane.
        self.lanes_in = [0] * len(Priority)
        self.bytes_in = 0
        self.messages_out = 0
        self.bytes_out = 0
        # By the code of the error that the producer got.
        self.failures: Counter[str] = Counter()


class Traffic:
    """The counters of all topics; those of a deleted topic go with it."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicTraffic] = {}

    def of(self, topic: str) -> TopicTraffic:
        """The counters of a topic, made on first use."""
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = TopicTraffic()
        return found

    def forget(self, topic: str) -> None:
        """The topic was deleted."""
        self._topics.pop(topic, None)

    def items(self) -> list[tuple[str, TopicTraffic]]:
        """Every topic that had traffic, by name."""
        return sorted(self._topics.items())

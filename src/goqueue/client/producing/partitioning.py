"""Which partition a record goes to when its sender does not say: what the broker would choose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from goqueue.partitioner import MURMUR3, RoundRobin, partition_for_key


class Partitioner:
    """Chooses partitions for one topic, keys by the hash that the topic's `goqueue.partitioner` names."""

    def __init__(self, partitions: int, algorithm: str = MURMUR3) -> None:
        self._partitions = partitions
        self._algorithm = algorithm
        self._turns = RoundRobin()

    @classmethod
    def of(cls, topic: Mapping[str, Any]) -> Self:
        """For a topic as the broker describes it."""
        return cls(topic["partitions"], topic["config"].get("goqueue.partitioner", MURMUR3))

    def choose(self, key: bytes | None) -> int:
        """The partition of this record."""
        if key is None:
            return self._turns.take(self._partitions)
        return partition_for_key(key, self._partitions, self._algorithm)

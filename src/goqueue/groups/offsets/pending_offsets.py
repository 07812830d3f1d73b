"""Pending offsets: what open transactions of this shard would commit, and for whom."""

from __future__ import annotations

from collections.abc import Iterable

from goqueue.records import TopicPartition


class PendingOffsets:
    """By producer, since a transaction ends as a whole. A replay builds it again."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, set[tuple[str, TopicPartition]]] = {}

    def add(self, producer_id: int, group: str, partition: TopicPartition) -> None:
        """The producer's transaction would commit an offset of this partition."""
        self._by_producer.setdefault(producer_id, set()).add((group, partition))

    def end(self, producer_id: int) -> None:
        """The producer's transaction has ended."""
        self._by_producer.pop(producer_id, None)

    def of_group(self, group: str, wanted: Iterable[TopicPartition] | None) -> tuple[TopicPartition, ...]:
        """Those of these partitions, or of all, whose offset may change, in order."""
        found = {one for pending in self._by_producer.values() for name, one in pending if name == group}
        return tuple(sorted(found if wanted is None else found.intersection(wanted)))

"""PromisedOffsets: what open transactions will do to messages of one queue, if they are committed.

A promised message does not become available meanwhile. See `settlement/promises.py` for who promises.
"""

from __future__ import annotations

from collections.abc import Iterator

from goqueue.delivery.state.records import Promised, offsets_of, ranges_of


class PromisedOffsets:
    """The promises of one queue, by producer. `producers` is whose promise each offset is part of."""

    __slots__ = ("_by_producer", "producers")

    def __init__(self) -> None:
        # Never replaced: who looks at every message keeps it.
        self.producers: dict[int, int] = {}
        self._by_producer: dict[int, list[Promised]] = {}

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._by_producer

    def __iter__(self) -> Iterator[Promised]:
        return (one for of_producer in self._by_producer.values() for one in of_producer)

    def of(self, producer_id: int) -> list[Promised]:
        """What one producer's transaction will do."""
        return self._by_producer.get(producer_id, [])

    def producer_ids(self) -> set[int]:
        """The producers whose transactions are open."""
        return set(self._by_producer)

    def clear(self) -> None:
        """Nothing is promised."""
        self.producers.clear()
        self._by_producer.clear()

    def add(self, change: Promised) -> None:
        """The transaction is open."""
        self.producers.update(dict.fromkeys(offsets_of(change.ranges), change.producer_id))
        self._by_producer.setdefault(change.producer_id, []).append(change)

    def end(self, producer_id: int) -> list[int]:
        """The transaction is over: returns the offsets that are free again, in the order of the promises."""
        freed = [offset for one in self._by_producer.pop(producer_id, ()) for offset in offsets_of(one.ranges)]
        for offset in freed:
            self.producers.pop(offset, None)
        return freed

    def cut(self, end: int) -> None:
        """The log lost what lies from `end` on."""
        promises = list(self)
        self.clear()
        for one in promises:
            one.ranges = ranges_of([offset for offset in offsets_of(one.ranges) if offset < end])
            self.add(one)

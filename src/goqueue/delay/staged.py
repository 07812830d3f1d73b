"""Staged slots: delayed messages of transactions that are open.

A staged slot is stored and is nobody's: it is not listed, not counted and never due. When its
transaction is committed the same slot is written again as a pending one; when it is aborted, the slot is
settled. Of each it is known which record of its producer it came from, so that one that is sent
again is staged once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from goqueue.delay.records import Origin


class StagedSlot(NamedTuple):
    """One staged slot; `place` is the offset of its record, `origin` has the record's own sequence."""

    slot: int
    place: int
    due_ms: int
    topic: str
    topic_id: bytes
    origin: Origin


class StagedSlots:
    """All of one shard, by the producer whose transaction they are in."""

    def __init__(self, staged: Iterable[StagedSlot] = ()) -> None:
        self._by_slot: dict[int, StagedSlot] = {}
        self._by_producer: dict[int, dict[int, StagedSlot]] = {}
        self._by_origin: dict[tuple[bytes, Origin], StagedSlot] = {}
        for one in staged:
            self.put(one)

    def __len__(self) -> int:
        return len(self._by_slot)

    def put(self, one: StagedSlot) -> None:
        """The slot is staged from now on."""
        self._by_slot[one.slot] = one
        self._by_producer.setdefault(one.origin.producer_id, {})[one.slot] = one
        self._by_origin[one.topic_id, one.origin] = one

    def drop(self, slot: int) -> None:
        """Its transaction has ended. One that was not staged is left alone."""
        one = self._by_slot.pop(slot, None)
        if one is None:
            return
        self._by_origin.pop((one.topic_id, one.origin), None)
        producer_id = one.origin.producer_id
        of_producer = self._by_producer[producer_id]
        del of_producer[slot]
        if not of_producer:
            del self._by_producer[producer_id]

    def of_producer(self, producer_id: int, limit: int) -> list[StagedSlot]:
        """The first ones of a producer's transaction, in the order in which they were staged."""
        found = self._by_producer.get(producer_id, {})
        return [one for one, _ in zip(found.values(), range(limit), strict=False)]

    def find(self, topic_id: bytes, origin: Origin) -> StagedSlot | None:
        """The slot of a record that was staged before."""
        return self._by_origin.get((topic_id, origin))

"""Staged slots: delayed messages of transactions that are open.

A staged slot is stored and is nobody's: it is not listed, not counted and never due. When its
transaction is committed the same slot is written again as a pending one; when it is aborted, the slot is
settled. Of each it is known which record of its producer it came from, so that one that is sent
again is staged once, and the end of one transaction does not touch the slots of another.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from goqueue.delay.holding.records import Origin


class StagedSlot(NamedTuple):
    """One staged slot; `offset` is that of its record in the delay log, `sequence` that of the message itself."""

    slot: int
    offset: int
    due_ms: int
    producer_id: int
    producer_epoch: int
    sequence: int
    # Of the coordinator that said that the transaction is open; -1 if an earlier version staged it.
    coordinator_epoch: int = -1

    @classmethod
    def of(cls, slot: int, offset: int, due_ms: int, origin: Origin) -> StagedSlot:
        """A slot as its record says."""
        return cls(
            slot,
            offset,
            due_ms,
            origin.producer_id,
            origin.producer_epoch,
            origin.last_sequence,
            origin.coordinator_epoch,
        )


class StagedSlots:
    """All of one partition, by the producer whose transaction they are in."""

    def __init__(self, staged: Iterable[StagedSlot] = ()) -> None:
        self._by_slot: dict[int, StagedSlot] = {}
        self._by_producer: dict[int, dict[int, StagedSlot]] = {}
        self._by_origin: dict[tuple[int, int, int], StagedSlot] = {}
        for one in staged:
            self.put(one)

    def __len__(self) -> int:
        return len(self._by_slot)

    def put(self, one: StagedSlot) -> None:
        """The slot is staged from now on."""
        self._by_slot[one.slot] = one
        self._by_producer.setdefault(one.producer_id, {})[one.slot] = one
        self._by_origin[one.producer_id, one.producer_epoch, one.sequence] = one

    def drop(self, slot: int) -> None:
        """Its transaction has ended. One that was not staged is left alone."""
        one = self._by_slot.pop(slot, None)
        if one is None:
            return
        self._by_origin.pop((one.producer_id, one.producer_epoch, one.sequence), None)
        of_producer = self._by_producer[one.producer_id]
        del of_producer[slot]
        if not of_producer:
            del self._by_producer[one.producer_id]

    def of_producer(self, producer_id: int, epoch_max: int, limit: int) -> list[StagedSlot]:
        """The first ones of a producer's transaction, up to this epoch, in the order in which they were staged."""
        found: list[StagedSlot] = []
        for one in self._by_producer.get(producer_id, {}).values():
            if one.producer_epoch <= epoch_max and len(found) < limit:
                found.append(one)
        return found

    def coordinator_epoch_of(self, producer_id: int) -> int:
        """The newest coordinator that has said of a transaction of the producer with slots here that it is open."""
        return max((one.coordinator_epoch for one in self._by_producer.get(producer_id, {}).values()), default=-1)

    def find(self, producer_id: int, producer_epoch: int, sequence: int) -> StagedSlot | None:
        """The slot of a record that was staged before."""
        return self._by_origin.get((producer_id, producer_epoch, sequence))

"""Staged slots, and what the due index remembers of them."""

from __future__ import annotations

from uuid import UUID

from goqueue.delay.due.index import DueIndex, Known
from goqueue.delay.holding.records import Change, Origin, Slot, SlotKey, SlotState
from goqueue.delay.holding.staged import StagedSlot, StagedSlots

TOPIC_ID = UUID(int=1)


def staged(slot: int, producer_id: int = 7, sequence: int = 0, epoch: int = 3) -> StagedSlot:
    return StagedSlot(slot, slot, 100, producer_id, epoch, sequence)


def stored(slot: int, state: SlotState, *, offset: int | None = None) -> Change:
    origin = Origin(0, 7, 3, slot, 5) if state is SlotState.STAGED else None
    whole = Slot(100, "t", TOPIC_ID.bytes, 0, None, b"v", (), 1, state.value, origin=origin)
    return Change(slot if offset is None else offset, SlotKey(slot), whole)


class Index:
    """An index in memory with one partition in it."""

    def __init__(self) -> None:
        self.due = DueIndex(None, 0, remove=lambda _: None, on_rebuild=lambda *_: None)
        self.number = self.due.register(TOPIC_ID.bytes, 0).number

    def apply(self, *changes: Change) -> None:
        known = Known(self.number, changes[-1].offset + 1, 0)
        self.due.apply([(self.number, one) for one in changes], [known])


def test_slots_are_found_by_producer_and_by_the_record_they_came_from() -> None:
    slots = StagedSlots([staged(1, sequence=0), staged(2, sequence=1), staged(3, producer_id=8)])
    assert [one.slot for one in slots.of_producer(7, 3, 10)] == [1, 2]
    assert [one.slot for one in slots.of_producer(7, 3, 1)] == [1]
    assert slots.find(7, 3, 1) == staged(2, sequence=1)
    assert slots.find(7, 4, 1) is None


def test_the_end_of_one_epoch_leaves_the_slots_of_the_next_alone() -> None:
    slots = StagedSlots([staged(1, epoch=3), staged(2, epoch=4)])
    assert [one.slot for one in slots.of_producer(7, 3, 10)] == [1]
    assert [one.slot for one in slots.of_producer(7, 4, 10)] == [1, 2]


def test_the_newest_coordinator_of_what_a_producer_has_staged_is_known() -> None:
    slots = StagedSlots([staged(1)._replace(coordinator_epoch=4), staged(2)._replace(coordinator_epoch=6)])
    assert (slots.coordinator_epoch_of(7), slots.coordinator_epoch_of(8)) == (6, -1)
    slots.drop(2)
    assert slots.coordinator_epoch_of(7) == 4


def test_a_slot_that_is_dropped_is_gone_and_others_stay() -> None:
    slots = StagedSlots([staged(1, sequence=0), staged(2, sequence=1)])
    slots.drop(1)
    slots.drop(1)
    assert slots.find(7, 3, 0) is None
    assert [one.slot for one in slots.of_producer(7, 3, 10)] == [2]
    slots.drop(2)
    assert (len(slots), slots.of_producer(7, 3, 10)) == (0, [])


def test_the_index_keeps_staged_slots_apart_from_those_that_are_due() -> None:
    index = Index()
    index.apply(stored(0, SlotState.STAGED), stored(1, SlotState.PENDING), stored(2, SlotState.STAGED))
    facts = index.due.facts(index.number)
    assert facts.staged == [StagedSlot(0, 0, 100, 7, 3, 0, 5), StagedSlot(2, 2, 100, 7, 3, 2, 5)]
    assert [row.slot for row in index.due.due((-1, -1), 1000, 10)] == [1]
    assert [row.slot for row in index.due.of_partition(index.number, due_before_ms=1000, limit=10)] == [1]
    assert (facts.pending, facts.expired, facts.origins, facts.first_due_ms) == (1, 0, {}, 100)


def test_the_index_moves_a_committed_slot_and_forgets_an_aborted_one() -> None:
    index = Index()
    index.apply(stored(0, SlotState.STAGED), stored(1, SlotState.STAGED))
    index.apply(stored(0, SlotState.PENDING, offset=2), Change(3, SlotKey(1), None))
    assert index.due.facts(index.number).staged == []
    assert [(row.slot, row.offset) for row in index.due.due((-1, -1), 1000, 10)] == [(0, 2)]


def test_partitions_of_one_file_do_not_see_each_other() -> None:
    index = Index()
    other = index.due.register(TOPIC_ID.bytes, 1).number
    index.apply(stored(0, SlotState.PENDING))
    index.due.apply([(other, stored(0, SlotState.STAGED))], [Known(other, 1, 4)])
    assert index.due.facts(index.number).staged == []
    assert index.due.facts(other).pending == 0
    assert index.due.register(TOPIC_ID.bytes, 1) == Known(other, 1, 4)
    index.due.forget(index.number)
    assert index.due.due((-1, -1), 1000, 10) == []
    assert len(index.due.facts(other).staged) == 1

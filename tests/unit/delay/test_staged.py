"""Staged slots, and what the due index remembers of them."""

from __future__ import annotations

from uuid import UUID

from goqueue.delay.index import DueIndex
from goqueue.delay.records import Change, Origin, Slot, SlotKey, SlotState
from goqueue.delay.staged import StagedSlot, StagedSlots

TOPIC_ID = UUID(int=1)


def staged(slot: int, producer_id: int = 7, sequence: int = 0) -> StagedSlot:
    return StagedSlot(slot, slot, 100, "t", TOPIC_ID.bytes, Origin(0, producer_id, 3, sequence))


def stored(slot: int, state: SlotState, *, offset: int | None = None) -> Change:
    origin = Origin(0, 7, 3, slot) if state is SlotState.STAGED else None
    whole = Slot(100, "t", TOPIC_ID.bytes, 0, None, b"v", (), 1, state.value, origin=origin)
    return Change(slot if offset is None else offset, SlotKey(slot), whole)


def index() -> DueIndex:
    return DueIndex(None, TOPIC_ID, end_offset_max=0, remove=lambda _: None, on_rebuild=lambda *_: None)


def test_slots_are_found_by_producer_and_by_the_record_they_came_from() -> None:
    slots = StagedSlots([staged(1, sequence=0), staged(2, sequence=1), staged(3, producer_id=8)])
    assert [one.slot for one in slots.of_producer(7, 10)] == [1, 2]
    assert [one.slot for one in slots.of_producer(7, 1)] == [1]
    assert slots.find(TOPIC_ID.bytes, Origin(0, 7, 3, 1)) == staged(2, sequence=1)
    assert slots.find(TOPIC_ID.bytes, Origin(0, 7, 4, 1)) is None


def test_a_slot_that_is_dropped_is_gone_and_others_stay() -> None:
    slots = StagedSlots([staged(1, sequence=0), staged(2, sequence=1)])
    slots.drop(1)
    slots.drop(1)
    assert slots.find(TOPIC_ID.bytes, Origin(0, 7, 3, 0)) is None
    assert [one.slot for one in slots.of_producer(7, 10)] == [2]
    slots.drop(2)
    assert (len(slots), slots.of_producer(7, 10)) == (0, [])


def test_the_index_keeps_staged_slots_apart_from_those_that_are_due() -> None:
    due = index()
    due.apply([stored(0, SlotState.STAGED), stored(1, SlotState.PENDING), stored(2, SlotState.STAGED)], 3)
    assert [(one.slot, one.origin) for one in due.staged()] == [(0, Origin(0, 7, 3, 0)), (2, Origin(0, 7, 3, 2))]
    assert [row.slot for row in due.due((-1, -1), 1000, 10)] == [1]
    assert [row.slot for row in due.of_topic("t", due_before_ms=1000, limit=10, skip=0)] == [1]
    assert (due.find(0), due.counts(), due.origins()) == (None, {"t": (1, 0)}, {})


def test_the_index_moves_a_committed_slot_and_forgets_an_aborted_one() -> None:
    due = index()
    due.apply([stored(0, SlotState.STAGED), stored(1, SlotState.STAGED)], 2)
    due.apply([stored(0, SlotState.PENDING, offset=2), Change(3, SlotKey(1), None)], 4)
    assert due.staged() == []
    assert [(row.slot, row.place) for row in due.due((-1, -1), 1000, 10)] == [(0, 2)]

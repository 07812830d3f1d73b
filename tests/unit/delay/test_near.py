"""What is near: slots that are due soon are in memory, the others are looked for in time."""

from __future__ import annotations

import pytest

from goqueue.config import DelayConfig
from goqueue.delay.due.index import Row, key_of
from goqueue.delay.due.near import Near
from goqueue.testing.clock import ManualClock

NOW_MS = 1_700_000_000_000
NEAR_MS = 10_000
NEVER_MS = 2**62


def row(slot: int, due_in_ms: int) -> Row:
    return Row(slot, slot, NOW_MS + due_in_ms)


def new(*rows: Row, far_ms: int | None = None) -> Near:
    """What is near on a disk that holds these rows."""
    near = Near(DelayConfig(near_ms=NEAR_MS, near_max=1000), ManualClock(NOW_MS))
    load(near, *rows, far_ms=far_ms)
    return near


def load(near: Near, *rows: Row, far_ms: int | None = None) -> None:
    with near.loading() as request:
        near.take_in(request, rows, far_ms, lambda _: None, lambda _: True)


def due(near: Near, in_ms: int) -> list[int]:
    near.collect(NOW_MS + in_ms)
    return [one.slot for one in near.take_ready(10)]


def test_what_is_due_soon_becomes_ready_earliest_first() -> None:
    near = new(row(1, 3_000))
    near.put(2, row(2, 1_000))

    assert len(near) == 2
    assert due(near, 2_000) == [2]
    assert due(near, 4_000) == [1]


def test_what_is_due_later_is_left_to_the_disk_and_looked_for_in_time() -> None:
    near = new()
    assert near.load_at_ms() == NEVER_MS

    near.put(1, row(1, 60_000))

    assert len(near) == 0
    assert near.load_at_ms() == NOW_MS + 60_000 - NEAR_MS


def test_what_is_cancelled_or_moved_is_not_due_at_its_old_time() -> None:
    near = new(row(1, 1_000), row(2, 1_000))
    near.put(1, None)
    near.put(2, row(2, 5_000))

    assert due(near, 2_000) == []
    assert due(near, 6_000) == [2]


def test_what_a_fire_has_taken_nothing_can_stop() -> None:
    near = new(row(1, 1_000))
    assert due(near, 2_000) == [1]

    near.put(1, None)

    assert list(near.firing) == [1]


def test_what_is_put_back_waits_before_all_others() -> None:
    near = new(row(1, 1_000), row(2, 2_000))
    near.collect(NOW_MS + 3_000)
    taken = near.take_ready(1)

    near.put_back(taken)

    assert list(near.ready) == [1, 2]
    assert not near.firing


def test_a_slot_that_changed_during_a_load_counts_as_it_is_now() -> None:
    near = new(far_ms=NOW_MS + 1_000)

    with near.loading() as request:
        near.put(1, None)
        near.take_in(request, [row(1, 1_000), row(2, 1_000)], None, {1: None}.get, lambda _: True)

    assert due(near, 2_000) == [2]


def test_a_load_that_fails_forgets_nothing_of_what_is_far() -> None:
    near = new(far_ms=NOW_MS + 60_000)
    before_ms = near.load_at_ms()

    with pytest.raises(OSError, match="disk"), near.loading():
        raise OSError("disk")

    assert (near.load_at_ms(), near.is_loading) == (before_ms, False)


def test_a_burst_leaves_the_later_ones_to_the_disk() -> None:
    near = new()

    for slot in range(2_001):
        near.put(slot, row(slot, 1_000 + slot))

    assert len(near) == 1_000
    near.collect(NOW_MS + NEAR_MS)
    assert list(near.ready) == list(range(1_000))
    assert near.load_at_ms() == NEVER_MS
    near.take_ready(500)
    assert near.load_at_ms() <= NOW_MS


def in_partition(number: int, slot: int, due_in_ms: int) -> Row:
    return Row(key_of(number, slot), slot, NOW_MS + due_in_ms)


def test_slots_of_a_partition_that_is_not_at_work_are_passed_over_and_loaded_when_it_is() -> None:
    near = Near(DelayConfig(near_ms=NEAR_MS, near_max=1000), ManualClock(NOW_MS))
    rows = [in_partition(8, 1, 1_000), in_partition(16, 1, 2_000)]
    with near.loading() as request:
        near.take_in(request, rows, None, lambda _: None, lambda number: number == 16)
    assert len(near) == 1
    near.attach(NOW_MS + 1_000)
    assert near.load_at_ms() <= NOW_MS, "what was passed over is looked for again at once"
    with near.loading() as request:
        near.take_in(request, rows, None, lambda _: None, lambda _: True)
    near.collect(NOW_MS + 3_000)
    assert [one.number for one in near.take_ready(10)] == [8, 16]


def test_a_load_that_began_before_a_partition_came_counts_for_nothing() -> None:
    near = Near(DelayConfig(near_ms=NEAR_MS, near_max=1000), ManualClock(NOW_MS))
    with near.loading() as request:
        near.attach(NOW_MS + 1_000)
        near.take_in(request, [], None, lambda _: None, lambda _: True)
    assert near.load_at_ms() <= NOW_MS


def test_nothing_of_a_partition_that_left_becomes_due() -> None:
    near = Near(DelayConfig(near_ms=NEAR_MS, near_max=1000), ManualClock(NOW_MS))
    rows = [in_partition(8, 1, 1_000), in_partition(8, 2, 5_000), in_partition(16, 1, 1_000)]
    with near.loading() as request:
        near.take_in(request, rows, None, lambda _: None, lambda _: True)
    near.collect(NOW_MS + 2_000)
    near.drop(8)
    near.collect(NOW_MS + 6_000)
    assert [one.number for one in near.take_ready(10)] == [16]


def test_a_slot_that_the_disk_does_not_know_to_be_settled_is_not_taken_in() -> None:
    near = new(far_ms=NOW_MS + 1_000)

    with near.loading() as request:
        near.touch([1])
        near.take_in(request, [row(1, 1_000), row(2, 1_000)], None, {1: None}.get, lambda _: True)

    assert due(near, 2_000) == [2]

"""What is near: slots that are due soon are in memory, the others are looked for in time."""

from __future__ import annotations

import pytest

from goqueue.config import DelayConfig
from goqueue.delay.index import Row
from goqueue.delay.near import Near
from goqueue.testing.clock import ManualClock

NOW_MS = 1_700_000_000_000
NEAR_MS = 10_000
NEVER_MS = 2**62


def row(slot: int, due_in_ms: int) -> Row:
    return Row(slot, slot, NOW_MS + due_in_ms, "t")


def new(*rows: Row, far_ms: int | None = None) -> Near:
    """What is near on a disk that holds these rows."""
    near = Near(DelayConfig(near_ms=NEAR_MS, near_max=1000), ManualClock(NOW_MS))
    load(near, *rows, far_ms=far_ms)
    return near


def load(near: Near, *rows: Row, far_ms: int | None = None) -> None:
    with near.loading() as stretch:
        near.take_in(stretch, rows, far_ms, lambda _: None)


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

    with near.loading() as stretch:
        near.put(1, None)
        near.take_in(stretch, [row(1, 1_000), row(2, 1_000)], None, {1: None}.get)

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

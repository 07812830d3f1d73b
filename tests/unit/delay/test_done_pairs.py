"""What is written when a delayed batch was delivered, in an order that any crash may cut."""

from __future__ import annotations

from goqueue.delay.firing.targets import done_pairs
from goqueue.delay.holding.records import Fire, FireKey, SlotKey


def test_slots_are_settled_before_the_fire_that_says_they_are_on_their_way() -> None:
    fire = Fire((7, 8, 9), 0, "t", b"id", 0, 5, 0)

    assert [key for key, _ in done_pairs(fire)] == [SlotKey(7), SlotKey(8), SlotKey(9), FireKey(7)]

"""When a message that is held needs more time, in plain numbers."""

from __future__ import annotations

from goqueue.client.queues.held_messages import HeldMessages
from goqueue.client.types import QueueMessage


def message(receipt: str) -> QueueMessage:
    return QueueMessage("t", 0, 0, 0, None, None, receipt=receipt, delivery_count=1, visible_until_ms=0)


def receipts(messages: list[QueueMessage]) -> list[str]:
    return [one.receipt for one in messages]


def test_a_message_is_due_when_little_of_its_time_is_left() -> None:
    held = HeldMessages(hold_ms_max=10_000)
    held.take([message("a")], 1000, now_ms=0)
    held.take([message("b")], 1000, now_ms=300)
    assert receipts(held.due(499, ahead_ms=500)) == []
    assert receipts(held.due(500, ahead_ms=500)) == ["a"]
    assert receipts(held.due(800, ahead_ms=500)) == ["a", "b"]


def test_more_time_moves_it_back() -> None:
    held = HeldMessages(hold_ms_max=10_000)
    held.take([message("a")], 1000, now_ms=0)
    held.extended("a", 1000, now_ms=600)
    assert receipts(held.due(1000, ahead_ms=500)) == []
    assert receipts(held.due(1100, ahead_ms=500)) == ["a"]


def test_what_is_settled_needs_nothing() -> None:
    held = HeldMessages(hold_ms_max=10_000)
    held.take([message("a")], 1000, now_ms=0)
    held.settled("a")
    held.extended("a", 1000, now_ms=1)
    assert len(held) == 0
    assert held.due(900, ahead_ms=500) == []


def test_what_nobody_settles_is_let_go_at_last() -> None:
    held = HeldMessages(hold_ms_max=5_000)
    held.take([message("a")], 1000, now_ms=0)
    for now_ms in range(500, 5_001, 500):
        assert receipts(held.due(now_ms, ahead_ms=500)) == ["a"]
        held.extended("a", 1000, now_ms)
    assert held.due(5_500, ahead_ms=500) == []
    assert len(held) == 0


def test_what_was_lost_is_not_asked_for() -> None:
    held = HeldMessages(hold_ms_max=10_000)
    held.take([message("a")], 1000, now_ms=0)
    assert held.due(1000, ahead_ms=500) == []
    assert len(held) == 0

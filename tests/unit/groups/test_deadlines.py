"""Deadlines: the nearest first, moved as often as one likes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from goqueue.groups.deadlines import Deadlines


def test_the_nearest_is_due_first_and_ties_in_the_order_they_were_set() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("late", 30)
    deadlines.set("tie-1", 20)
    deadlines.set("tie-2", 20)

    assert deadlines.next_ms() == 20
    assert deadlines.pop_due(19) is None
    assert [deadlines.pop_due(30) for _ in range(4)] == ["tie-1", "tie-2", "late", None]


def test_setting_again_moves_a_deadline_and_cancelling_forgets_it() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 10)
    deadlines.set("a", 50)
    deadlines.set("b", 20)
    deadlines.cancel("b")
    deadlines.cancel("never set")

    assert deadlines.next_ms() == 50
    assert deadlines.at_ms("a") == 50
    assert "b" not in deadlines


def test_all_deadlines_can_be_put_off() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("b", 20)
    deadlines.set("a", 10)
    deadlines.shift(100)

    assert (deadlines.at_ms("a"), deadlines.next_ms()) == (110, 110)
    assert deadlines.pop_due(109) is None
    assert [deadlines.pop_due(200), deadlines.pop_due(200)] == ["a", "b"]


def test_a_million_heartbeats_leave_no_pile_behind() -> None:
    deadlines: Deadlines[int] = Deadlines()
    for now_ms in range(10_000):
        deadlines.set(now_ms % 10, now_ms + 30_000)

    assert len(deadlines) == 10
    assert len(deadlines._heap) < 200


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.one_of(st.none(), st.integers(0, 20))), max_size=60))
def test_it_does_what_a_plain_mapping_would(steps: list[tuple[str, int | None]]) -> None:
    deadlines: Deadlines[str] = Deadlines()
    expected: dict[str, int] = {}
    for key, at_ms in steps:
        if at_ms is None:
            deadlines.cancel(key)
            expected.pop(key, None)
        else:
            deadlines.set(key, at_ms)
            expected[key] = at_ms
        assert deadlines.next_ms() == min(expected.values(), default=None)
    due = []
    while (key_due := deadlines.pop_due(10)) is not None:
        due.append(key_due)
    assert sorted(due) == sorted(key for key, at_ms in expected.items() if at_ms <= 10)
    assert [expected[key] for key in due] == sorted(expected[key] for key in due)

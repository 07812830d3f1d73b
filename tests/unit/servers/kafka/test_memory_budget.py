"""The requests of all connections together stay within one amount of memory, and none waits for ever."""

from __future__ import annotations

from goqueue.servers.kafka.connections.memory_budget import MemoryBudget


class Holder:
    def __init__(self, budget: MemoryBudget) -> None:
        self.budget = budget
        self.woken = 0

    def go_on(self) -> None:
        self.woken += 1


def test_reading_goes_on_while_there_is_room() -> None:
    budget = MemoryBudget(100)
    budget.take(99)
    assert budget.may_read(Holder(budget))


def test_whoever_does_not_fit_waits_until_something_is_given_back() -> None:
    budget = MemoryBudget(100)
    first, second = Holder(budget), Holder(budget)
    budget.take(100)
    assert budget.may_read(first), "the first in line reads on, or nobody would ever finish"
    assert not budget.may_read(second)
    budget.give_back(60)
    assert second.woken == 1
    assert budget.may_read(second)


def test_when_the_first_in_line_leaves_the_next_may_read_on() -> None:
    budget = MemoryBudget(100)
    first, second = Holder(budget), Holder(budget)
    budget.take(200)
    assert budget.may_read(first)
    assert not budget.may_read(second)
    budget.forget(first)
    assert second.woken == 1
    assert budget.may_read(second)


def test_when_the_first_in_line_has_read_its_request_the_next_may_read_on() -> None:
    budget = MemoryBudget(100)
    first, second = Holder(budget), Holder(budget)
    budget.take(200)
    assert budget.may_read(first)
    assert not budget.may_read(second)
    budget.give_back(50)
    budget.leave_line(first)
    assert second.woken == 1
    assert budget.may_read(second)
    assert not budget.may_read(first)

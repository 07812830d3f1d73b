"""Answers of all clients together stay within one amount of memory, and who reads is never closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from goqueue.broker.reading import answer_budget
from goqueue.broker.reading.answer_budget import AnswerBudget
from goqueue.errors import TooBusy


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_budget, "SWEEP_SECONDS", 0.005)
    monkeypatch.setattr(answer_budget, "STALLED_SECONDS", 0.05)


def budget_of(bytes_max: int, *, unread_ms_max: int = 60_000, wait_ms_max: int = 20) -> AnswerBudget:
    return AnswerBudget(bytes_max, unread_ms_max=unread_ms_max, wait_ms_max=wait_ms_max)


class Holder:
    """A client with `unread` bytes; closing it frees them, as a connection's end does."""

    def __init__(self, budget: AnswerBudget, unread: int = 0) -> None:
        self.budget = budget
        self.woken = 0
        self.reason: str | None = None
        self.unread = unread
        budget.set_unread(self, unread)

    def unread_bytes(self) -> int:
        return self.unread

    def go_on(self) -> None:
        self.woken += 1

    def evict(self, reason: str) -> None:
        self.reason = reason
        asyncio.get_running_loop().call_soon(self.budget.forget, self)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - the budget has no event
            await asyncio.sleep(0.002)


async def test_who_waits_for_memory_goes_on_when_it_is_free_again() -> None:
    budget = budget_of(100)
    slow, other = Holder(budget, 100), Holder(budget)
    assert not budget.may_answer(other)
    slow.unread = 0
    await until(lambda: other.woken == 1)
    assert budget.may_answer(other)
    assert budget.bytes == 0


async def test_a_client_that_reads_nothing_is_closed_when_others_wait_for_its_memory() -> None:
    budget = budget_of(100)
    stuck, other = Holder(budget, 120), Holder(budget)
    assert not budget.may_answer(other)
    await until(lambda: stuck.reason is not None)
    await until(lambda: other.woken == 1)
    assert budget.bytes == 0


async def test_a_client_that_reads_slowly_is_not_closed_though_memory_is_short() -> None:
    budget = budget_of(100)
    reading, stuck = Holder(budget, 300), Holder(budget, 90)
    while stuck.reason is None:
        reading.unread -= 1
        await asyncio.sleep(0.005)
    assert reading.reason is None


async def test_a_client_that_reads_nothing_for_too_long_is_closed_though_there_is_memory() -> None:
    budget = budget_of(1000, unread_ms_max=100)
    stuck = Holder(budget, 1)
    await until(lambda: stuck.reason is not None)
    assert "read nothing" in (stuck.reason or "")


async def test_without_memory_a_read_is_told_to_retry_after_a_while() -> None:
    budget = budget_of(100)
    with budget.held(100), pytest.raises(TooBusy, match="unread answers take 100 bytes"):
        await budget.room()
    await budget.room()


async def test_a_read_that_waits_for_memory_goes_on_when_there_is_some() -> None:
    budget = budget_of(100, wait_ms_max=5000)
    with budget.held(100):
        waiting = [asyncio.create_task(budget.room()) for _ in range(3)]
        await asyncio.sleep(0.01)
        assert not any(one.done() for one in waiting)
    async with asyncio.timeout(5):
        await asyncio.gather(*waiting)


async def test_large_reads_at_once_take_turns() -> None:
    budget = budget_of(10 * answer_budget.TURN_BYTES)
    holder = Holder(budget)
    turns = []

    async def read() -> None:
        await budget.room()
        turns.append(budget.may_answer(holder))
        budget.pass_on(answer_budget.TURN_BYTES)

    await asyncio.gather(*(read() for _ in range(4)))
    assert turns == [True] * 4, "none reads in a turn in which another has read so much"


async def test_what_is_passed_on_counts_until_its_connection_counts_it() -> None:
    budget = budget_of(100)
    budget.pass_on(70)
    assert budget.bytes == 70
    await asyncio.sleep(0)
    assert budget.bytes == 70
    await until(lambda: budget.bytes == 0)

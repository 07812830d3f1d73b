"""Waiting readers: woken by enough bytes, by time, or by change; never left behind."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.broker.reading.waiters import Waiter, Waiters


async def turn_the_loop() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def timers_left() -> int:
    scheduled = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
    return sum(1 for timer in scheduled if not timer.cancelled())


def waiting(waiter: Waiter, *places: Waiters, timeout_s: float = 60) -> asyncio.Task[None]:
    return asyncio.create_task(waiter.wait(places, timeout_s))


async def test_enough_bytes_wake_a_waiter_and_fewer_do_not() -> None:
    place = Waiters()
    task = waiting(Waiter(100), place)
    await turn_the_loop()
    place.grew(60)
    await turn_the_loop()
    assert not task.done()
    place.grew(40)
    await task
    assert len(place) == 0
    assert timers_left() == 0


async def test_bytes_of_all_places_count_together() -> None:
    left, right = Waiters(), Waiters()
    task = waiting(Waiter(100), left, right)
    await turn_the_loop()
    left.grew(50)
    right.grew(50)
    await task
    assert (len(left), len(right)) == (0, 0)


async def test_a_change_wakes_everyone_at_once() -> None:
    place = Waiters()
    tasks = [waiting(Waiter(1_000_000), place) for _ in range(3)]
    await turn_the_loop()
    assert len(place) == 3
    place.wake_all()
    await asyncio.gather(*tasks)
    assert len(place) == 0


async def test_time_ends_a_wait() -> None:
    place = Waiters()
    await Waiter(1).wait([place], 0.001)
    assert len(place) == 0


async def test_a_reader_that_goes_away_leaves_nothing_behind() -> None:
    """A poll that outlives its client keeps working for nobody."""
    left, right = Waiters(), Waiters()
    task = waiting(Waiter(1), left, right)
    await turn_the_loop()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (len(left), len(right)) == (0, 0)
    assert timers_left() == 0


async def test_a_place_named_twice_is_left_once() -> None:
    place = Waiters()
    task = waiting(Waiter(1), place, place)
    await turn_the_loop()
    place.grew(1)
    await task
    assert len(place) == 0


async def test_being_woken_twice_does_no_harm() -> None:
    place = Waiters()
    task = waiting(Waiter(1), place)
    await turn_the_loop()
    place.grew(1)
    place.grew(1)
    place.wake_all()
    await task

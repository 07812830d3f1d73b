"""The simulated loop: waiting takes no time, and a seed decides every order."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from goqueue.testing.clock import ManualClock
from goqueue.testing.faults import Crash
from goqueue.testing.sim_loop import DelayedOffload, InlineOffload, Stuck, Unhandled, run


def test_a_day_passes_at_once_and_the_clock_knows_it() -> None:
    clock = ManualClock(now_ms=0)

    async def main() -> str:
        await asyncio.sleep(86_400)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 5)
        return "done"

    assert run(main(), clock=clock) == "done"
    assert clock.now_ms() == 86_405_000


def test_timers_are_due_after_years_too() -> None:
    """Half a year on, seconds as floats are further apart than the nanosecond that a loop allows for."""
    clock = ManualClock(now_ms=0)

    async def main() -> None:
        await asyncio.sleep(10 * 365 * 86_400)
        for _ in range(1000):
            await asyncio.sleep(0.0013)

    run(main(), clock=clock)
    assert clock.now_ms() - 10 * 365 * 86_400_000 == pytest.approx(1300, abs=2)


def test_timers_ring_in_their_order_also_when_the_test_moves_the_clock() -> None:
    clock = ManualClock(now_ms=0)
    rung: list[tuple[str, int]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(0.020, lambda: rung.append(("late", clock.now_ms())))
        loop.call_later(0.010, lambda: rung.append(("early", clock.now_ms())))
        clock.advance(ms=15)
        await asyncio.sleep(0.010)

    run(main(), clock=clock)
    assert rung == [("early", 15), ("late", 20)]


def interleaving(order: Random | None) -> list[int]:
    steps: list[int] = []

    async def worker(number: int) -> None:
        for _ in range(3):
            steps.append(number)
            await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(*(worker(number) for number in range(5)))

    run(main(), order=order)
    return steps


def test_without_an_order_callbacks_run_as_asyncio_promises() -> None:
    assert interleaving(None) == [0, 1, 2, 3, 4] * 3


def test_a_seed_gives_the_same_order_again_and_other_seeds_others() -> None:
    orders = [interleaving(Random(seed)) for seed in range(10)]
    assert orders == [interleaving(Random(seed)) for seed in range(10)]
    assert len({tuple(order) for order in orders}) > 5


def test_waiting_for_what_can_never_come_is_an_error_at_once() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stuck):
        run(main())


def test_an_error_that_nobody_looked_at_fails_the_run() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 // 0)
        await asyncio.sleep(0)

    with pytest.raises(Unhandled, match="ZeroDivisionError"):
        run(main())


def test_a_crash_that_nobody_looked_at_does_not() -> None:
    def crash() -> None:
        raise Crash

    async def main() -> None:
        asyncio.get_running_loop().call_soon(crash)
        await asyncio.sleep(0)

    run(main())


def test_work_is_offloaded_at_once_or_at_some_later_moment_and_errors_come_back() -> None:
    clock = ManualClock(now_ms=0)

    async def main() -> None:
        assert await InlineOffload()(lambda: "now") == "now"
        assert await asyncio.to_thread(lambda: "thread") == "thread"
        assert clock.now_ms() == 0
        assert await DelayedOffload(Random(1), delay_ms_max=1_000_000)(lambda: "later") == "later"
        assert clock.now_ms() > 0
        for offload in (InlineOffload(), DelayedOffload(Random(1))):
            with pytest.raises(ZeroDivisionError):
                await offload(lambda: 1 // 0)

    run(main(), clock=clock)

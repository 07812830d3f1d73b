"""The clock of a broker under test: it walks from one thing that is due to the next."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from goqueue.coordinator.timers import Alarm
from goqueue.testing.broker_clock import BrokerClock, NeverSettles
from goqueue.testing.settling_loop import SettlingLoop

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def home() -> Iterator[SettlingLoop]:
    loop = SettlingLoop("test")
    yield loop
    loop.close()


@pytest.fixture
def clock(home: SettlingLoop) -> BrokerClock:
    clock = BrokerClock(NEW_YEAR)
    clock.move_in(home)
    return clock


def set_alarms(home: SettlingLoop, clock: BrokerClock, *after: timedelta) -> list[timedelta]:
    """Alarms so long after now; the list fills with when they rang."""
    rung: list[timedelta] = []

    async def set_all() -> None:
        for one in after:
            Alarm(clock, lambda: rung.append(clock.now - NEW_YEAR)).set(
                clock.now_ms() + one // timedelta(milliseconds=1)
            )

    home.run(set_all())
    return rung


def test_time_stands_still_until_it_is_advanced(clock):
    assert clock.now == NEW_YEAR
    assert clock.advance(days=1, hours=2, minutes=3, seconds=4, ms=5) == datetime(2026, 1, 2, 2, 3, 4, 5000, tzinfo=UTC)


def test_alarms_ring_each_at_its_own_time_and_in_order(home, clock):
    rung = set_alarms(home, clock, timedelta(days=2), timedelta(seconds=1), timedelta(days=4))

    clock.advance(days=3)

    assert rung == [timedelta(seconds=1), timedelta(days=2)]


def test_what_an_alarm_sets_off_is_done_before_time_goes_on(home, clock):
    story: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0)
        await asyncio.get_running_loop().run_in_executor(None, threading.Event().wait, 0.05)
        story.append(f"worked at {clock.now - NEW_YEAR}")

    async def begin() -> None:
        tasks = set()
        Alarm(clock, lambda: tasks.add(asyncio.create_task(work()))).set(clock.now_ms() + 1000)
        Alarm(clock, lambda: story.append(f"rang at {clock.now - NEW_YEAR}")).set(clock.now_ms() + 2000)

    home.run(begin())
    clock.advance(hours=1)

    assert story == ["worked at 0:00:01", "rang at 0:00:02"]


def test_an_alarm_that_is_set_again_while_time_passes_rings_again(home, clock):
    rung: list[int] = []

    async def begin() -> None:
        def ring() -> None:
            rung.append(clock.now_ms())
            alarm.set(clock.now_ms() + 60_000)

        alarm = Alarm(clock, ring)
        alarm.set(clock.now_ms() + 60_000)

    home.run(begin())
    clock.advance(hours=1)

    assert len(rung) == 60


def test_what_is_due_already_needs_no_advance_of_time(home, clock):
    rung = set_alarms(home, clock, timedelta(0), -timedelta(days=1))

    clock.advance()

    assert rung == [timedelta(0), timedelta(0)]


def test_what_happens_every_so_often_happens_once_in_a_walk(home, clock):
    rounds: list[datetime] = []

    async def begin() -> None:
        def again() -> None:
            rounds.append(clock.now)
            clock.call_later(1000, again)

        clock.call_later(1000, again)

    home.run(begin())
    clock.advance(days=1)
    clock.advance(ms=999)
    clock.advance(ms=1)

    assert rounds == [NEW_YEAR + timedelta(days=1), NEW_YEAR + timedelta(days=1, seconds=1)]


def test_a_cancelled_call_never_comes(home, clock):
    calls: list[str] = []

    async def begin() -> None:
        clock.call_at(clock.now_ms() + 5, lambda: calls.append("at")).cancel()
        clock.call_at(clock.now_ms(), lambda: calls.append("soon")).cancel()
        clock.call_later(5, lambda: calls.append("later")).cancel()

    home.run(begin())
    clock.advance(days=1)

    assert calls == []


def test_time_passes_without_a_broker_too_and_never_backwards(clock):
    clock.move_in(None)
    clock.advance(hours=1)

    assert clock.advance_to(NEW_YEAR + timedelta(hours=2)) == NEW_YEAR + timedelta(hours=2)
    with pytest.raises(ValueError, match="positive amount"):
        clock.advance(seconds=-1)
    with pytest.raises(ValueError, match="02:00:00"):
        clock.advance_to(NEW_YEAR)
    with pytest.raises(ValueError, match="no time zone"):
        clock.advance_to(datetime(2027, 1, 1))  # noqa: DTZ001


def test_a_broker_that_never_rests_is_reported(home):
    clock = BrokerClock(NEW_YEAR, seconds_max=0.05)
    clock.move_in(home)

    async def begin() -> None:
        def ring() -> None:
            alarm.set(clock.now_ms() + 1)

        alarm = Alarm(clock, ring)
        ring()

    home.run(begin())
    with pytest.raises(NeverSettles, match="still at work"):
        clock.advance(days=365)


def test_threads_may_advance_it_at_the_same_time(clock):
    threads = [threading.Thread(target=clock.advance, kwargs={"seconds": 1}) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert clock.now == NEW_YEAR + timedelta(seconds=8)

"""SimLoop: an asyncio event loop in which waiting takes no time and one seed decides every order.

Time is a ManualClock's. When nothing is ready, the loop moves the clock to the next timer;
when there is no timer either, nothing can ever happen again and `Stuck` says so at once.
There are no sockets, no threads and no signals. With `order`, callbacks that are ready at
the same moment run in an order drawn from it, so hidden assumptions about order show.

    run(main())                                   # like asyncio.run
    run(main(), clock=clock, order=Random(seed))
"""

from __future__ import annotations

import asyncio
import functools
import math
from asyncio.base_events import BaseEventLoop
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any, TypeVar

from goqueue.testing.clock import ManualClock
from goqueue.testing.faults import Crash

T = TypeVar("T")
_NS_PER_SECOND = 1_000_000_000


class Stuck(RuntimeError):
    """Everybody waits and no timer will wake anybody."""


class Unhandled(AssertionError):
    """Callbacks or tasks failed and nobody looked at it."""


def run(main: Coroutine[Any, Any, T], *, clock: ManualClock | None = None, order: Random | None = None) -> T:
    """Run a coroutine to its end in simulated time; errors nobody looked at are raised too."""
    loop = SimLoop(clock or ManualClock(), order=order)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        result = runner.run(main)
    loop.raise_unhandled()
    return result


def simulated(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make an async test run in simulated time, on the clock that one of its fixtures is or has."""

    @functools.wraps(test)
    def run_simulated(**fixtures: Any) -> None:
        clocks = [getattr(fixture, "clock", fixture) for fixture in fixtures.values()]
        clock = next((clock for clock in clocks if isinstance(clock, ManualClock)), None)
        run(test(**fixtures), clock=clock)

    return run_simulated


class SimLoop(BaseEventLoop):
    """The library's loop on a clock that only the loop and the test move."""

    def __init__(
        self, clock: ManualClock, *, order: Random | None = None, halts: Callable[[], bool] | None = None
    ) -> None:
        """`halts` is asked before every pass; once it says yes, the run ends with `Crash`."""
        super().__init__()
        self.clock = clock
        self._halts = halts
        self.unhandled: list[BaseException] = []
        self._order = order
        self._selector = _ClockSelector(self)
        self._clock_resolution = 1 / _NS_PER_SECOND
        self.set_exception_handler(self._note_unhandled)
        # Debug mode remembers a traceback for every callback, which makes a simulation ten times slower.
        self.set_debug(False)

    def time(self) -> float:
        """Seconds on the manual clock."""
        return self.clock.monotonic_ns() / _NS_PER_SECOND

    def run_in_executor(self, executor: object, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """Run at once: there are no threads here."""
        del executor
        return _settled(self, lambda: func(*args))

    def raise_unhandled(self) -> None:
        """Fail if something failed unseen. A crash of the disk is no failure: it was asked for."""
        errors = [error for error in self.unhandled if not isinstance(error, Crash)]
        if errors:
            raise Unhandled(f"{len(errors)} unhandled: {errors!r}") from errors[0]

    def move_to_next_timer(self, timeout_s: float | None) -> None:
        """Nothing is ready: let the time pass that the loop would sleep."""
        if timeout_s is None:
            raise Stuck("nothing is ready and no timer is set, so what is awaited can never come")
        wait_ns = math.ceil(timeout_s * _NS_PER_SECOND)
        self.clock.advance_to_monotonic_ns(self.clock.monotonic_ns() + wait_ns)

    # --- what the library's loop asks of its kind -------------------------------------------

    def _run_once(self) -> None:
        if self._halts is not None and self._halts():
            # Once only: the tasks that are left get a chance to end.
            self._halts = None
            raise Crash
        ready = self._ready  # type: ignore[attr-defined]
        if self._order is not None and len(ready) > 1:
            handles = list(ready)
            self._order.shuffle(handles)
            ready.clear()
            ready.extend(handles)
        # After months the clock's floats are further apart than a nanosecond, and a timer would never be due.
        self._clock_resolution = max(1 / _NS_PER_SECOND, math.ulp(self.time()))
        super()._run_once()  # type: ignore[misc]

    def _note_unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        del loop
        self.unhandled.append(context.get("exception") or RuntimeError(context["message"]))

    def _process_events(self, event_list: list[object]) -> None:
        """No sockets, no events."""

    def _write_to_self(self) -> None:
        """No other thread sleeps in a select that had to be woken."""


class InlineOffload:
    """Blocking work done at once, where it stands."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]:
        """Run `work` now; the result is there already when it is awaited."""
        return _settled(asyncio.get_running_loop(), work)


class DelayedOffload:
    """Blocking work done at a random later moment, as on a busy thread pool."""

    def __init__(self, rng: Random, *, delay_ms_max: float = 10) -> None:
        self._rng = rng
        self._delay_ms_max = delay_ms_max
        # How many times longer than usual everything takes: a slow disk.
        self.slowness = 1.0

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]:
        """Run `work` after a while and complete then."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        loop.call_later(self._rng.random() * self._delay_ms_max * self.slowness / 1000, _settle, future, work)
        return future


class _ClockSelector:
    """Where the library's loop would sleep for its sockets, the clock moves instead."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def select(self, timeout_s: float | None) -> list[object]:
        if timeout_s is None or timeout_s > 0:
            self._loop.move_to_next_timer(timeout_s)
        return []


def _settled(loop: asyncio.AbstractEventLoop, work: Callable[[], T]) -> asyncio.Future[T]:
    future: asyncio.Future[T] = loop.create_future()
    _settle(future, work)
    return future


def _settle(future: asyncio.Future[T], work: Callable[[], T]) -> None:
    if future.cancelled():
        # A thread cannot be called back: the work happens though nobody waits for it.
        work()
        return
    try:
        future.set_result(work())
    except (Exception, Crash) as error:  # noqa: BLE001 - whatever it is, it belongs to whoever awaits
        if not future.done():
            future.set_exception(error)

"""BrokerClock: the time of a broker under test, which passes only when the test says so.

`advance` walks: it stops at every moment at which something is due, lets that be done to its
end, and goes on. So three days of retries happen one after the other as they would have, and
when `advance` returns, nothing that was due is still to come. What merely happens every so
often (retention, checkpoints) is done once at the end of the walk, not a thousand times.

Only the broker's time stands still. Its clients live in real time, and so does a request that
waits for messages.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

_NS_PER_MS = 1_000_000
_NS_PER_SECOND = 1_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# What is due already is called a moment later, in real time, as by any other clock.
_SOON_SECONDS = 0.001


class NeverSettles(AssertionError):
    """The broker went on working for longer than the test was ready to wait."""


class Settles(Protocol):
    """Where the broker runs: its loop, and a way to know that nothing is left to do on it."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that its timers belong to."""
        ...

    async def settle(self) -> None:
        """Return once nothing is ready to run and no thread works."""
        ...


class BrokerClock:
    """A `Clock` that stands still between two calls of `advance`."""

    def __init__(self, now: datetime | None = None, *, seconds_max: float = 60.0) -> None:
        """Begin at `now`, else at the machine's time. One advance may take `seconds_max` of real time."""
        # At a whole second: delays go by ticks, and a test should not depend on where in a tick it began.
        self._now_ms = time.time_ns() // _NS_PER_SECOND * 1000 if now is None else _milliseconds(now)
        self._advanced_ms = 0
        self._seconds_max = seconds_max
        # Alarms in the order in which they are due; the number keeps those of one moment in order.
        self._alarms: list[tuple[int, int, _Timer]] = []
        self._intervals: dict[_Timer, int] = {}
        self._order = 0
        self._due_soon = 0
        self._home: Settles | None = None
        self._turn = threading.Lock()

    # --- for the test ---------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        """The broker's time."""
        return _EPOCH + timedelta(milliseconds=self._now_ms)

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0, ms: float = 0
    ) -> datetime:
        """Let time pass, and return the new time when all that was due has been done.

        May be called from any thread but the broker's own. With nothing given it only waits for
        the broker to finish what it is doing.
        """
        passed = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=ms)
        if passed < timedelta(0):
            raise ValueError("time does not run backwards: give advance() a positive amount")
        with self._turn:
            self._advance_to(self._now_ms + passed // timedelta(milliseconds=1))
        return self.now

    def advance_to(self, moment: datetime) -> datetime:
        """Let time pass until `moment`, which carries its time zone and lies in the future."""
        at_ms = _milliseconds(moment)
        with self._turn:
            if at_ms < self._now_ms:
                raise ValueError(f"time does not run backwards: it is {self.now.isoformat()} already")
            self._advance_to(at_ms)
        return self.now

    # --- for the broker -------------------------------------------------------------------

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return self._now_ms

    def monotonic_ms(self) -> int:
        """Real time and what was advanced: a request that waits does not wait for the test."""
        return time.monotonic_ns() // _NS_PER_MS + self._advanced_ms

    def call_at(self, at_ms: int, call: Callable[[], None]) -> _Timer:
        """Call when the walk reaches this time; very soon if it has passed already."""
        timer = _Timer(call)
        if at_ms <= self._now_ms:
            self._due_soon += 1
            asyncio.get_running_loop().call_later(_SOON_SECONDS, self._call_soon, timer)
        else:
            self._order += 1
            heapq.heappush(self._alarms, (at_ms, self._order, timer))
        return timer

    def call_later(self, wait_ms: int, call: Callable[[], None]) -> _Timer:
        """Call at the end of the walk in which so much time has passed."""
        timer = _Timer(call, forget=self._intervals)
        self._intervals[timer] = self._now_ms + wait_ms
        return timer

    def move_in(self, home: Settles | None) -> None:
        """The broker runs there from now on; None: nowhere. Timers of its last life are forgotten."""
        self._home = home
        self._alarms.clear()
        self._intervals.clear()
        self._due_soon = 0

    # --- the walk -------------------------------------------------------------------------

    def _advance_to(self, target_ms: int) -> None:
        if self._home is None:
            self._move_to(target_ms)
            return
        asyncio.run_coroutine_threadsafe(self._walk(self._home, target_ms), self._home.loop).result()

    async def _walk(self, home: Settles, target_ms: int) -> None:
        try:
            async with asyncio.timeout(self._seconds_max):
                # What was asked of the broker before belongs to the time before.
                await self._settle(home)
                await self._ring_until(home, target_ms)
                self._move_to(target_ms)
                for timer in [timer for timer, at_ms in self._intervals.items() if at_ms <= target_ms]:
                    timer.ring()
                await self._settle(home)
        except TimeoutError:
            raise NeverSettles(
                f"after {self._seconds_max:g} s the broker has come to {self.now.isoformat()} and is still at work"
            ) from None

    async def _ring_until(self, home: Settles, target_ms: int) -> None:
        while self._alarms and self._alarms[0][0] <= target_ms:
            at_ms, _, timer = heapq.heappop(self._alarms)
            if timer.is_over:
                continue
            self._move_to(at_ms)
            timer.ring()
            await self._settle(home)

    async def _settle(self, home: Settles) -> None:
        await home.settle()
        while self._due_soon:
            await asyncio.sleep(_SOON_SECONDS)
            await home.settle()

    def _move_to(self, at_ms: int) -> None:
        self._advanced_ms += max(0, at_ms - self._now_ms)
        self._now_ms = max(at_ms, self._now_ms)

    def _call_soon(self, timer: _Timer) -> None:
        self._due_soon = max(0, self._due_soon - 1)
        timer.ring()


class _Timer:
    """One call to come, until it was made or cancelled."""

    __slots__ = ("_call", "_forget", "is_over")

    def __init__(self, call: Callable[[], None], *, forget: dict[_Timer, int] | None = None) -> None:
        self._call = call
        self._forget = forget
        self.is_over = False

    def ring(self) -> None:
        if not self.is_over:
            self.cancel()
            self._call()

    def cancel(self) -> None:
        self.is_over = True
        if self._forget is not None:
            self._forget.pop(self, None)


def _milliseconds(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise ValueError(f"{moment.isoformat()} has no time zone; use datetime(..., tzinfo=UTC)")
    return (moment - _EPOCH) // timedelta(milliseconds=1)

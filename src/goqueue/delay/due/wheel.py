"""The timer wheel: which of many timers are due, at the same cost however many there are.

Four levels of 256, 64, 64 and 64 buckets. A bucket of the lowest level is one tick of 10 ms,
a bucket of each other level is one revolution of the level below: 7.76 days in all. A timer
sits in the bucket of its tick and moves down a level each time its bucket comes up. Only the
position decides: once the wheel stands at a timer's tick, the timer is due, and no clock is
asked again. Times round up to a whole tick, so nothing is ever early.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

TICK_MS = 10
LEVEL_BUCKETS = (256, 64, 64, 64)
# How many bits of a tick lie below each level's own.
_SHIFTS = (0, 8, 14, 20)
_MASKS = tuple(buckets - 1 for buckets in LEVEL_BUCKETS)
_TOP = len(LEVEL_BUCKETS) - 1
RANGE_TICKS = 1 << 26
# A timer due later than this from now does not fit.
RANGE_MS = RANGE_TICKS * TICK_MS


class WheelStats(NamedTuple):
    """The wheel as an operator sees it."""

    current_tick: int
    active: int
    active_by_level: tuple[int, ...]
    added_total: int
    cancelled_total: int
    fired_total: int
    cascaded_total: int


class TimerWheel:
    """Timers by id. Nothing here waits: `advance` says what time it is."""

    def __init__(self, now_ms: int) -> None:
        self.tick = now_ms // TICK_MS
        # Of every timer the tick at which it is due, and the bucket that holds it.
        self._places: dict[int, tuple[int, dict[int, None]]] = {}
        self._levels = tuple([{} for _ in range(buckets)] for buckets in LEVEL_BUCKETS)  # type: ignore[var-annotated]
        # A bit for every bucket that may hold timers: empty ones are passed over in one step.
        self._occupied = [0] * len(LEVEL_BUCKETS)
        # Timers due at once: they fire at the next advance, whatever tick it brings.
        self._overdue: dict[int, None] = {}
        self._added = self._cancelled = self._fired = self._cascaded = 0

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, timer: int) -> bool:
        return timer in self._places

    def fits(self, due_ms: int) -> bool:
        """Whether a timer for that time is within the wheel's range."""
        return -(-due_ms // TICK_MS) - self.tick < RANGE_TICKS

    def add(self, timer: int, due_ms: int) -> None:
        """Add a timer, or move it to another time. One in the past is due at the next advance."""
        if not self.fits(due_ms):
            raise ValueError(f"a timer due in {due_ms - self.tick * TICK_MS} ms is beyond the wheel's {RANGE_MS} ms")
        self._remove(timer)
        self._added += 1
        self._put(timer, -(-due_ms // TICK_MS))

    def cancel(self, timer: int) -> bool:
        """Take a timer out. True means that it never fires; False that it was not there any more."""
        found = self._remove(timer)
        self._cancelled += found
        return found

    def advance(self, now_ms: int, fire: Callable[[int], None]) -> None:
        """Move on to the tick of `now_ms` and call `fire` with every timer that is due, earliest tick first.

        `fire` may add and cancel timers. A timer leaves the wheel before it is fired, one at a time,
        so that cancelling any other during the call is certain to stop it.
        """
        target = now_ms // TICK_MS
        self._drain(self._overdue, fire)
        while (tick := self._next_tick()) is not None and tick <= target:
            self.tick = tick
            self._cascade()
            self._drain_current(fire)
            # What `fire` added for the past is due now as well.
            self._drain(self._overdue, fire)
        self.tick = max(self.tick, target)

    def next_ms(self) -> int | None:
        """When something is to be done next: a timer fires, or timers move down a level."""
        if self._overdue:
            return self.tick * TICK_MS
        tick = self._next_tick()
        return None if tick is None else tick * TICK_MS

    def stats(self) -> WheelStats:
        """Counts, for the operator."""
        by_level = tuple(sum(map(len, level)) for level in self._levels)
        return WheelStats(
            self.tick,
            len(self._places),
            (by_level[0] + len(self._overdue), *by_level[1:]),
            self._added,
            self._cancelled,
            self._fired,
            self._cascaded,
        )

    def _put(self, timer: int, due_tick: int) -> None:
        ahead = due_tick - self.tick
        if ahead <= 0:
            # Its own bucket has just been emptied and comes again a revolution later.
            bucket = self._overdue
        else:
            level = 0
            while level < _TOP and ahead >= 1 << _SHIFTS[level + 1]:
                level += 1
            index = (due_tick >> _SHIFTS[level]) & _MASKS[level]
            bucket = self._levels[level][index]
            self._occupied[level] |= 1 << index
        bucket[timer] = None
        self._places[timer] = (due_tick, bucket)

    def _remove(self, timer: int) -> bool:
        place = self._places.pop(timer, None)
        if place is None:
            return False
        del place[1][timer]
        return True

    def _next_tick(self) -> int | None:
        """The next tick at which a bucket that may hold timers comes up, on any level."""
        found: int | None = None
        for level, occupied in enumerate(self._occupied):
            if not occupied:
                continue
            buckets, shift = LEVEL_BUCKETS[level], _SHIFTS[level]
            position = self.tick >> shift
            here = position & _MASKS[level]
            # Turned so that the bucket after the current one is the lowest bit; the current one comes last.
            first = (here + 1) & _MASKS[level]
            turned = (occupied >> first) | (occupied << (buckets - first))
            steps = ((turned & -turned).bit_length() - 1) % buckets + 1
            tick = (position + steps) << shift
            found = tick if found is None else min(found, tick)
        return found

    def _cascade(self) -> None:
        """Move timers down whose bucket on a higher level has just come up, the highest level first."""
        for level in range(_TOP, 0, -1):
            shift = _SHIFTS[level]
            if self.tick & ((1 << shift) - 1):
                continue
            index = (self.tick >> shift) & _MASKS[level]
            bucket = self._levels[level][index]
            self._occupied[level] &= ~(1 << index)
            if not bucket:
                continue
            # No callback runs in here, so nobody can cancel while timers are between two buckets.
            timers = list(bucket)
            bucket.clear()
            self._cascaded += len(timers)
            for timer in timers:
                due_tick = self._places[timer][0]
                if due_tick == self.tick:
                    self._put_now(timer, due_tick)
                else:
                    self._put(timer, due_tick)

    def _put_now(self, timer: int, due_tick: int) -> None:
        bucket = self._levels[0][due_tick & _MASKS[0]]
        bucket[timer] = None
        self._places[timer] = (due_tick, bucket)

    def _drain_current(self, fire: Callable[[int], None]) -> None:
        index = self.tick & _MASKS[0]
        bucket = self._levels[0][index]
        # Cleared first: a timer that `fire` adds for exactly one revolution ahead sets it again.
        self._occupied[0] &= ~(1 << index)
        due = list(bucket)
        for timer in due:
            place = self._places.get(timer)
            # Cancelled meanwhile, or moved, perhaps into this very bucket for its next revolution.
            if place is not None and place[1] is bucket and place[0] == self.tick:
                self._fire(timer, fire)

    def _drain(self, bucket: dict[int, None], fire: Callable[[int], None]) -> None:
        while bucket:
            self._fire(next(iter(bucket)), fire)

    def _fire(self, timer: int, fire: Callable[[int], None]) -> None:
        self._remove(timer)
        self._fired += 1
        fire(timer)

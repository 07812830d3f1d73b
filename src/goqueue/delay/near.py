"""What is near: the slots of one shard that are due soon, in memory. All behind them are on the disk alone.

Everything up to `_loaded` is here: in the wheel until it is due, then ready, then taken by a
fire. The disk is asked by the store; this only says when, and takes in what was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

from goqueue.clock import Clock
from goqueue.config import DelayConfig
from goqueue.delay.index import Row
from goqueue.delay.records import SlotState
from goqueue.delay.wheel import TimerWheel

_LAST_SLOT = 2**63 - 1
_NEVER_MS = 2**62


class Place(NamedTuple):
    """A position in the order of being due."""

    due_ms: int
    slot: int


class Stretch(NamedTuple):
    """What is to be loaded next: behind `after`, due by `until_ms`, the first `limit`."""

    after: Place
    until_ms: int
    limit: int


class Near:
    """The near slots of one shard; its length is how many wait in the wheel."""

    def __init__(self, config: DelayConfig, clock: Clock) -> None:
        self.wheel = TimerWheel(clock.now_ms())
        # Those that are due and wait for their turn.
        self.ready: dict[int, Row] = {}
        # Slots that a fire has taken: nothing can stop them any more.
        self.firing: dict[int, Row] = {}
        self._waiting: dict[int, Row] = {}
        self._config = config
        self._clock = clock
        self._loaded = Place(-1, -1)
        self._loading_to_ms: int | None = None
        # Nothing behind `_loaded` is due before this; a slot that is cancelled makes it too early, which does no harm.
        self._far_ms = _NEVER_MS
        # The same of what was written before the load that is under way.
        self._far_before_ms = _NEVER_MS
        # Slots that changed while rows were being loaded: what was read of them may be old.
        self._touched: set[int] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    # --- slots change -------------------------------------------------------------------

    def put(self, slot: int, row: Row | None) -> None:
        """Put a slot where it belongs now: into the wheel, or on the disk alone."""
        if self._loading_to_ms is not None:
            self._touched.add(slot)
        if slot in self.firing:
            return
        self.ready.pop(slot, None)
        if self._waiting.pop(slot, None) is not None:
            self.wheel.cancel(slot)
        if row is None or row.state != SlotState.PENDING:
            return
        if not self._is_near(row):
            self._far_ms = min(self._far_ms, row.due_ms)
            return
        self._add(row)
        if len(self._waiting) > 2 * self._config.near_max and self._loading_to_ms is None:
            self._trim()

    def _is_near(self, row: Row) -> bool:
        if (row.due_ms, row.slot) <= self._loaded:
            return True
        if self._loading_to_ms is not None:
            return row.due_ms <= self._loading_to_ms
        if self._loaded.slot != _LAST_SLOT:
            return False
        # Time has passed since the last look at the disk, and it is known to hold nothing before `_far_ms`.
        reach_ms = min(self._clock.now_ms() + self._config.near_ms, self._far_ms - 1)
        if row.due_ms > reach_ms:
            return False
        self._loaded = Place(reach_ms, _LAST_SLOT)
        return True

    def _add(self, row: Row) -> None:
        if not self.wheel:
            self.wheel.advance(self._clock.now_ms(), self._unexpected)
        if self.wheel.fits(row.due_ms):
            self._waiting[row.slot] = row
            self.wheel.add(row.slot, row.due_ms)

    def _trim(self) -> None:
        """Leave the later ones to the disk: a burst within the near future must not fill the memory."""
        rows = sorted(self._waiting.values(), key=lambda row: (row.due_ms, row.slot))
        for row in rows[self._config.near_max :]:
            del self._waiting[row.slot]
            self.wheel.cancel(row.slot)
        last = rows[self._config.near_max - 1]
        self._loaded = Place(last.due_ms, last.slot)

    def _unexpected(self, slot: int) -> None:
        raise AssertionError(f"timer {slot} in an empty wheel")

    # --- slots become due ---------------------------------------------------------------

    def collect(self, due_to_ms: int) -> None:
        """Move what is due by then from the wheel to `ready`, earliest first."""
        ready, waiting = self.ready, self._waiting

        def fire(slot: int) -> None:
            ready[slot] = waiting.pop(slot)

        self.wheel.advance(due_to_ms, fire)

    def take_ready(self, count: int) -> list[Row]:
        """Take the first of those that are due: from now on nothing can stop them."""
        rows = list(islice(self.ready.values(), count))
        for row in rows:
            del self.ready[row.slot]
            self.firing[row.slot] = row
        return rows

    def put_back(self, rows: Sequence[Row]) -> None:
        """Let rows that were taken wait again, before all others."""
        back = {row.slot: row for row in rows if self.firing.pop(row.slot, None) is not None}
        self.ready = {**back, **self.ready}

    # --- more comes from the disk -------------------------------------------------------

    @property
    def is_loading(self) -> bool:
        """Whether a load is under way."""
        return self._loading_to_ms is not None

    def load_at_ms(self) -> int:
        """When more must be loaded, lest something become due on the disk alone."""
        if self._loading_to_ms is not None:
            return _NEVER_MS
        if self._loaded.slot != _LAST_SLOT:
            # A load stopped at its limit: go on once half of that is used up.
            room = len(self._waiting) + len(self.ready) <= self._config.near_max // 2
            return self._loaded.due_ms - self._config.near_ms if room else _NEVER_MS
        if self._far_ms == _NEVER_MS:
            return _NEVER_MS
        # Not before something on the disk is near: a long wait is not a row of looks at the same disk.
        return max(self._loaded.due_ms - self._config.near_ms // 2, self._far_ms - self._config.near_ms)

    @contextmanager
    def loading(self) -> Iterator[Stretch]:
        """While the next stretch is loaded; what is found of it goes to `take_in`."""
        until_ms = self._clock.now_ms() + self._config.near_ms
        self._loading_to_ms = until_ms
        # What is written from here on is counted anew; what was written before, the index knows.
        self._far_before_ms, self._far_ms = self._far_ms, _NEVER_MS
        try:
            yield Stretch(self._loaded, until_ms, self._config.near_max)
        finally:
            self._far_ms = min(self._far_ms, self._far_before_ms)
            self._loading_to_ms = None
            self._touched.clear()

    def take_in(
        self, stretch: Stretch, rows: Sequence[Row], far_ms: int | None, find: Callable[[int], Row | None]
    ) -> None:
        """The rows of a stretch, and when the first behind it is due; `find` knows slots as they are now."""
        self._far_before_ms = _NEVER_MS if far_ms is None else far_ms
        for row in rows:
            known = find(row.slot) if row.slot in self._touched else row
            if known is None or known.state != SlotState.PENDING:
                continue
            if known.slot in self._waiting or known.slot in self.ready or known.slot in self.firing:
                continue
            self._add(known)
        is_whole = len(rows) < stretch.limit
        self._loaded = Place(stretch.until_ms, _LAST_SLOT) if is_whole else Place(rows[-1].due_ms, rows[-1].slot)

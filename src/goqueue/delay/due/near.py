"""What is near: the slots of one index file that are due soon, in memory. All behind them are on the disk alone.

Everything up to `_loaded` is here: in the wheel until it is due, then ready, then taken by a
fire. The disk is asked by the store; this only says when, and takes in what was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

from goqueue.clock import Clock
from goqueue.config import DelayConfig
from goqueue.delay.due.index import Row
from goqueue.delay.due.wheel import TimerWheel
from goqueue.delay.holding.records import SlotState

_LAST_KEY = 2**63 - 1
_NEVER_MS = 2**62


class DuePosition(NamedTuple):
    """A position in the order of being due."""

    due_ms: int
    key: int


class LoadRequest(NamedTuple):
    """What is to be loaded next: behind `after`, due by `until_ms`, the first `limit`."""

    after: DuePosition
    until_ms: int
    limit: int


class Near:
    """The near slots of all partitions of one file; its length is how many wait in the wheel."""

    def __init__(self, config: DelayConfig, clock: Clock) -> None:
        self.wheel = TimerWheel(clock.now_ms())
        # Those that are due and wait for their turn.
        self.ready: dict[int, Row] = {}
        # Slots that a fire has taken: nothing can stop them any more.
        self.firing: dict[int, Row] = {}
        self._waiting: dict[int, Row] = {}
        self._config = config
        self._clock = clock
        self._loaded = DuePosition(-1, -1)
        self._loading_to_ms: int | None = None
        # Nothing behind `_loaded` is due before this; a slot that is cancelled makes it too early, which does no harm.
        self._far_ms = _NEVER_MS
        # The same of what was written before the load that is under way.
        self._far_before_ms = _NEVER_MS
        # Slots that changed while rows were being loaded: what was read of them may be old.
        self._touched: set[int] = set()
        # What the load that is under way finds is not all that was there.
        self._is_void = False

    def __len__(self) -> int:
        return len(self._waiting)

    # --- slots change -------------------------------------------------------------------

    def put(self, key: int, row: Row | None) -> None:
        """Put a slot where it belongs now: into the wheel, or on the disk alone."""
        if self._loading_to_ms is not None:
            self._touched.add(key)
        if key in self.firing:
            return
        self.ready.pop(key, None)
        if self._waiting.pop(key, None) is not None:
            self.wheel.cancel(key)
        if row is None or row.state != SlotState.PENDING:
            return
        if not self._is_near(row):
            self._far_ms = min(self._far_ms, row.due_ms)
            return
        self._add(row)
        if len(self._waiting) > 2 * self._config.near_max and self._loading_to_ms is None:
            self._trim()

    def attach(self, first_due_ms: int | None) -> None:
        """A partition's slots are in the index from now on, the first of them due then: those that are near are here.

        All that waits is left to the disk and loaded again, in the order of being due. A load that is under way counts
        for nothing.
        """
        if first_due_ms is None:
            return
        reach_ms = self._loaded.due_ms if self._loading_to_ms is None else self._loading_to_ms
        if first_due_ms > reach_ms:
            self._far_ms = min(self._far_ms, first_due_ms)
            return
        for key in self._waiting:
            self.wheel.cancel(key)
        self._waiting.clear()
        self._loaded = DuePosition(-1, -1)
        self._is_void = self._loading_to_ms is not None

    def drop(self, number: int) -> None:
        """A partition left: none of its slots fires here any more."""
        for table in (self.ready, self.firing, self._waiting):
            for key in [key for key, row in table.items() if row.number == number]:
                del table[key]
                self.wheel.cancel(key)

    def _is_near(self, row: Row) -> bool:
        if (row.due_ms, row.key) <= self._loaded:
            return True
        if self._loading_to_ms is not None:
            return row.due_ms <= self._loading_to_ms
        if self._loaded.key != _LAST_KEY:
            return False
        # Time has passed since the last look at the disk, and it is known to hold nothing before `_far_ms`.
        reach_ms = min(self._clock.now_ms() + self._config.near_ms, self._far_ms - 1)
        if row.due_ms > reach_ms:
            return False
        self._loaded = DuePosition(reach_ms, _LAST_KEY)
        return True

    def _add(self, row: Row) -> None:
        if not self.wheel:
            self.wheel.advance(self._clock.now_ms(), self._unexpected)
        if self.wheel.fits(row.due_ms):
            self._waiting[row.key] = row
            self.wheel.add(row.key, row.due_ms)

    def _trim(self) -> None:
        """Leave the later ones to the disk: a burst within the near future must not fill the memory."""
        rows = sorted(self._waiting.values(), key=lambda row: (row.due_ms, row.key))
        for row in rows[self._config.near_max :]:
            del self._waiting[row.key]
            self.wheel.cancel(row.key)
        last = rows[self._config.near_max - 1]
        self._loaded = DuePosition(last.due_ms, last.key)

    def _unexpected(self, key: int) -> None:
        raise AssertionError(f"timer {key} in an empty wheel")

    # --- slots become due ---------------------------------------------------------------

    def collect(self, due_to_ms: int) -> None:
        """Move what is due by then from the wheel to `ready`, earliest first."""
        ready, waiting = self.ready, self._waiting

        def fire(key: int) -> None:
            ready[key] = waiting.pop(key)

        self.wheel.advance(due_to_ms, fire)

    def take_ready(self, count: int) -> list[Row]:
        """Take the first of those that are due: from now on nothing can stop them."""
        rows = list(islice(self.ready.values(), count))
        for row in rows:
            del self.ready[row.key]
            self.firing[row.key] = row
        return rows

    def put_back(self, rows: Sequence[Row]) -> None:
        """Let rows that were taken wait again, before all others."""
        back = {row.key: row for row in rows if self.firing.pop(row.key, None) is not None}
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
        if self._loaded.key != _LAST_KEY:
            # A load stopped at its limit: go on once half of that is used up.
            room = len(self._waiting) + len(self.ready) <= self._config.near_max // 2
            return self._loaded.due_ms - self._config.near_ms if room else _NEVER_MS
        if self._far_ms == _NEVER_MS:
            return _NEVER_MS
        # Not before something on the disk is near: a long wait is not a row of looks at the same disk.
        return max(self._loaded.due_ms - self._config.near_ms // 2, self._far_ms - self._config.near_ms)

    @contextmanager
    def loading(self) -> Iterator[LoadRequest]:
        """While what is due next is loaded; what is found of it goes to `take_in`."""
        until_ms = self._clock.now_ms() + self._config.near_ms
        self._loading_to_ms = until_ms
        # What is written from here on is counted anew; what was written before, the index knows.
        self._far_before_ms, self._far_ms = self._far_ms, _NEVER_MS
        try:
            yield LoadRequest(self._loaded, until_ms, self._config.near_max)
        finally:
            self._far_ms = min(self._far_ms, self._far_before_ms)
            self._loading_to_ms = None
            self._touched.clear()
            self._is_void = False

    def touch(self, keys: Iterable[int]) -> None:
        """Slots that changed before the load and that the disk may not know so yet: what was read may be old."""
        self._touched.update(keys)

    def take_in(
        self,
        request: LoadRequest,
        rows: Sequence[Row],
        far_ms: int | None,
        find: Callable[[int], Row | None],
        is_at_work: Callable[[int], bool],
    ) -> None:
        """The rows of a request, and when the first behind it is due; `find` knows slots as they are now.

        Those of partitions that are not at work are passed over.
        """
        if self._is_void:
            return
        self._far_before_ms = _NEVER_MS if far_ms is None else far_ms
        for row in rows:
            if not is_at_work(row.number):
                continue
            known = find(row.key) if row.key in self._touched else row
            if known is None or known.state != SlotState.PENDING:
                continue
            if known.key in self._waiting or known.key in self.ready or known.key in self.firing:
                continue
            self._add(known)
        is_whole = len(rows) < request.limit
        self._loaded = (
            DuePosition(request.until_ms, _LAST_KEY) if is_whole else DuePosition(rows[-1].due_ms, rows[-1].key)
        )

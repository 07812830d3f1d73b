"""The store of one shard: its partition of `__delayed`, the due index beside it, and what is near in memory.

What is written counts at once in memory; the index takes it in a moment later, once it is
durable. Until then the overlay knows better than the index. Only slots that are due soon are
in memory: everything up to `_loaded` is in the wheel, all behind it is on the disk alone.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from goqueue.broker.partitions import Partition
from goqueue.clock import Clock
from goqueue.codec.batch import decode_records, encode_batch
from goqueue.config import DelayConfig
from goqueue.delay.index import DueIndex, OriginKey, OriginMark, Row
from goqueue.delay.records import (
    Change,
    Fire,
    Schedule,
    ScheduleKey,
    Slot,
    SlotKey,
    SlotState,
    Stored,
    decode,
    encode,
)
from goqueue.delay.staged import StagedSlot, StagedSlots
from goqueue.delay.wheel import TimerWheel
from goqueue.errors import GoQueueError, ShuttingDown, StorageError
from goqueue.ports import Offload
from goqueue.records import Acks

T = TypeVar("T")
Pair = tuple[Stored, Stored | None]
# Opens a partition's index; told of damage, it makes a new one.
OpenIndex = Callable[[Partition, sqlite3.DatabaseError | None], DueIndex]

_READ_BYTES = 1024 * 1024
# What one batch of the log may hold, so that reading one slot back stays cheap.
BATCH_RECORDS_MAX = 500
BATCH_BYTES_MAX = 1024 * 1024
# Whole slots that are read for one round hold this much at most, unless a single one is larger.
_WHOLE_BYTES_MAX = 16 * 1024 * 1024
# Changes that may wait for the index before writers wait too.
_UNINDEXED_MAX = 50_000
# The index takes changes in together, unless somebody waits for it.
_INDEX_PAUSE_SECONDS = 0.05
_ORIGIN_MEMORY_MS = 7 * 24 * 3600 * 1000
_LAST_SLOT = 2**63 - 1
_NEVER_MS = 2**62


class Place(NamedTuple):
    """A position in the order of being due."""

    due_ms: int
    slot: int


class Store:
    """Slots, fires and schedules of one shard. Lives on the event loop; the disk is asked in the offload."""

    def __init__(
        self,
        partition: Partition,
        open_index: OpenIndex,
        *,
        config: DelayConfig,
        clock: Clock,
        offload: Offload,
    ) -> None:
        self.partition = partition.id
        self.pending: Counter[str] = Counter()
        self.expired: Counter[str] = Counter()
        self.schedules: dict[str, Schedule] = {}
        self.origins: dict[OriginKey, OriginMark] = {}
        self.staged = StagedSlots()
        # Batches that were on their way when the last life ended.
        self.left_over: list[Fire] = []
        self.wheel = TimerWheel(clock.now_ms())
        # Near slots that wait in the wheel, and those that are due and wait for their turn.
        self.near: dict[int, Row] = {}
        self.ready: dict[int, Row] = {}
        # Slots that a fire has taken: nothing can stop them any more.
        self.firing: dict[int, Row] = {}
        self._log, self._writer = partition.log, partition.writer
        self._place = partition
        self._open_index = open_index
        self._index: DueIndex | None = None
        self._config = config
        self._clock = clock
        self._offload = offload
        self._overlay: dict[int, tuple[int, Row | None]] = {}
        self._unindexed: list[Change] = []
        self._indexing: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._indexed_waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._failure: GoQueueError | None = None
        self._closed = False
        self._asked: set[asyncio.Future[Any]] = set()
        self._loaded = Place(-1, -1)
        self._loading_to_ms: int | None = None
        # Nothing behind `_loaded` is due before this; a slot that is cancelled makes it too early, which does no harm.
        self._far_ms = _NEVER_MS
        # Slots that changed while rows were being loaded: what was read of them may be old.
        self._touched: set[int] = set()

    # --- life ---------------------------------------------------------------------------

    async def load(self) -> None:
        """Bring the index up to the log, and the near future into memory."""
        log = self._log
        end = log.end_offset
        unsafe = self._writer.reached(end, Acks.ALL)
        if unsafe is not None:
            await unsafe
        try:
            await self._load_index(end, None)
        except sqlite3.DatabaseError as damage:
            # It opened well, but not all of it can be read. The log has everything that it had.
            if self._index is not None:
                await self._offload(self._index.close)
            await self._load_index(end, damage)

    async def _load_index(self, end: int, damage: sqlite3.DatabaseError | None) -> None:
        index = self._index = await self._offload(lambda: self._open_index(self._place, damage))
        while index.end_offset < end:
            await self._offload(lambda: self._replay(index, end))
        horizon_ms = self._clock.now_ms() - _ORIGIN_MEMORY_MS
        await self._offload(lambda: index.forget_origins(horizon_ms))
        counts, self.left_over, self.schedules, self.origins, staged = await self._offload(
            lambda: (index.counts(), index.fires(), index.schedules(), index.origins(), index.staged())
        )
        self.staged = StagedSlots(staged)
        for topic, (pending, expired) in counts.items():
            self.pending[topic], self.expired[topic] = pending, expired
        self.firing = {
            slot: row for fire in self.left_over for slot in fire.slots if (row := self.find(slot)) is not None
        }

    async def close(self) -> None:
        """Let the index take in what is written, so that the next start replays nothing."""
        self._closed = True
        index = self._index
        if index is None:
            return
        self._hurry.set()
        if self._indexing is not None:
            await asyncio.wait([self._indexing])
        if self._asked:
            await asyncio.wait(self._asked)
        self._index = None
        await self._offload(index.close)

    def _replay(self, index: DueIndex, end: int) -> None:
        log = self._log
        start = max(index.end_offset, log.start_offset)
        read = log.read_batches(start, max_bytes=_READ_BYTES, upper=end)
        changes = [decode(one.offset, one.key, one.value) for batch in read.batches for one in decode_records(batch)]
        # Compaction may leave nothing before the end; then all has been read.
        index.apply([one for one in changes if one.offset >= start], read.next_offset if read.batches else end)

    # --- writing ------------------------------------------------------------------------

    @property
    def next_slot(self) -> int:
        """The slot that the next record written makes."""
        return self._log.end_offset

    def write(self, pairs: Sequence[Pair]) -> int:
        """Write records as one batch and take them in; returns the offset behind them."""
        if self._closed:
            raise ShuttingDown("the node is stopping")
        if self._failure is not None:
            raise self._failure
        now_ms = self._clock.now_ms()
        batch = encode_batch([encode(key, value) for key, value in pairs], now_ms=now_ms)
        base = self._writer.append(batch, now_ms=now_ms).base_offset
        for offset, (key, value) in enumerate(pairs, base):
            self._take(Change(offset, key, value))
        if self._indexing is None:
            self._indexing = asyncio.get_running_loop().create_task(self._run_indexing())
        return base + len(pairs)

    def durable(self, end_offset: int) -> Awaitable[None] | None:
        """Wait until everything written below is on the disk; None if it is."""
        return self._writer.reached(end_offset, Acks.ALL)

    async def room(self) -> None:
        """Wait while the index lies too far behind: memory must not grow with a burst."""
        if len(self._unindexed) > _UNINDEXED_MAX:
            await self.indexed()

    def _take(self, change: Change) -> None:
        key, value = change.key, change.value
        if isinstance(key, SlotKey):
            row = None
            if isinstance(value, Slot) and value.state == SlotState.STAGED and value.origin is not None:
                self.staged.put(
                    StagedSlot(key.slot, change.offset, value.due_ms, value.topic, value.topic_id, value.origin)
                )
            elif self.staged:
                self.staged.drop(key.slot)
            if isinstance(value, Slot) and value.state != SlotState.STAGED:
                row = Row(key.slot, change.offset, value.due_ms, value.topic, value.state)
                if value.origin is not None and change.offset == key.slot:
                    origin = value.origin
                    self.origins[OriginKey(value.topic_id, origin.partition, origin.producer_id)] = OriginMark(
                        origin.producer_epoch, origin.last_sequence, value.created_ms
                    )
            self._overlay[key.slot] = (change.offset, row)
            if self._loading_to_ms is not None:
                self._touched.add(key.slot)
            self._place_row(key.slot, row)
        elif isinstance(key, ScheduleKey):
            if isinstance(value, Schedule):
                self.schedules[key.name] = value
            else:
                self.schedules.pop(key.name, None)
        self._unindexed.append(change)

    def _place_row(self, slot: int, row: Row | None) -> None:
        """Put a slot where it belongs now: into the wheel, or on the disk alone."""
        if slot in self.firing:
            return
        self.ready.pop(slot, None)
        if self.near.pop(slot, None) is not None:
            self.wheel.cancel(slot)
        if row is None or row.state != SlotState.PENDING:
            return
        if not self._is_near(row):
            self._far_ms = min(self._far_ms, row.due_ms)
            return
        self._add_near(row)
        if len(self.near) > 2 * self._config.near_max and self._loading_to_ms is None:
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

    def _add_near(self, row: Row) -> None:
        if not self.wheel:
            self.wheel.advance(self._clock.now_ms(), self._unexpected)
        if self.wheel.fits(row.due_ms):
            self.near[row.slot] = row
            self.wheel.add(row.slot, row.due_ms)

    def _trim(self) -> None:
        """Leave the later ones to the disk: a burst within the near future must not fill the memory."""
        rows = sorted(self.near.values(), key=lambda row: (row.due_ms, row.slot))
        for row in rows[self._config.near_max :]:
            del self.near[row.slot]
            self.wheel.cancel(row.slot)
        last = rows[self._config.near_max - 1]
        self._loaded = Place(last.due_ms, last.slot)

    def _unexpected(self, slot: int) -> None:
        raise AssertionError(f"timer {slot} in an empty wheel")

    # --- looking ------------------------------------------------------------------------

    def find(self, slot: int) -> Row | None:
        """A slot as it is now."""
        known = self._overlay.get(slot)
        if known is not None:
            return known[1]
        return self._opened().find(slot)

    async def rows(self, topic: str, *, due_before_ms: int, limit: int, skip: int) -> list[Row]:
        """A topic's slots by time, everything written so far included."""
        await self.indexed()
        index = self._opened()
        return await self._ask(lambda: index.of_topic(topic, due_before_ms=due_before_ms, limit=limit, skip=skip))

    async def read(self, rows: Sequence[Row]) -> dict[int, Slot]:
        """The slots of rows, whole. One that is not in the log any more is left out."""
        found: dict[int, Slot] = {}
        while rows:
            count, some = await self.read_some(rows)
            found |= some
            rows = rows[count:]
        return found

    async def read_some(self, rows: Sequence[Row]) -> tuple[int, dict[int, Slot]]:
        """The same for as many of the first rows as may be in memory together, and how many these are."""
        count = len(rows)
        while True:
            # Those of one time lie wherever they were written, so a share of them is no share of the batches.
            some = rows[:count]
            found = await self._ask(lambda some=some: self._read(some))  # type: ignore[misc]
            if found is not None:
                return count, found
            count = -(-count // 4)

    def _read(self, rows: Sequence[Row]) -> dict[int, Slot] | None:
        """The slots of rows; None if they are too large together."""
        wanted = {row.place: row.slot for row in rows}
        found: dict[int, Slot] = {}
        size = 0
        end, seen_to = self._log.end_offset, -1
        for place in sorted(wanted):
            if place < seen_to or place < self._log.start_offset:
                continue
            read = self._log.read_batches(place, max_bytes=1, upper=end)
            for batch in read.batches:
                for record in decode_records(batch, only=wanted):
                    slot = wanted[record.offset]
                    change = decode(record.offset, record.key, record.value)
                    if change.key == SlotKey(slot) and isinstance(change.value, Slot):
                        found[slot] = change.value
                        size += len(record.value or b"")
                if size > _WHOLE_BYTES_MAX and len(rows) > 1:
                    return None
            seen_to = read.next_offset
        return found

    # --- what is near -------------------------------------------------------------------

    def collect(self, due_to_ms: int) -> None:
        """Move what is due by then from the wheel to `ready`, earliest first."""
        ready, near = self.ready, self.near

        def fire(slot: int) -> None:
            ready[slot] = near.pop(slot)

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

    def load_at_ms(self) -> int:
        """When more must be loaded, lest something become due on the disk alone."""
        if self._loading_to_ms is not None:
            return _NEVER_MS
        if self._loaded.slot != _LAST_SLOT:
            # A load stopped at its limit: go on once half of that is used up.
            room = len(self.near) + len(self.ready) <= self._config.near_max // 2
            return self._loaded.due_ms - self._config.near_ms if room else _NEVER_MS
        if self._far_ms == _NEVER_MS:
            return _NEVER_MS
        # Not before something on the disk is near: a long wait is not a row of looks at the same disk.
        return max(self._loaded.due_ms - self._config.near_ms // 2, self._far_ms - self._config.near_ms)

    async def load_more(self) -> None:
        """Bring the next stretch of the near future into memory."""
        if self._loading_to_ms is not None:
            return
        until_ms = self._clock.now_ms() + self._config.near_ms
        self._loading_to_ms = until_ms
        # What is written from here on is counted anew; what was written before, the index knows.
        far_before_ms, self._far_ms = self._far_ms, _NEVER_MS
        try:
            await self.indexed()
            index, after, limit = self._opened(), self._loaded, self._config.near_max
            rows, far_ms = await self._ask(lambda: (index.due(after, until_ms, limit), index.next_due_ms(until_ms)))
            far_before_ms = _NEVER_MS if far_ms is None else far_ms
            for row in rows:
                known = self.find(row.slot) if row.slot in self._touched else row
                if known is None or known.state != SlotState.PENDING:
                    continue
                if known.slot in self.near or known.slot in self.ready or known.slot in self.firing:
                    continue
                self._add_near(known)
            self._loaded = Place(until_ms, _LAST_SLOT) if len(rows) < limit else Place(rows[-1].due_ms, rows[-1].slot)
        finally:
            self._far_ms = min(self._far_ms, far_before_ms)
            self._loading_to_ms = None
            self._touched.clear()

    # --- the index ----------------------------------------------------------------------

    async def indexed(self) -> None:
        """Wait until the index has everything that is written now."""
        if self._failure is not None:
            raise self._failure
        end = self._log.end_offset
        if self._indexing is None or self._opened().end_offset >= end:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._indexed_waiters.append((end, done))
        self._hurry.set()
        await done

    async def _run_indexing(self) -> None:
        try:
            while self._unindexed:
                if not self._hurry.is_set() and len(self._unindexed) < _UNINDEXED_MAX:
                    await self._pause()
                self._hurry.clear()
                changes, self._unindexed = self._unindexed, []
                await self._index_changes(changes)
        except GoQueueError as error:
            # The log is sound, but what is due can no longer be found: a restart builds the index anew.
            self._failure = error
            self._answer_waiters(-1)
        finally:
            self._indexing = None

    def _answer_waiters(self, end: int) -> None:
        waiters, self._indexed_waiters = self._indexed_waiters, []
        for wanted, done in waiters:
            if done.done():
                continue
            if self._failure is not None:
                done.set_exception(self._failure)
            elif wanted <= end:
                done.set_result(None)
            else:
                self._indexed_waiters.append((wanted, done))
                self._hurry.set()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(_INDEX_PAUSE_SECONDS):
                await self._hurry.wait()
        except TimeoutError:
            pass

    async def _index_changes(self, changes: Sequence[Change]) -> None:
        end = changes[-1].offset + 1
        unsafe = self._writer.reached(end, Acks.ALL)
        if unsafe is not None:
            await unsafe
        index = self._index
        if index is None:
            return
        await self._ask(lambda: index.apply(changes, end))
        for change in changes:
            if isinstance(change.key, SlotKey):
                known = self._overlay.get(change.key.slot)
                if known is not None and known[0] < end:
                    del self._overlay[change.key.slot]
        self._answer_waiters(end)

    async def _ask(self, work: Callable[[], T]) -> T:
        """Have the disk asked. Whoever gives up waiting does not stop it, so that closing must wait for it."""
        asked = asyncio.ensure_future(self._offload(work))
        self._asked.add(asked)
        asked.add_done_callback(self._asked.discard)
        try:
            return await asyncio.shield(asked)
        except sqlite3.Error as error:
            raise StorageError(f"the index of delayed messages cannot be used: {error}") from error

    def _opened(self) -> DueIndex:
        if self._index is None:
            raise ShuttingDown("the node is stopping")
        return self._index

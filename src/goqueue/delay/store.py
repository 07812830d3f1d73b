"""The store of one shard: its partition of `__delayed`, the due index beside it, and what is near in memory."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Awaitable, Sequence

from goqueue.broker.partitions import Partition
from goqueue.clock import Clock
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import encode_batch
from goqueue.config import DelayConfig
from goqueue.delay.index import OriginKey, OriginMark, Row, is_passing
from goqueue.delay.indexing import Indexing, OnTrouble, OpenIndex
from goqueue.delay.near import Near
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
from goqueue.errors import ShuttingDown
from goqueue.ports import Offload
from goqueue.records import Acks

Pair = tuple[Stored, Stored | None]

# What one batch of the log may hold, so that reading one slot back stays cheap.
BATCH_RECORDS_MAX = 500
BATCH_BYTES_MAX = 1024 * 1024
# Whole slots that are read for one round hold this much at most, unless a single one is larger.
_WHOLE_BYTES_MAX = 16 * 1024 * 1024
_ORIGIN_MEMORY_MS = 7 * 24 * 3600 * 1000


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
        on_trouble: OnTrouble,
    ) -> None:
        self.partition = partition.id
        self.pending: Counter[str] = Counter()
        self.expired: Counter[str] = Counter()
        self.schedules: dict[str, Schedule] = {}
        self.origins: dict[OriginKey, OriginMark] = {}
        self.staged = StagedSlots()
        # Batches that were on their way when the last life ended.
        self.left_over: list[Fire] = []
        self.near = Near(config, clock)
        self._log, self._writer = partition.log, partition.writer
        self._indexing = Indexing(partition, open_index, offload, clock, on_trouble)
        self._clock = clock
        self._offload = offload
        self._closed = False

    # --- life ---------------------------------------------------------------------------

    async def load(self) -> None:
        """Bring the index up to the log, and what must be at hand into memory."""
        end = self._log.end_offset
        unsafe = self._writer.reached(end, Acks.ALL)
        if unsafe is not None:
            await unsafe
        try:
            await self._load_index(end, None)
        except sqlite3.DatabaseError as damage:
            if is_passing(damage):
                raise
            # It opened well, but not all of it can be read. The log has everything that it had.
            await self._load_index(end, damage)

    async def _load_index(self, end: int, damage: sqlite3.DatabaseError | None) -> None:
        index = await self._indexing.open(end, damage)
        horizon_ms = self._clock.now_ms() - _ORIGIN_MEMORY_MS
        await self._offload(lambda: index.forget_origins(horizon_ms))
        counts, self.left_over, self.schedules, self.origins, staged = await self._offload(
            lambda: (index.counts(), index.fires(), index.schedules(), index.origins(), index.staged())
        )
        self.staged = StagedSlots(staged)
        for topic, (pending, expired) in counts.items():
            self.pending[topic], self.expired[topic] = pending, expired
        self.near.firing = {
            slot: row for fire in self.left_over for slot in fire.slots if (row := self.find(slot)) is not None
        }

    async def close(self) -> None:
        """Let the index take in what is written, so that the next start replays nothing."""
        self._closed = True
        await self._indexing.close()

    @property
    def failure(self) -> str | None:
        """Why nothing can be held back or delivered at the moment; it is tried again all the time."""
        return self._indexing.failure

    # --- writing ------------------------------------------------------------------------

    @property
    def next_slot(self) -> int:
        """The slot that the next record written makes."""
        return self._log.end_offset

    def write(self, pairs: Sequence[Pair]) -> int:
        """Write records as one batch and take them in; returns the offset behind them."""
        if self._closed:
            raise ShuttingDown("the node is stopping")
        self._indexing.check()
        now_ms = self._clock.now_ms()
        batch = encode_batch([encode(key, value) for key, value in pairs], now_ms=now_ms)
        base = self._writer.append(batch, now_ms=now_ms).base_offset
        for offset, (key, value) in enumerate(pairs, base):
            self._take(Change(offset, key, value))
        self._indexing.start()
        return base + len(pairs)

    def durable(self, end_offset: int) -> Awaitable[None] | None:
        """Wait until everything written below is on the disk; None if it is."""
        return self._writer.reached(end_offset, Acks.ALL)

    async def room(self) -> None:
        """Wait while the index lies too far behind: memory must not grow with a burst."""
        await self._indexing.room()

    def _take(self, change: Change) -> None:
        key, value = change.key, change.value
        row = None
        if isinstance(key, SlotKey):
            row = self._take_slot(key.slot, change.offset, value if isinstance(value, Slot) else None)
        elif isinstance(key, ScheduleKey):
            if isinstance(value, Schedule):
                self.schedules[key.name] = value
            else:
                self.schedules.pop(key.name, None)
        self._indexing.add(change, row)

    def _take_slot(self, slot: int, offset: int, value: Slot | None) -> Row | None:
        """What is written of a slot counts; returns the row that it is from now on, if it is one."""
        row = None
        if value is not None and value.state == SlotState.STAGED and value.origin is not None:
            self.staged.put(StagedSlot(slot, offset, value.due_ms, value.topic, value.topic_id, value.origin))
        elif self.staged:
            self.staged.drop(slot)
        if value is not None and value.state != SlotState.STAGED:
            row = Row(slot, offset, value.due_ms, value.topic, value.state)
            if value.origin is not None and offset == slot:
                origin = value.origin
                self.origins[OriginKey(value.topic_id, origin.partition, origin.producer_id)] = OriginMark(
                    origin.producer_epoch, origin.last_sequence, value.created_ms
                )
        self.near.put(slot, row)
        return row

    async def load_more(self) -> None:
        """Bring the next stretch of the near future into memory."""
        if self.near.is_loading:
            return
        with self.near.loading() as stretch:
            await self._indexing.caught_up()
            index = self._indexing.opened()
            rows, far_ms = await self._indexing.ask(lambda: (index.due(*stretch), index.next_due_ms(stretch.until_ms)))
            self.near.take_in(stretch, rows, far_ms, self.find)

    # --- looking ------------------------------------------------------------------------

    def find(self, slot: int) -> Row | None:
        """A slot as it is now."""
        return self._indexing.find(slot)

    async def rows(self, topic: str, *, due_before_ms: int, limit: int, skip: int) -> list[Row]:
        """A topic's slots by time, everything written so far included."""
        indexing = self._indexing
        await indexing.caught_up()
        index = indexing.opened()
        return await indexing.ask(lambda: index.of_topic(topic, due_before_ms=due_before_ms, limit=limit, skip=skip))

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
            found = await self._indexing.ask(lambda some=some: self._read(some))  # type: ignore[misc]
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

"""The store of one partition: its delay log, its place in the due index, and what must be at hand, for one term."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TypeVar

from goqueue.broker.replicas.family import FamilyLog
from goqueue.broker.replicas.partitions import Partition
from goqueue.broker.replicas.safety import NEEDED, Operation, Safety
from goqueue.clock import Clock
from goqueue.codec.batch_encode import encode_batch
from goqueue.delay.due.index import MARKS_MAX, OriginMark, Row, key_of
from goqueue.delay.due.indexing import Indexing
from goqueue.delay.holding.records import (
    Change,
    Fire,
    Origin,
    Schedule,
    ScheduleKey,
    Slot,
    SlotKey,
    SlotState,
    Stored,
    encode,
)
from goqueue.delay.holding.slot_reads import read_some
from goqueue.delay.holding.staged import StagedSlot, StagedSlots
from goqueue.errors import NotLeader, ShuttingDown
from goqueue.ports import Offload
from goqueue.records import Acks

T = TypeVar("T")
Pair = tuple[Stored, Stored | None]

# What one batch of the log may hold, so that reading one slot back stays cheap.
BATCH_RECORDS_MAX = 500
BATCH_BYTES_MAX = 1024 * 1024


class Store:
    """Slots, fires and schedules of one partition. Lives on the event loop; the disk is asked in the offload."""

    def __init__(
        self, partition: Partition, member: FamilyLog, indexing: Indexing, *, clock: Clock, offload: Offload
    ) -> None:
        self.data = partition
        self.place = partition.key
        self.partition = partition.id
        self.topic = partition.topic_name
        self.topic_id = partition.topic_id.bytes
        self.log, self.writer = member.log, member.writer
        # Given by the index; the slots of all partitions are told apart by it.
        self.number = -1
        self.indexing = indexing
        self.near = indexing.near
        # How far the index has come, in this life.
        self.indexed_end = 0
        # Its log could not be synced for a while: the near future may have been loaded without its newest slots.
        self.was_held_up = False
        # The term has ended: nothing is delivered on the word of this log any more.
        self.is_over = False
        self.pending = 0
        self.expired = 0
        self.schedules: dict[str, Schedule] = {}
        # By producer, how far its delayed records are held: the marks of its last batches.
        self.origins: dict[int, list[OriginMark]] = {}
        self.staged = StagedSlots()
        # Slots whose messages are in their partition, until that is written down.
        self.delivered: set[int] = set()
        # Batches that were on their way when the last term ended.
        self.left_over: list[Fire] = []
        self._clock = clock
        self._offload = offload

    # --- life ---------------------------------------------------------------------------

    async def load(self) -> None:
        """Bring the index up to the log, and what must be at hand into memory."""
        unsafe = self.writer.reached(self.log.end_offset, Acks.ALL)
        if unsafe is not None:
            await unsafe
        facts = await self.indexing.attach(self)
        if self.writer.is_over:
            self.close()
            # Nothing may be delivered on the word of a log that another node leads by now.
            raise NotLeader(f"the term in {self.place} ended while its delayed messages were loaded")
        self.pending, self.expired = facts.pending, facts.expired
        self.schedules, self.origins = facts.schedules, facts.origins
        self.staged = StagedSlots(facts.staged)
        self.left_over = facts.fires
        for fire in self.left_over:
            for slot in fire.slots:
                if (row := self.find(slot)) is not None:
                    self.near.firing[row.key] = row
        self.near.attach(facts.first_due_ms)

    def close(self) -> None:
        """The term is over, or the node stops."""
        self.is_over = True
        self.indexing.detach(self)

    # --- writing ------------------------------------------------------------------------

    @property
    def next_slot(self) -> int:
        """The slot that the next record written makes."""
        return self.log.end_offset

    def key(self, slot: int) -> int:
        """What a slot is called among those of all partitions."""
        return key_of(self.number, slot)

    def is_firing(self, slot: int) -> bool:
        """Whether a fire has taken the slot: nothing can stop it any more."""
        return self.key(slot) in self.near.firing

    def settle(self, slot: int) -> bool:
        """The slot is no longer on its way; whether it was."""
        self.delivered.discard(slot)
        return self.near.firing.pop(self.key(slot), None) is not None

    def write(self, pairs: Sequence[Pair]) -> int:
        """Write records as one batch and take them in; returns the offset behind them."""
        if self.is_over:
            raise (
                ShuttingDown("the node is stopping")
                if not self.writer.is_over
                else NotLeader(f"the term in {self.place} is over")
            )
        self.indexing.check()
        now_ms = self._clock.now_ms()
        batch = encode_batch([encode(key, value) for key, value in pairs], now_ms=now_ms)
        base = self.writer.append(batch, now_ms=now_ms).base_offset
        for offset, (key, value) in enumerate(pairs, base):
            self._take(Change(offset, key, value))
        self.indexing.start()
        return base + len(pairs)

    def safe(self, operation: Operation, end_offset: int | None = None) -> Awaitable[None] | None:
        """Wait until what is written below, or all, is as safe as the operation needs; None if it is."""
        end = self.log.end_offset if end_offset is None else end_offset
        match NEEDED[operation]:
            case Safety.SYNCED:
                return self.writer.reached(end, Acks.ALL)
            case Safety.REPLICATED:
                return self.writer.replicated(end)
            case Safety.WRITTEN:
                return None

    async def room(self) -> None:
        """Wait while the index lies too far behind: memory must not grow with a burst."""
        await self.indexing.room()

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
        self.indexing.add(self, change, row)

    def _take_slot(self, slot: int, offset: int, value: Slot | None) -> Row | None:
        """What is written of a slot counts; returns the row that it is from now on, if it is one."""
        row = None
        if value is not None and value.state == SlotState.STAGED and value.origin is not None:
            origin = value.origin
            self.staged.put(StagedSlot.of(slot, offset, value.due_ms, origin))
        elif self.staged:
            self.staged.drop(slot)
        if value is not None and value.state != SlotState.STAGED:
            row = Row(self.key(slot), offset, value.due_ms, value.state)
            if value.origin is not None and offset == slot:
                self._mark(value.origin, value.created_ms)
        self.near.put(self.key(slot), row)
        return row

    def _mark(self, origin: Origin, seen_ms: int) -> None:
        marks = self.origins.setdefault(origin.producer_id, [])
        if marks and marks[-1].seen_ms == seen_ms:
            # The same batch, or one that was judged by the same time.
            del marks[-1]
        marks.append(OriginMark(origin.producer_epoch, origin.last_sequence, seen_ms))
        del marks[:-MARKS_MAX]

    # --- looking ------------------------------------------------------------------------

    def find(self, slot: int) -> Row | None:
        """A slot as it is now."""
        return self.indexing.find(self.key(slot))

    async def rows(self, *, due_before_ms: int, limit: int) -> list[Row]:
        """The slots by time, everything written so far included, without those that are delivered."""
        number = self.number
        newer = self.indexing.newer()
        most = limit + len(self.delivered) + len(newer)
        rows = await self.indexing.ask(
            lambda index: index.of_partition(number, due_before_ms=due_before_ms, limit=most)
        )
        # Of a log that is held up the index may not have the newest.
        known = [self.indexing.find(row.key) if row.key in newer else row for row in rows]
        return [row for row in known if row is not None and row.slot not in self.delivered][:limit]

    async def read(self, rows: Sequence[Row]) -> dict[int, Slot]:
        """The slots of rows, whole, by slot. One that is not in the log any more is left out; one in damage raises."""
        found: dict[int, Slot] = {}
        while rows:
            count, read = await read_some({self: rows}, self._offload)
            for damage in read[self].damaged.values():
                raise damage
            found |= read[self].slots
            rows = rows[count:]
        return found

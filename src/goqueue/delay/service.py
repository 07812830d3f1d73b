"""DelayService: what front-ends call to hold messages back, look at them, change them and take them away.

A message is held in the delay log of the partition that it will enter, which is chosen when it is held. A reply is
given only once what it says is durable.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from heapq import merge
from itertools import chain, islice, repeat

import msgspec

from goqueue.broker.arrivals.placement import place_records
from goqueue.broker.replicas.partitions import Partitions
from goqueue.broker.replicas.safety import Operation
from goqueue.broker.topics import TopicService
from goqueue.caller import ANONYMOUS, Caller
from goqueue.clock import Clock
from goqueue.delay.due.index import Row
from goqueue.delay.due.indexing import Indexing
from goqueue.delay.firing.driver import Driver
from goqueue.delay.firing.targets import check_holds, size_of
from goqueue.delay.holding.records import Origin, Slot, SlotKey, SlotState
from goqueue.delay.holding.store import BATCH_BYTES_MAX, BATCH_RECORDS_MAX, Pair, Store
from goqueue.delay.holding.stores import Stores
from goqueue.delay.observer import DelayObserver
from goqueue.delay.values import DUE_MS_MAX, Delayed, DelayedWhole, DelayStats, Held, SlotId
from goqueue.errors import (
    DelayedMessageFiring,
    DelayedMessageNotFound,
    GoQueueError,
    InternalTopic,
    PartitionNotFound,
)
from goqueue.metadata.events import Topic
from goqueue.records import NewRecord, TopicPartition

# Told of messages that were handed in to be delayed, and of what became of each; it must not raise.
OnHold = Callable[[Caller, str, Sequence[Held], Sequence[SlotId | GoQueueError]], None]


# Which records a partition that this node leads would refuse, by position.
CheckValues = Callable[[TopicPartition, Sequence[NewRecord]], Awaitable[Mapping[int, GoQueueError]]]


class DelayService:
    """All delayed messages of the node."""

    def __init__(
        self,
        topics: TopicService,
        partitions: Partitions,
        *,
        stores: Stores,
        files: Sequence[Indexing],
        driver: Driver,
        clock: Clock,
        on_hold: Sequence[OnHold] = (),
        observer: DelayObserver | None = None,
    ) -> None:
        self._on_hold = tuple(on_hold)
        self._observer = observer
        self._topics = topics
        self._partitions = partitions
        self.stores = stores
        self._files = files
        self._driver = driver
        self._clock = clock
        self._scheduled: Counter[str] = Counter()
        self._cancelled: Counter[str] = Counter()
        # Set by the node.
        self.check_values: CheckValues | None = None

    async def close(self) -> None:
        """Stop firing and leave the indexes complete. A second close does no harm."""
        await self.stores.close()

    # --- holding back -------------------------------------------------------------------

    async def hold(
        self, topic: str, messages: Sequence[Held], *, caller: Caller = ANONYMOUS
    ) -> list[SlotId | GoQueueError]:
        """Hold messages back until they are due; each gets its slot, or the reason why not."""
        found = self._outward(topic)
        outcomes: dict[int, SlotId | GoQueueError] = dict(
            # All partitions of a topic take the same; one that this node leads is asked.
            await self.refusals(
                TopicPartition(topic, _named(messages, found.partition_count)), [held.record for held in messages]
            )
        )
        shares = self._shares(found, messages, outcomes)
        stores = [await self.stores.get(TopicPartition(topic, partition)) for partition in shares]
        for store in stores:
            await store.room()
        waits: list[Awaitable[None]] = []
        for store, positions in zip(stores, shares.values(), strict=True):
            waits.append(self._hold_share(store, messages, positions, outcomes, caller))
        await asyncio.gather(*waits)
        return [outcomes[at] for at in range(len(messages))]

    def placed(
        self, topic: str, messages: Sequence[Held]
    ) -> tuple[dict[int, SlotId | GoQueueError], dict[int, list[int]]]:
        """What is refused whoever leads, by position, and which of the others go to which partition."""
        outcomes: dict[int, SlotId | GoQueueError] = {}
        return outcomes, self._shares(self._outward(topic), messages, outcomes)

    def _outward(self, topic: str) -> Topic:
        found = self._topics.get(topic)
        if found.internal:
            raise InternalTopic(topic)
        return found

    async def _hold_share(
        self,
        store: Store,
        messages: Sequence[Held],
        positions: Sequence[int],
        outcomes: dict[int, SlotId | GoQueueError],
        caller: Caller,
    ) -> None:
        """Hold messages of one partition. What fails there is no matter of the others."""
        try:
            results, unsafe = self.hold_now(store, [messages[at] for at in positions], caller=caller)
            if unsafe is not None:
                await unsafe
        except GoQueueError as error:
            outcomes.update(dict.fromkeys(positions, error))
        else:
            outcomes.update(zip(positions, results, strict=True))

    def _shares(
        self, topic: Topic, messages: Sequence[Held], outcomes: dict[int, SlotId | GoQueueError]
    ) -> dict[int, list[int]]:
        """Which messages go to which partition: it is chosen now, and they keep it."""
        shares: dict[int, list[int]] = {}
        free: list[int] = []
        for at, held in enumerate(messages):
            if at in outcomes:
                continue
            if held.partition is None:
                free.append(at)
            elif held.partition >= topic.partition_count:
                outcomes[at] = PartitionNotFound(topic.name, held.partition)
            else:
                shares.setdefault(held.partition, []).append(at)
        for share in place_records(
            [held.record for held in messages],
            free,
            partitions=topic.partition_count,
            algorithm=self._partitions.config(topic).partitioner,
            turns=self._partitions.turns(topic),
        ):
            shares.setdefault(share.partition, []).extend(share.positions)
        return shares

    async def refusals(self, at: TopicPartition, records: Sequence[NewRecord]) -> Mapping[int, GoQueueError]:
        """Which records the topic would not take when they are due: their sender is there to hear it now."""
        return {} if self.check_values is None else await self.check_values(at, records)

    def hold_now(
        self,
        store: Store,
        messages: Sequence[Held],
        *,
        all_or_none: bool = False,
        now_ms: int | None = None,
        caller: Caller = ANONYMOUS,
    ) -> tuple[list[SlotId | GoQueueError], Awaitable[None] | None]:
        """The same in one partition, without waiting: nothing may be promised before the second result is awaited.

        With `all_or_none` the first message that is refused raises, and none is held. `now_ms` is the time by which
        it was decided what is for later: a repeat is decided by the same.
        """
        config = store.data.config
        if now_ms is None:
            now_ms = self._clock.now_ms()
        outcomes: list[SlotId | GoQueueError] = []
        taken: list[Slot] = []
        for held in messages:
            slot = _slot(store, held, now_ms)
            try:
                check_holds(config, slot)
            except GoQueueError as error:
                if all_or_none:
                    raise
                outcomes.append(error)
            else:
                # Its offset is filled in below, once it is known.
                outcomes.append(SlotId(store.partition, -1))
                taken.append(slot)
        offsets, failure = self._write_slots(store, taken)
        if failure is not None and (all_or_none or not offsets):
            raise failure
        # What was written before a failure is held: told otherwise, its sender would send it a second time.
        places = chain(
            (SlotId(store.partition, one) for one in offsets), repeat(failure or SlotId(store.partition, -1))
        )
        outcomes = [next(places) if isinstance(one, SlotId) else one for one in outcomes]
        self._scheduled[store.topic] += sum(slot.state == SlotState.PENDING for slot in taken[: len(offsets)])
        self._driver.wake()
        for tell in self._on_hold:
            tell(caller, store.topic, messages, outcomes)
        return outcomes, store.safe(Operation.HOLD)

    def _write_slots(self, store: Store, slots: Sequence[Slot]) -> tuple[list[int], GoQueueError | None]:
        """Write slots in as many batches as they need. What a cut, or a failure, leaves of them is their beginning."""
        parts: list[list[Slot]] = []
        size = 0
        for slot in slots:
            needs = size_of(slot)
            if not parts or size + needs > BATCH_BYTES_MAX or len(parts[-1]) >= BATCH_RECORDS_MAX:
                parts.append([])
                size = 0
            parts[-1].append(slot)
            size += needs
        offsets: list[int] = []
        for part in parts:
            first = store.next_slot
            pairs: list[Pair] = [(SlotKey(first + number), slot) for number, slot in enumerate(part)]
            try:
                store.write(pairs)
            except GoQueueError as failure:
                return offsets, failure
            store.pending += sum(slot.state == SlotState.PENDING for slot in part)
            offsets += range(first, first + len(part))
        return offsets, None

    def released(self, store: Store, count: int) -> None:
        """Staged messages are pending from now on, and may be due."""
        store.pending += count
        self._scheduled[store.topic] += count
        self._driver.wake()

    # --- looking ------------------------------------------------------------------------

    async def list(
        self, topic: str, *, limit: int, skip: int = 0, due_before_ms: int = DUE_MS_MAX + 1
    ) -> tuple[Delayed, ...]:
        """A topic's delayed messages by time, those that expired included."""
        self._topics.get(topic)
        found: list[list[tuple[int, Store, Row]]] = []
        for store in await self.stores.of_topic(topic):
            rows = await store.rows(due_before_ms=due_before_ms, limit=limit + skip)
            found.append([(row.due_ms, store, row) for row in rows])
        by_time = merge(*found, key=lambda one: (one[0], one[1].partition, one[2].slot))
        return tuple(_shown(store, row) for _, store, row in islice(by_time, skip, skip + limit))

    async def get(self, topic: str, at: SlotId) -> DelayedWhole:
        """One delayed message, whole."""
        store = await self._store_at(topic, at)
        row = self._row(store, at)
        slot = (await store.read([row])).get(row.slot)
        if slot is None:
            raise DelayedMessageNotFound(topic, at.partition, at.offset)
        return DelayedWhole(_shown(store, row), slot)

    # --- changing -----------------------------------------------------------------------

    async def cancel(self, topic: str, at: SlotId) -> None:
        """Take a message away: from then on it is never delivered."""
        store = await self._store_at(topic, at)
        row = self._changeable(store, at)
        end = store.write([(SlotKey(row.slot), None)])
        _uncount(store, row)
        self._cancelled[topic] += 1
        if self._observer is not None:
            self._observer.cancelled(store.place, at.offset)
        await _durable(store, end)

    async def reschedule(self, topic: str, at: SlotId, due_ms: int) -> Delayed:
        """Deliver a message at another time instead; one that expired gets another try."""
        store = await self._store_at(topic, at)
        slot = (await self.get(topic, at)).slot
        # Looked at again: it may have been fired or cancelled while it was read.
        row = self._changeable(store, at)
        changed = msgspec.structs.replace(slot, due_ms=due_ms, state=SlotState.PENDING.value, reason="", origin=None)
        end = store.write([(SlotKey(row.slot), changed)])
        _uncount(store, row)
        store.pending += 1
        self._driver.wake()
        if self._observer is not None:
            self._observer.rescheduled(store.place, at.offset, due_ms)
        await _durable(store, end)
        return Delayed(at, topic, due_ms, SlotState.PENDING)

    async def deliver_now(self, topic: str, at: SlotId) -> Delayed:
        """Do not wait any longer."""
        return await self.reschedule(topic, at, self._clock.now_ms())

    # --- numbers ------------------------------------------------------------------------

    def stats(self) -> DelayStats:
        """What is there, and what happened since the start."""
        done = self._driver.deliveries.stats
        stats = DelayStats(
            scheduled=dict(self._scheduled),
            cancelled=dict(self._cancelled),
            delivered=dict(done.delivered),
            expired_since=dict(done.expired),
            late_ms_max=done.late_ms_max,
            late_ms_total=done.late_ms_total,
            late_total=done.late_total,
            wheels=[one.near.wheel.stats() for one in self._files],
        )
        for store in self.stores.loaded():
            stats.pending[store.topic] = stats.pending.get(store.topic, 0) + store.pending
            stats.expired[store.topic] = stats.expired.get(store.topic, 0) + store.expired
            stats.schedules += len(store.schedules)
        return stats

    def problem(self) -> str | None:
        """What keeps delayed messages from being held or delivered, for `/readyz`."""
        if failed := self.stores.failed():
            return f"the delayed messages of {failed[0]} could not be loaded, and will be tried again"
        return next((one.failure for one in self._files if one.failure is not None), None)

    def wake(self) -> None:
        """Something was written that may be due soon."""
        self._driver.wake()

    async def _store_at(self, topic: str, at: SlotId) -> Store:
        found, place = self._topics.get(topic), TopicPartition(topic, at.partition)
        if at.partition >= found.partition_count or not self.stores.has(place):
            raise DelayedMessageNotFound(topic, at.partition, at.offset)
        return await self.stores.get(place)

    def _row(self, store: Store, at: SlotId) -> Row:
        row = store.find(at.offset) if at.offset <= store.next_slot else None
        if row is None:
            raise DelayedMessageNotFound(store.topic, at.partition, at.offset)
        return row

    def _changeable(self, store: Store, at: SlotId) -> Row:
        row = self._row(store, at)
        if store.is_firing(row.slot):
            raise DelayedMessageFiring(store.topic, at.partition, at.offset)
        return row


def _slot(store: Store, held: Held, now_ms: int) -> Slot:
    key, value, headers, _ = held.record
    state = SlotState.STAGED if held.is_staged else SlotState.PENDING
    origin: Origin | None = held.origin
    return Slot(
        held.due_ms,
        store.topic,
        store.topic_id,
        store.partition,
        key,
        value,
        headers,
        now_ms,
        state.value,
        origin=origin,
    )


def _uncount(store: Store, row: Row) -> None:
    if row.state == SlotState.PENDING:
        store.pending -= 1
    else:
        store.expired -= 1


async def _durable(store: Store, end: int) -> None:
    unsafe = store.safe(Operation.HOLD, end)
    if unsafe is not None:
        await unsafe


def _shown(store: Store, row: Row) -> Delayed:
    return Delayed(SlotId(store.partition, row.slot), store.topic, row.due_ms, SlotState(row.state))


def _named(messages: Sequence[Held], count: int) -> int:
    """A partition that one of the messages names; the first of the topic if none does."""
    return next((one.partition for one in messages if one.partition is not None and one.partition < count), 0)

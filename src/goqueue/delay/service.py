"""DelayService: what front-ends call to hold messages back, look at them, change them and take them away.

Everything of one topic lies in one shard. A reply is given only once what it says is durable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence

import mmh3
import msgspec

from goqueue.broker.topics import TopicService
from goqueue.caller import ANONYMOUS, Caller
from goqueue.clock import Clock
from goqueue.config import DelayConfig
from goqueue.delay.index import Row
from goqueue.delay.observer import DelayObserver
from goqueue.delay.records import Slot, SlotKey, SlotState
from goqueue.delay.shards import DELAYED, DelayShard, DelayShards
from goqueue.delay.store import BATCH_BYTES_MAX, BATCH_RECORDS_MAX, Pair, Store
from goqueue.delay.targets import check_holds, size_of
from goqueue.delay.values import DUE_MS_MAX, Delayed, DelayedWhole, DelayStats, Held, SlotId
from goqueue.errors import (
    DelayedMessageFiring,
    DelayedMessageNotFound,
    GoQueueError,
    InternalTopic,
    PartitionNotFound,
    TopicNotFound,
)
from goqueue.records import NewRecord

# Told of messages that were handed in to be delayed, and of what became of each; it must not raise.
OnHold = Callable[[Caller, str, Sequence[Held], Sequence[SlotId | GoQueueError]], None]


# Which records a topic would refuse, by position.
CheckValues = Callable[[str, Sequence[NewRecord]], Awaitable[Mapping[int, GoQueueError]]]


class DelayService:
    """All delayed messages of the node."""

    def __init__(
        self,
        topics: TopicService,
        *,
        partition_count: Callable[[], int],
        shards: DelayShards,
        config: DelayConfig,
        clock: Clock,
        on_hold: Sequence[OnHold] = (),
        observer: DelayObserver | None = None,
    ) -> None:
        self._on_hold = tuple(on_hold)
        self._observer = observer
        self._topics = topics
        self._partition_count = partition_count
        self._shards = shards
        self._config = config
        self._clock = clock
        self._scheduled: Counter[str] = Counter()
        self._cancelled: Counter[str] = Counter()
        # Set by the node.
        self.check_values: CheckValues | None = None

    def start(self, partitions: Sequence[int]) -> None:
        """Load, in the background, the shards that have a log: what is due must fire without being asked for."""
        for partition in partitions:
            self._shards.load(partition)

    async def close(self) -> None:
        """Stop firing and leave the indexes complete. A second close does no harm."""
        await self._shards.close()

    # --- holding back -------------------------------------------------------------------

    async def hold(
        self, topic: str, messages: Sequence[Held], *, caller: Caller = ANONYMOUS
    ) -> list[SlotId | GoQueueError]:
        """Hold messages back until they are due; each gets its slot, or the reason why not."""
        refused = await self.refusals(topic, [held.record for held in messages])
        shard = await self.shard_of(topic)
        await shard.store.room()
        taken = [held for at, held in enumerate(messages) if at not in refused]
        outcomes, unsafe = self.hold_now(shard, topic, taken, caller=caller)
        if unsafe is not None:
            await unsafe
        slots = iter(outcomes)
        return [refused[at] if at in refused else next(slots) for at in range(len(messages))]

    async def refusals(self, topic: str, records: Sequence[NewRecord]) -> Mapping[int, GoQueueError]:
        """Which records the topic would not take when they are due: their sender is there to hear it now."""
        return {} if self.check_values is None else await self.check_values(topic, records)

    def hold_now(
        self,
        shard: DelayShard,
        topic: str,
        messages: Sequence[Held],
        *,
        all_or_none: bool = False,
        now_ms: int | None = None,
        caller: Caller = ANONYMOUS,
    ) -> tuple[list[SlotId | GoQueueError], Awaitable[None] | None]:
        """The same without waiting: nothing may be promised before the second result is awaited.

        With `all_or_none` the first message that is refused raises, and none is held. `now_ms` is the time by which
        it was decided what is for later: a repeat is decided by the same.
        """
        found = self._topics.get(topic)
        if found.internal:
            raise InternalTopic(topic)
        config = self._topics.config(topic)
        if now_ms is None:
            now_ms = self._clock.now_ms()
        outcomes: list[SlotId | GoQueueError] = []
        taken: list[Slot] = []
        for held in messages:
            key, value, headers, _ = held.record
            partition = -1 if held.partition is None else held.partition
            slot = Slot(
                held.due_ms,
                topic,
                found.topic_id.bytes,
                partition,
                key,
                value,
                headers,
                now_ms,
                SlotState.STAGED.value if held.is_staged else SlotState.PENDING.value,
                origin=held.origin,
            )
            try:
                if partition >= found.partition_count:
                    raise PartitionNotFound(topic, partition)
                check_holds(config, slot)
            except GoQueueError as error:
                if all_or_none:
                    raise
                outcomes.append(error)
            else:
                # Its offset is filled in below, once it is known.
                outcomes.append(SlotId(shard.store.partition, -1))
                taken.append(slot)
        offsets = iter(self._write_slots(shard.store, taken))
        outcomes = [SlotId(one.partition, next(offsets)) if isinstance(one, SlotId) else one for one in outcomes]
        self._scheduled[topic] += sum(slot.state == SlotState.PENDING for slot in taken)
        shard.driver.wake()
        for tell in self._on_hold:
            tell(caller, topic, messages, outcomes)
        return outcomes, shard.store.durable(shard.store.next_slot)

    def _write_slots(self, store: Store, slots: Sequence[Slot]) -> list[int]:
        offsets: list[int] = []
        part: list[Slot] = []
        size = 0
        for slot in slots:
            needs = size_of(slot)
            if part and (size + needs > BATCH_BYTES_MAX or len(part) >= BATCH_RECORDS_MAX):
                offsets += self._write_part(store, part)
                part, size = [], 0
            part.append(slot)
            size += needs
        if part:
            offsets += self._write_part(store, part)
        return offsets

    def _write_part(self, store: Store, slots: Sequence[Slot]) -> range:
        first = store.next_slot
        pairs: list[Pair] = [(SlotKey(first + number), slot) for number, slot in enumerate(slots)]
        store.write(pairs)
        for slot in slots:
            store.pending[slot.topic] += slot.state == SlotState.PENDING
        return range(first, first + len(slots))

    def released(self, shard: DelayShard, topics: Sequence[str]) -> None:
        """Staged messages of these topics are pending from now on, and may be due."""
        shard.store.pending.update(topics)
        self._scheduled.update(topics)
        shard.driver.wake()

    # --- looking ------------------------------------------------------------------------

    async def list(
        self, topic: str, *, limit: int, skip: int = 0, due_before_ms: int = DUE_MS_MAX + 1
    ) -> tuple[Delayed, ...]:
        """A topic's delayed messages by time, those that expired included."""
        if self._topics.find(DELAYED) is None:
            self._topics.get(topic)
            return ()
        shard = await self.shard_of(topic)
        rows = await shard.store.rows(topic, due_before_ms=due_before_ms, limit=limit, skip=skip)
        if not rows:
            # What is held for a topic that is gone can still be seen; else the name is a mistake.
            self._topics.get(topic)
        return tuple(_shown(shard.store, row) for row in rows)

    async def get(self, topic: str, at: SlotId) -> DelayedWhole:
        """One delayed message, whole."""
        shard = await self._shard_at(topic, at)
        row = self._row(shard, topic, at)
        slot = (await shard.store.read([row])).get(row.slot)
        if slot is None:
            raise DelayedMessageNotFound(topic, at.partition, at.offset)
        return DelayedWhole(_shown(shard.store, row), slot)

    # --- changing -----------------------------------------------------------------------

    async def cancel(self, topic: str, at: SlotId) -> None:
        """Take a message away: from then on it is never delivered."""
        shard = await self._shard_at(topic, at)
        row = self._changeable(shard, topic, at)
        store = shard.store
        end = store.write([(SlotKey(row.slot), None)])
        self._uncount(store, row)
        self._cancelled[topic] += 1
        if self._observer is not None:
            self._observer.cancelled(at, topic)
        await self._durable(store, end)

    async def reschedule(self, topic: str, at: SlotId, due_ms: int) -> Delayed:
        """Deliver a message at another time instead; one that expired gets another try."""
        shard = await self._shard_at(topic, at)
        store = shard.store
        slot = (await self.get(topic, at)).slot
        # Looked at again: it may have been fired or cancelled while it was read.
        row = self._changeable(shard, topic, at)
        found = self._topics.get(topic)
        changed = msgspec.structs.replace(
            slot,
            due_ms=due_ms,
            topic_id=found.topic_id.bytes,
            state=SlotState.PENDING.value,
            reason="",
            origin=None,
        )
        end = store.write([(SlotKey(row.slot), changed)])
        self._uncount(store, row)
        store.pending[topic] += 1
        shard.driver.wake()
        if self._observer is not None:
            self._observer.rescheduled(at, topic, due_ms)
        await self._durable(store, end)
        return Delayed(at, topic, due_ms, SlotState.PENDING)

    async def deliver_now(self, topic: str, at: SlotId) -> Delayed:
        """Do not wait any longer."""
        return await self.reschedule(topic, at, self._clock.now_ms())

    # --- numbers ------------------------------------------------------------------------

    def stats(self) -> DelayStats:
        """What is there, and what happened since the start."""
        stats = DelayStats(scheduled=dict(self._scheduled), cancelled=dict(self._cancelled))
        for store, driver in self.loaded():
            done = driver.deliveries.stats
            for into, counts in (
                (stats.delivered, done.delivered),
                (stats.expired_since, done.expired),
                (stats.pending, store.pending),
                (stats.expired, store.expired),
            ):
                for topic, count in counts.items():
                    into[topic] = into.get(topic, 0) + count
            stats.late_ms_max = max(stats.late_ms_max, done.late_ms_max)
            stats.late_ms_total += done.late_ms_total
            stats.late_total += done.late_total
            stats.wheels.append(store.near.wheel.stats())
            stats.schedules += len(store.schedules)
        return stats

    def problem(self) -> str | None:
        """What keeps delayed messages from being held or delivered, for `/readyz`."""
        if failed := self._shards.failed():
            return f"shard {failed[0]} of {DELAYED} could not be loaded, and will be tried again"
        failures = [shard.store.failure for shard in self.loaded()]
        return next((one for one in failures if one is not None), None)

    # --- shards -------------------------------------------------------------------------

    def loaded(self) -> Sequence[DelayShard]:
        """The shards at work."""
        return self._shards.loaded()

    def has_shards(self) -> bool:
        """Whether anything was ever held back on this node."""
        return self._topics.find(DELAYED) is not None

    async def all_shards(self) -> Sequence[DelayShard]:
        """Every shard that has a log, loaded."""
        return await self._shards.all()

    async def shard_of(self, topic: str) -> DelayShard:
        """The shard of a topic: the same on every node and in every version."""
        return await self.shard(self.partition_for(topic))

    def partition_for(self, topic: str) -> int:
        """The partition of `__delayed` that holds a topic's messages."""
        return int(mmh3.hash(topic.encode(), signed=False)) % self._partition_count()

    def shard_at_work(self, topic: str) -> DelayShard | None:
        """The shard of a topic; None while it is being loaded, which begins with the first call."""
        return self._shards.at_work(self.partition_for(topic))

    async def shard(self, partition: int) -> DelayShard:
        """One shard, loaded; `CoordinatorUnavailable` while that does not succeed."""
        return await self._shards.get(partition)

    async def _shard_at(self, topic: str, at: SlotId) -> DelayShard:
        if self._topics.find(DELAYED) is None or at.partition != self.partition_for(topic):
            if self._topics.find(topic) is None:
                raise TopicNotFound(topic)
            raise DelayedMessageNotFound(topic, at.partition, at.offset)
        return await self.shard(at.partition)

    def _row(self, shard: DelayShard, topic: str, at: SlotId) -> Row:
        row = shard.store.find(at.offset)
        if row is None or row.topic != topic:
            raise DelayedMessageNotFound(topic, at.partition, at.offset)
        return row

    def _changeable(self, shard: DelayShard, topic: str, at: SlotId) -> Row:
        row = self._row(shard, topic, at)
        if row.slot in shard.store.near.firing:
            raise DelayedMessageFiring(topic, at.partition, at.offset)
        return row

    def _uncount(self, store: Store, row: Row) -> None:
        (store.pending if row.state == SlotState.PENDING else store.expired)[row.topic] -= 1

    async def _durable(self, store: Store, end: int) -> None:
        unsafe = store.durable(end)
        if unsafe is not None:
            await unsafe


def _shown(store: Store, row: Row) -> Delayed:
    return Delayed(SlotId(store.partition, row.slot), row.topic, row.due_ms, SlotState(row.state))

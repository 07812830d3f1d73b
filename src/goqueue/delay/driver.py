"""The driver of one shard: fires slots shortly before they are due, so that each enters its topic exactly once.

Shortly before a slot is due its fire is stored: which partition, which producer id, which
sequence. Once that is durable, and not before the slot is due, the batch is appended with them.
Once the batch is durable, the slot is settled. After a crash anywhere between, what was fired
and not settled is sent again as it was, and the partition's producer state knows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, NamedTuple

from goqueue.broker.partitions import Partitions
from goqueue.broker.producer_ids import ProducerIds
from goqueue.broker.publish import PublishService
from goqueue.clock import Clock
from goqueue.config import DelayConfig
from goqueue.coordinator.timers import Alarm
from goqueue.delay.deliveries import Deliveries
from goqueue.delay.index import Row
from goqueue.delay.indexing import RETRY_MS, OnTrouble
from goqueue.delay.observer import DelayObserver
from goqueue.delay.records import Fire, Slot, SlotKey
from goqueue.delay.runs import following_pairs, is_skipped
from goqueue.delay.store import Pair, Store
from goqueue.delay.targets import Prepared, Target, TargetKey, check_takes, fire_pairs, parked, slices
from goqueue.delay.wheel import TICK_MS
from goqueue.errors import GoQueueError, NotLeader, PartitionNotFound, ShuttingDown, TopicNotFound
from goqueue.metadata.topic_config import TopicConfig
from goqueue.partitioner import RoundRobin, partition_for_key

# Slots that are read together: what is due together lies in many batches, and each is opened once for all of them.
_READ_MAX = 20_000
# Slots that are fired at one stroke, which nobody else on the loop gets in between.
_FIRE_MAX = 2_000
# Fired slots that may wait for their topics; beyond it no more are fired.
_FIRING_MAX = 40_000
_FAR_MS = 2**62


class _Goal(NamedTuple):
    """A topic as it is during one round, looked up once for all of its slots."""

    topic_id: bytes
    config: TopicConfig
    keys: list[TargetKey]
    turns: RoundRobin


class _Round(NamedTuple):
    """What one round found out about its slots, before anything is stored."""

    due: dict[tuple[TargetKey, int], list[tuple[int, Slot]]]
    goals: dict[str, _Goal]
    refused: list[tuple[int, Slot, str]]
    # Slots that are settled without a delivery: their records are gone, or their run is skipped.
    dropped: list[int]
    runs: list[Slot]


class Driver:
    """Runs one store's slots into their topics."""

    def __init__(
        self,
        store: Store,
        *,
        publish: PublishService,
        partitions: Partitions,
        producer_ids: ProducerIds,
        config: DelayConfig,
        clock: Clock,
        on_trouble: OnTrouble,
        observer: DelayObserver | None = None,
    ) -> None:
        self._store = store
        self._partitions = partitions
        self._producer_ids = producer_ids
        self._config = config
        self._clock = clock
        self._on_trouble = on_trouble
        self._producer_id = -1
        self._alarm = Alarm(clock, self.wake)
        self._wake = asyncio.Event()
        self._load_wanted = asyncio.Event()
        self._retry_at_ms = 0
        self._tasks: set[asyncio.Task[None]] = set()
        # Beside the rounds: one that waits for the disk must not make others late.
        self.deliveries = Deliveries(
            store,
            publish=publish,
            partitions=partitions,
            producer_ids=producer_ids,
            clock=clock,
            on_trouble=on_trouble,
            spawn=self._spawn,
            observer=observer,
        )

    def start(self) -> None:
        """Begin with what the last life left on its way."""
        self._spawn(self._run())
        self._spawn(self._load_ahead())

    def wake(self) -> None:
        """Something may be due earlier than it seemed."""
        self._wake.set()

    def stop(self) -> None:
        """Stop where it is, at once: what is fired and not settled is finished by the next life."""
        self._alarm.cancel()
        self.deliveries.close()
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """Stop, and wait until nothing of it is left."""
        tasks = list(self._tasks)
        self.stop()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- the loop -----------------------------------------------------------------------

    async def _run(self) -> None:
        is_resumed = False
        while True:
            self._wake.clear()
            try:
                if not is_resumed and self._clock.now_ms() >= self._retry_at_ms:
                    await self._resume()
                    is_resumed = True
                if is_resumed:
                    await self._round()
            except (ShuttingDown, NotLeader):
                # Whoever leads next goes on with what is stored.
                return
            except (GoQueueError, OSError) as error:
                self._on_trouble("delayed messages could not be fired", error)
                self._retry_at_ms = self._clock.now_ms() + RETRY_MS
            self._set_alarm()
            await self._wake.wait()

    async def _round(self) -> None:
        store = self._store
        if self._clock.now_ms() >= self._retry_at_ms:
            store.near.collect(self._clock.now_ms() + self._config.fire_lead_ms)
            while store.near.ready and len(store.near.firing) < _FIRING_MAX:
                await self._fire_ready()
        if store.near.load_at_ms() <= self._clock.now_ms():
            self._load_wanted.set()

    async def _load_ahead(self) -> None:
        """Beside the rounds, so that a long look at the disk makes nobody late."""
        while True:
            await self._load_wanted.wait()
            self._load_wanted.clear()
            try:
                await self._store.load_more()
            except ShuttingDown:
                return
            except (GoQueueError, OSError) as error:
                self._on_trouble("delayed messages could not be looked up", error)
                await asyncio.sleep(RETRY_MS / 1000)
            self.wake()

    def _set_alarm(self) -> None:
        store = self._store
        next_ms = store.near.wheel.next_ms()
        fire_ms = _FAR_MS if next_ms is None else next_ms - self._config.fire_lead_ms
        if store.near.ready and len(store.near.firing) < _FIRING_MAX:
            fire_ms = 0
        load_ms = _FAR_MS if self._load_wanted.is_set() else store.near.load_at_ms()
        at_ms = min(max(fire_ms, self._retry_at_ms), load_ms)
        if store.left_over:
            at_ms = self._retry_at_ms
        self._alarm.set(at_ms if at_ms < _FAR_MS else None)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_trouble("the delivery of delayed messages ended", error)
        # There may be room for more now.
        self._wake.set()

    # --- firing -------------------------------------------------------------------------

    async def _resume(self) -> None:
        """Take up the batches that were on their way, in the order of their sequences."""
        store = self._store
        fires = sorted(store.left_over, key=lambda one: (one.producer_id, one.sequence))
        rows = [row for fire in fires for slot in fire.slots if (row := store.near.firing.get(slot)) is not None]
        whole = await store.read(rows)
        batches = []
        for fire in fires:
            slots = [whole[slot] for slot in fire.slots if slot in whole]
            if len(slots) == len(fire.slots):
                batches.append(Prepared(fire, slots, resent=True))
            else:
                # Some of its slots are settled, which none is before the whole batch is safe in its topic.
                self.deliveries.settled(fire)
        self.deliveries.add(batches)
        store.left_over = []

    async def _fire_ready(self) -> None:
        """Fire the first of those that are due, in their order."""
        store = self._store
        rows: Sequence[Row] = store.near.take_ready(_READ_MAX)
        try:
            count, whole = await store.read_some(rows)
            store.near.put_back(rows[count:])
            rows = rows[:count]
            if self._producer_id < 0:
                self._producer_id = await self._producer_ids.allocate()
            while rows:
                batches = self._store_fires(self._sort_out(rows[:_FIRE_MAX], whole))
                # Stored, so that a failure from here on is no reason to fire them again.
                rows = rows[_FIRE_MAX:]
                unsafe = store.durable(store.next_slot)
                if unsafe is not None:
                    await unsafe
                self.deliveries.add(batches)
        except BaseException:
            store.near.put_back(rows)
            raise

    def _sort_out(self, rows: Sequence[Row], whole: dict[int, Slot]) -> _Round:
        now_ms = self._clock.now_ms()
        found = _Round({}, {}, [], [], [])
        for row in rows:
            slot = whole.get(row.slot)
            if slot is None:
                found.dropped.append(row.slot)
                continue
            if slot.schedule:
                schedule = self._store.schedules.get(slot.schedule)
                if schedule is not None and schedule.next_slot == row.slot:
                    found.runs.append(slot)
                    if is_skipped(schedule, slot, now_ms):
                        found.dropped.append(row.slot)
                        continue
            try:
                key = self._target_of(slot, found)
            except GoQueueError as error:
                found.refused.append((row.slot, slot, str(error)))
                continue
            # What is overdue goes together; the rest by the tick at whose end it is due.
            due_ms = 0 if slot.due_ms <= now_ms else -(-slot.due_ms // TICK_MS) * TICK_MS
            found.due.setdefault((key, due_ms), []).append((row.slot, slot))
        return found

    def _target_of(self, slot: Slot, found: _Round) -> TargetKey:
        """Where a slot goes, or why its topic cannot take it."""
        goal = found.goals.get(slot.topic)
        if goal is None:
            goal = found.goals[slot.topic] = self._goal(slot.topic)
        if goal.topic_id != slot.topic_id:
            raise TopicNotFound(slot.topic)
        check_takes(goal.config, slot)
        count = len(goal.keys)
        if slot.partition >= count:
            raise PartitionNotFound(slot.topic, slot.partition)
        if slot.partition >= 0:
            return goal.keys[slot.partition]
        if slot.key is None:
            return goal.keys[goal.turns.take(count)]
        return goal.keys[partition_for_key(slot.key, count, goal.config.partitioner)]

    def _goal(self, name: str) -> _Goal:
        topic = self._partitions.topic(name)
        topic_id = topic.topic_id.bytes
        keys = [TargetKey(name, topic_id, partition) for partition in range(topic.partition_count)]
        return _Goal(topic_id, self._partitions.config(topic), keys, self._partitions.turns(topic))

    def _store_fires(self, found: _Round) -> list[Prepared]:
        store = self._store
        before: dict[TargetKey, tuple[Target, int]] = {}
        batches: list[Prepared] = []
        for (key, due_ms), slots in sorted(found.due.items(), key=lambda item: item[0][1]):
            target = self.deliveries.target(key)
            if target.producer_id < 0:
                target.producer_id = self._producer_id
            before.setdefault(key, (target, target.next_sequence))
            batches += self._batches(target, due_ms, slots, found.goals[key.topic].config.max_message_bytes)
        pairs = [*self._run_pairs(found), *fire_pairs(batches)]
        pairs += [(SlotKey(slot), None) for slot in found.dropped]
        for slot, _, _ in found.refused:
            # Out of the fire window: the record that follows decides where the slot stands.
            store.near.firing.pop(slot, None)
        pairs += [(SlotKey(slot), parked(whole, reason)) for slot, whole, reason in found.refused]
        try:
            store.write(pairs)
        except BaseException:
            for target, sequence in before.values():
                target.next_sequence = sequence
            raise
        for slot in found.dropped:
            row = store.near.firing.pop(slot, None)
            if row is not None:
                store.pending[row.topic] -= 1
        for slot, whole, reason in found.refused:
            self.deliveries.note_expired(whole.topic, [slot], reason)
        return batches

    def _batches(
        self, target: Target, due_ms: int, slots: Sequence[tuple[int, Slot]], batch_bytes_max: int
    ) -> Iterator[Prepared]:
        for part in slices(slots, batch_bytes_max):
            key = target.key
            fire = Fire(
                tuple(slot for slot, _ in part),
                due_ms,
                key.topic,
                key.topic_id,
                key.partition,
                target.producer_id,
                target.take_sequence(len(part)),
            )
            yield Prepared(fire, [whole for _, whole in part])

    def _run_pairs(self, found: _Round) -> list[Pair]:
        """The runs that follow those of this round; they come first, so that their slots are known."""
        store, now_ms = self._store, self._clock.now_ms()
        pairs: list[Pair] = []
        for run in found.runs:
            schedule = store.schedules[run.schedule]
            following = following_pairs(run.schedule, schedule, run, now_ms, store.next_slot + len(pairs))
            pairs += following
            store.pending[run.topic] += len(following) > 1
        return pairs

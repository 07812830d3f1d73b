"""The driver: fires slots shortly before they are due, so that each enters its partition exactly once.

Shortly before a slot is due its fire is stored in the same delay log: which producer id, which sequence. Once that is
durable, and not before the slot is due, the batch is appended to the partition with them. Once the batch is durable,
the slot is settled. After a crash anywhere between, what was fired and not settled is sent again as it was, and
the partition's producer state knows it. There is one driver for all partitions of the node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, NamedTuple

from goqueue.broker.arrivals.producer_ids import ProducerIds
from goqueue.broker.arrivals.publish import PublishService
from goqueue.broker.replicas.safety import Operation
from goqueue.clock import Clock
from goqueue.config import DelayConfig
from goqueue.coordinator.timers import Alarm
from goqueue.delay.due.index import Row
from goqueue.delay.due.indexing import RETRY_MS, Indexing, OnTrouble
from goqueue.delay.due.wheel import TICK_MS
from goqueue.delay.firing.deliveries import Deliveries
from goqueue.delay.firing.set_aside import DAMAGED_RETRY_MS, SetAside
from goqueue.delay.firing.targets import FiredBatch, Target, check_takes, fire_pairs, parked, slices
from goqueue.delay.holding.records import Fire, Slot, SlotKey
from goqueue.delay.holding.slot_reads import read_some
from goqueue.delay.holding.store import Pair, Store
from goqueue.delay.observer import DelayObserver
from goqueue.delay.recurring.runs import following_pairs, is_skipped
from goqueue.errors import GoQueueError, LogPoisoned, NotLeader, ShuttingDown
from goqueue.ports import Offload

# Slots that are read together: what is due together lies in many batches, and each is opened once for all of them.
_READ_MAX = 20_000
# Slots of one partition that are fired at one stroke, which nobody else on the loop gets in between.
_FIRE_MAX = 2_000
# Fired slots that may wait for their topics; beyond it no more are fired.
_FIRING_MAX = 40_000
_FAR_MS = 2**62


class _Round(NamedTuple):
    """What one round found out about the slots of one partition, before anything is stored."""

    due: dict[int, list[tuple[int, Slot]]]
    refused: list[tuple[int, Slot, str]]
    # Slots that are settled without a delivery: their records are gone, or their run is skipped.
    dropped: list[int]
    runs: list[Slot]


# The batches of one partition that one write has fired, and where its delay log ends behind them.
_Fired = tuple[Store, list[FiredBatch], int]


class Driver:
    """Runs the slots of all partitions into their topics."""

    def __init__(
        self,
        files: Sequence[Indexing],
        *,
        publish: PublishService,
        producer_ids: ProducerIds,
        config: DelayConfig,
        offload: Offload,
        clock: Clock,
        on_trouble: OnTrouble,
        observer: DelayObserver | None = None,
    ) -> None:
        self._files = tuple(files)
        self._producer_ids = producer_ids
        self._config = config
        self._offload = offload
        self._clock = clock
        self._on_trouble = on_trouble
        self._alarm = Alarm(clock, self.wake)
        self._wake = asyncio.Event()
        self._load_wanted = {one: asyncio.Event() for one in self._files}
        self._retry_at_ms = 0
        # Partitions whose last term, or life, left something on its way.
        self._left_over: list[Store] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_started = False
        self._set_aside = SetAside(self._spawn, self.wake, on_trouble)
        # Beside the rounds: one that waits for the disk must not make others late.
        self.deliveries = Deliveries(
            publish=publish,
            producer_ids=producer_ids,
            clock=clock,
            on_trouble=on_trouble,
            spawn=self._spawn,
            observer=observer,
        )

    def add(self, store: Store) -> None:
        """A partition was loaded: begin with what its last term left on its way."""
        if not self._is_started:
            self._is_started = True
            self._spawn(self._run())
            for one in self._files:
                self._spawn(self._load_ahead(one))
        if store.left_over:
            self._left_over.append(store)
        self.wake()

    def drop(self, store: Store) -> None:
        """The term is over: what is fired and not settled is finished by whoever leads next."""
        self.deliveries.drop(store)
        if store in self._left_over:
            self._left_over.remove(store)

    def wake(self) -> None:
        """Something may be due earlier than it seemed."""
        self._wake.set()

    async def close(self) -> None:
        """Stop, and wait until nothing of it is left: what is fired and not settled is finished by the next life."""
        self._alarm.cancel()
        self.deliveries.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- the loop -----------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            try:
                if self._clock.now_ms() >= self._retry_at_ms:
                    await self._resume()
                    for one in self._files:
                        await self._round(one)
            except ShuttingDown:
                return
            except Exception as error:  # noqa: BLE001 - without this loop nothing would ever be delivered again
                self._on_trouble("delayed messages could not be fired", error)
                self._retry_at_ms = self._clock.now_ms() + RETRY_MS
            for one in self._files:
                if one.stores and one.near.load_at_ms() <= self._clock.now_ms():
                    self._load_wanted[one].set()
            self._set_alarm()
            await self._wake.wait()

    async def _round(self, file: Indexing) -> None:
        near = file.near
        near.collect(self._clock.now_ms() + self._config.fire_lead_ms)
        while near.ready and self._has_room():
            await self._fire_ready(file)

    def _has_room(self) -> bool:
        return sum(len(one.near.firing) for one in self._files) < _FIRING_MAX

    async def _load_ahead(self, file: Indexing) -> None:
        """Beside the rounds, so that a long look at the disk makes nobody late."""
        wanted, near = self._load_wanted[file], file.near
        while True:
            await wanted.wait()
            wanted.clear()
            try:
                with near.loading() as stretch:
                    rows, far_ms = await file.ask(
                        lambda index, stretch=stretch: (index.due(*stretch), index.next_due_ms(stretch.until_ms))  # type: ignore[misc]
                    )
                    # A log that cannot be synced for the moment is ahead of the index, which has what it settled still.
                    near.touch(file.newer())
                    near.take_in(stretch, rows, far_ms, file.find, file.stores.__contains__)
            except ShuttingDown:
                return
            except Exception as error:  # noqa: BLE001 - nor anything be found that lies on the disk alone
                self._on_trouble("delayed messages could not be looked up", error)
                await asyncio.sleep(RETRY_MS / 1000)
            self.wake()

    def _set_alarm(self) -> None:
        has_room = self._has_room()
        at_ms = _FAR_MS
        for one in self._files:
            near = one.near
            next_ms = near.wheel.next_ms()
            fire_ms = _FAR_MS if next_ms is None else next_ms - self._config.fire_lead_ms
            if near.ready and has_room:
                fire_ms = 0
            is_asked = self._load_wanted[one].is_set() or not one.stores
            load_ms = _FAR_MS if is_asked else near.load_at_ms()
            at_ms = min(at_ms, max(fire_ms, self._retry_at_ms), load_ms)
        if self._left_over:
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
        while self._left_over:
            store = self._left_over[0]
            fires = sorted(store.left_over, key=lambda one: (one.producer_id, one.sequence))
            rows = [row for fire in fires for slot in fire.slots if (row := store.near.firing.get(store.key(slot)))]
            try:
                whole = await store.read(rows)
            except ShuttingDown:
                raise
            except (GoQueueError, OSError) as error:
                self._on_trouble(f"delayed messages of {store.place} that were on their way cannot be read", error)
                if store in self._left_over:
                    self._left_over.remove(store)
                    self._spawn(self._resume_later(store))
                continue
            if not self._left_over or self._left_over[0] is not store:
                # Dropped while its slots were read.
                continue
            del self._left_over[0]
            store.left_over = []
            batches = []
            for fire in fires:
                slots = [whole[slot] for slot in fire.slots if slot in whole]
                if len(slots) == len(fire.slots):
                    batches.append(FiredBatch(fire, slots, resent=True, is_safe=True))
                else:
                    # Some of its slots are settled, which none is before the whole batch is safe in its topic.
                    self.deliveries.settled(store, fire)
            self.deliveries.add(store, batches)
            self.deliveries.deliver()

    async def _resume_later(self, store: Store) -> None:
        await asyncio.sleep(DAMAGED_RETRY_MS / 1000)
        if not store.is_over:
            self._left_over.append(store)
            self.wake()

    async def _fire_ready(self, file: Indexing) -> None:
        """Fire the first of those that are due, in their order."""
        near = file.near
        by_store: dict[Store, list[Row]] = {}
        for row in near.take_ready(_READ_MAX):
            store = file.stores.get(row.number)
            if store is None:
                near.firing.pop(row.key, None)
            else:
                by_store.setdefault(store, []).append(row)
        in_order = [row for of_store in by_store.values() for row in of_store]
        try:
            count, whole = await read_some(by_store, self._offload)
        except BaseException:
            near.put_back(in_order)
            raise
        near.put_back(in_order[count:])
        fired: list[_Fired] = []
        for store, read in whole.items():
            rows = by_store[store][: max(0, count)]
            count -= len(rows)
            if read.damaged:
                rows = self._set_aside.without(store, rows, read.damaged)
            fired += await self._fire_some(store, rows, read.slots)
        self._spawn(self._announce(fired))

    async def _fire_some(self, store: Store, rows: Sequence[Row], slots: dict[int, Slot]) -> list[_Fired]:
        """Fire slots of one partition. One that cannot take fires for the moment makes nobody else late."""
        fired: list[_Fired] = []
        if store.is_over or not rows:
            return fired
        try:
            target = self.deliveries.target(store)
            if target.producer_id < 0:
                target.producer_id = await self._producer_ids.allocate()
            while rows and not store.is_over:
                batches = self._store_fires(store, self._sort_out(store, rows[:_FIRE_MAX], slots))
                # Stored, so that a failure from here on is no reason to fire them again.
                rows = rows[_FIRE_MAX:]
                self.deliveries.add(store, batches)
                fired.append((store, batches, store.log.end_offset))
        except Exception as error:  # noqa: BLE001 - whatever it is, these would stay on their way for ever
            self._on_trouble(f"delayed messages of {store.place} could not be fired", error)
            self._spawn(self._put_back_later(store, rows))
        return fired

    async def _put_back_later(self, store: Store, rows: Sequence[Row]) -> None:
        await asyncio.sleep(RETRY_MS / 1000)
        store.near.put_back(rows)
        self.wake()

    async def _announce(self, fired: Sequence[_Fired]) -> None:
        """Let batches go once their fires are safe."""
        for one in fired:
            store, batches, end = one
            try:
                unsafe = store.safe(Operation.FIRE, end)
                if unsafe is not None:
                    await unsafe
            except GoQueueError as error:
                self._spawn(self._announce_later(one, error))
            else:
                for batch in batches:
                    batch.is_safe = True
        self.deliveries.deliver()

    async def _announce_later(self, one: _Fired, error: GoQueueError) -> None:
        """A failure that passes is waited out, as long as the term lasts."""
        store = one[0]
        self._on_trouble(f"the fires of delayed messages of {store.place} are not safe yet", error)
        if store.is_over or isinstance(error, NotLeader | LogPoisoned | ShuttingDown):
            return
        await asyncio.sleep(RETRY_MS / 1000)
        await self._announce([one])

    def _sort_out(self, store: Store, rows: Sequence[Row], slots: dict[int, Slot]) -> _Round:
        now_ms, config = self._clock.now_ms(), store.data.config
        found = _Round({}, [], [], [])
        for row in rows:
            number = row.slot
            slot = slots.get(number)
            if slot is None:
                found.dropped.append(number)
                continue
            if slot.schedule:
                schedule = store.schedules.get(slot.schedule)
                if schedule is not None and schedule.next_slot == number:
                    found.runs.append(slot)
                    if is_skipped(schedule, slot, now_ms):
                        found.dropped.append(number)
                        continue
            try:
                check_takes(config, slot)
            except GoQueueError as error:
                found.refused.append((number, slot, str(error)))
                continue
            # What is overdue goes together; the rest by the tick at whose end it is due.
            due_ms = 0 if slot.due_ms <= now_ms else -(-slot.due_ms // TICK_MS) * TICK_MS
            found.due.setdefault(due_ms, []).append((number, slot))
        return found

    def _store_fires(self, store: Store, found: _Round) -> list[FiredBatch]:
        target = self.deliveries.target(store)
        former_sequence = target.next_sequence
        batches = [one for due_ms, slots in sorted(found.due.items()) for one in self._batches(target, due_ms, slots)]
        pairs = [*self._run_pairs(store, found), *fire_pairs(batches)]
        pairs += [(SlotKey(slot), None) for slot in found.dropped]
        for slot, _, _ in found.refused:
            # Out of the fire window: the record that follows decides where the slot stands.
            store.settle(slot)
        pairs += [(SlotKey(slot), parked(whole, reason)) for slot, whole, reason in found.refused]
        try:
            store.write(pairs)
        except BaseException:
            target.next_sequence = former_sequence
            raise
        store.pending -= sum(store.settle(slot) for slot in found.dropped)
        for slot, _, reason in found.refused:
            self.deliveries.note_expired(store, [slot], reason)
        return batches

    def _batches(self, target: Target, due_ms: int, slots: Sequence[tuple[int, Slot]]) -> Iterator[FiredBatch]:
        data = target.store.data
        for part in slices(slots, data.config.max_message_bytes):
            fire = Fire(
                tuple(slot for slot, _ in part),
                due_ms,
                data.topic_name,
                data.topic_id.bytes,
                data.id,
                target.producer_id,
                target.take_sequence(len(part)),
            )
            yield FiredBatch(fire, [whole for _, whole in part])

    def _run_pairs(self, store: Store, found: _Round) -> list[Pair]:
        """The runs that follow those of this round; they come first, so that their slots are known."""
        now_ms = self._clock.now_ms()
        pairs: list[Pair] = []
        for run in found.runs:
            schedule = store.schedules[run.schedule]
            following = following_pairs(run.schedule, schedule, run, now_ms, store.next_slot + len(pairs))
            pairs += following
            store.pending += len(following) > 1
        return pairs

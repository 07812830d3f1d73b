"""Deliveries: fired batches on their way into their topics, in order for each partition, then settled.

A failure that may pass stops its partition for a while and nobody else. What a topic refuses for
good, or a topic that is gone, never loses a message: its slots are kept as expired.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from goqueue.broker.arrivals.arrival import Facts
from goqueue.broker.arrivals.batch_lanes import lane_of
from goqueue.broker.arrivals.producer_ids import ProducerIds
from goqueue.broker.arrivals.publish import Pending, PublishService
from goqueue.broker.replicas.safety import Operation
from goqueue.caller import INTERNAL
from goqueue.clock import Clock
from goqueue.codec.batch_encode import encode_batch
from goqueue.coordinator.timers import Alarm
from goqueue.delay.due.indexing import RETRY_MS, OnTrouble
from goqueue.delay.firing.targets import FiredBatch, Target, done_pairs, fire_pairs, parked
from goqueue.delay.holding.records import Fire, FireKey, Slot, SlotKey
from goqueue.delay.holding.store import Pair, Store
from goqueue.delay.observer import DelayObserver
from goqueue.errors import (
    DuplicateSequence,
    GoQueueError,
    InvalidRequest,
    LogPoisoned,
    NotFound,
    NotLeader,
    OutOfOrderSequence,
    ProducerFenced,
    ShuttingDown,
)
from goqueue.records import Acks

_SETTLE_PAIRS_MAX = 5000
LATE_MS = 20

# A batch that is written to its partition; None: an earlier term wrote it.
Delivered = tuple[Store, FiredBatch, Pending | None]

Spawn = Callable[[Coroutine[Any, Any, None]], None]


@dataclass(slots=True)
class DeliveryStats:
    """Counters since the start."""

    delivered: dict[str, int] = field(default_factory=dict)
    expired: dict[str, int] = field(default_factory=dict)
    late_ms_max: int = 0
    late_ms_total: int = 0
    late_total: int = 0

    def note(self, topic: str, slots: Sequence[Slot], now_ms: int) -> None:
        """These slots have entered their topic."""
        self.delivered[topic] = self.delivered.get(topic, 0) + len(slots)
        late = [now_ms - slot.due_ms for slot in slots if slot.due_ms < now_ms]
        if late:
            self.late_ms_total += sum(late)
            self.late_ms_max = max(self.late_ms_max, *late)
            self.late_total += sum(late_ms > LATE_MS for late_ms in late)


class Deliveries:
    """The batches of all partitions that are fired and not settled."""

    def __init__(
        self,
        *,
        publish: PublishService,
        producer_ids: ProducerIds,
        clock: Clock,
        on_trouble: OnTrouble,
        spawn: Spawn,
        observer: DelayObserver | None = None,
    ) -> None:
        self._observer = observer
        self.stats = DeliveryStats()
        self._publish = publish
        self._producer_ids = producer_ids
        self._clock = clock
        self._on_trouble = on_trouble
        self._spawn = spawn
        self._targets: dict[Store, Target] = {}
        # Those that have batches waiting.
        self._queued: dict[Target, None] = {}
        self._alarm = Alarm(clock, self.deliver)
        self._closed = False

    def close(self) -> None:
        """Append nothing more."""
        self._closed = True
        self._alarm.cancel()

    def target(self, store: Store) -> Target:
        """The partition's state in this term."""
        found = self._targets.get(store)
        if found is None:
            found = self._targets[store] = Target(store)
        return found

    def drop(self, store: Store) -> None:
        """The term is over: whoever leads next sends what was fired, as it was."""
        target = self._targets.pop(store, None)
        if target is not None:
            self._queued.pop(target, None)

    def add(self, store: Store, batches: Sequence[FiredBatch]) -> None:
        """Fired: to be appended when they are safe and due, in this order."""
        if not batches or store.is_over:
            return
        target = self.target(store)
        target.queue.extend(batches)
        self._queued[target] = None
        # A repeat must be recognised however long it takes until it comes.
        store.data.log.producers.keep(batches[0].fire.producer_id)

    def settled(self, store: Store, fire: Fire) -> None:
        """A batch of which it is known that its partition has it."""
        self._spawn(self._settle([(store, FiredBatch(fire, []), None)]))

    def deliver(self) -> None:
        """Append everything that is safe and due, and come back for the rest."""
        if self._closed:
            return
        appended: list[Delivered] = []
        for target in list(self._queued):
            while target.queue and self._is_due(target):
                if not self._try(target, target.queue[0], appended):
                    break
            if not target.queue:
                self._queued.pop(target, None)
        if appended:
            self._spawn(self._settle(appended))
        heads = (
            max(one.queue[0].fire.due_ms, one.paused_to_ms)
            for one in self._queued
            if one.queue[0].is_safe and not one.is_renewing
        )
        self._alarm.set(min(heads, default=None))

    def _is_due(self, target: Target) -> bool:
        if target.is_renewing:
            return False
        now_ms = self._clock.now_ms()
        first = target.queue[0]
        return first.is_safe and first.fire.due_ms <= now_ms and target.paused_to_ms <= now_ms

    def _try(self, target: Target, one: FiredBatch, appended: list[Delivered]) -> bool:
        """Append the first batch of a partition; False if the partition must wait."""
        now_ms, store = self._clock.now_ms(), target.store
        try:
            pending = self._append(store, one, now_ms)
        except NotLeader as error:
            # The store is dropped with the term.
            self._report(f"a delayed message could not be written to {store.place}", error)
            target.paused_to_ms = now_ms + RETRY_MS
            return False
        except (OutOfOrderSequence, DuplicateSequence, ProducerFenced) as error:
            # A batch before it was refused, so that its sequence is not the next: none of these is stored.
            self._report(f"the sequence in {store.place} begins anew", error)
            target.is_renewing = True
            self._spawn(self._fire_again(target))
            return False
        except (NotFound, InvalidRequest) as error:
            return self._park(target, one, error)
        except (GoQueueError, OSError) as error:
            self._report(f"a delayed message could not be written to {store.place}", error)
            target.paused_to_ms = now_ms + RETRY_MS
            return False
        target.queue.popleft()
        store.delivered.update(one.fire.slots)
        self.stats.note(store.topic, one.slots, now_ms)
        appended.append((store, one, pending))
        if self._observer is not None:
            first = None if pending is None else pending.appended.base_offset
            self._observer.fired(store.place, one.fire.slots, first, now_ms)
        return True

    def _append(self, store: Store, one: FiredBatch, now_ms: int) -> Pending | None:
        """Write the batch; None if an earlier term did, so long ago that its offsets are forgotten."""
        fire = one.fire
        if store.is_over:
            raise NotLeader(f"the term in {store.place} is over")
        records = [slot.record() for slot in one.slots]
        batch = encode_batch(
            records,
            producer_id=fire.producer_id,
            producer_epoch=0,
            base_sequence=fire.sequence,
            now_ms=now_ms,
        )
        try:
            pending = self._publish.append(
                *store.place, batch, acks=Acks.ALL, facts=Facts(lane_of(records)), caller=INTERNAL
            )
        except DuplicateSequence:
            if one.resent:
                return None
            raise
        if pending.appended.duplicate and not one.resent:
            # Nobody else writes under this producer id, so this would be our own mistake: never lose a message to it.
            raise OutOfOrderSequence(f"sequence {fire.sequence} of producer {fire.producer_id} is taken")
        return pending

    # --- settling -----------------------------------------------------------------------

    async def _settle(self, appended: Sequence[Delivered]) -> None:
        """Once the batches are safe in their partitions, their slots are done with."""
        done: dict[Store, list[Fire]] = {}
        for store, one, pending in appended:
            try:
                if pending is not None and pending.durable is not None:
                    await pending.durable
            except GoQueueError as error:
                # Beside the others, which are not held up by it.
                self._spawn(self._settle_later(store, one.fire, pending, error))
            else:
                done.setdefault(store, []).append(one.fire)
        for store, fires in done.items():
            await self._note_done(store, fires)

    async def _settle_later(self, store: Store, fire: Fire, pending: Pending | None, error: GoQueueError) -> None:
        """Wait until a batch is safe after all. A failure that passes is waited out, as long as the term lasts."""
        end = 0 if pending is None else pending.appended.last_offset + 1
        while True:
            self._report(f"a delayed message in {store.place} is not safe yet", error)
            if store.is_over or isinstance(error, NotLeader | LogPoisoned | ShuttingDown):
                # Nothing more can be promised about it here; the next term, or the next life, sends it again.
                return
            await asyncio.sleep(RETRY_MS / 1000)
            try:
                wait = store.data.writer.reached(end, Acks.ALL)
                if wait is not None:
                    await wait
            except GoQueueError as failure:
                error = failure
            else:
                await self._note_done(store, [fire])
                return

    async def _note_done(self, store: Store, fires: Sequence[Fire]) -> None:
        pairs = [pair for fire in fires for pair in done_pairs(fire)]
        for first in range(0, len(pairs), _SETTLE_PAIRS_MAX):
            part = pairs[first : first + _SETTLE_PAIRS_MAX]
            while True:
                try:
                    store.write(part)
                    break
                except (NotLeader, ShuttingDown):
                    # The next term sends them again, and the partition recognises them.
                    return
                except (GoQueueError, OSError) as error:
                    self._report("delivered messages could not be settled", error)
                    await asyncio.sleep(RETRY_MS / 1000)
        # Not before it is written: whoever loads what is due meanwhile would take them for slots that wait.
        for fire in fires:
            store.pending -= sum(store.settle(slot) for slot in fire.slots)

    def _park(self, target: Target, one: FiredBatch, error: GoQueueError) -> bool:
        """Keep the slots of a batch that its topic does not take."""
        store = target.store
        pairs: list[Pair] = [(FireKey(one.fire.slots[0]), None)]
        pairs += [
            (SlotKey(slot), parked(whole, str(error))) for slot, whole in zip(one.fire.slots, one.slots, strict=True)
        ]
        try:
            store.write(pairs)
        except (GoQueueError, OSError) as trouble:
            self._report("a message that expired could not be kept apart", trouble)
            target.paused_to_ms = self._clock.now_ms() + RETRY_MS
            return False
        target.queue.popleft()
        for slot in one.fire.slots:
            store.settle(slot)
        self.note_expired(store, one.fire.slots, str(error))
        return True

    def note_expired(self, store: Store, slots: Sequence[int], reason: str) -> None:
        """Slots were parked."""
        count = len(slots)
        if self._observer is not None:
            self._observer.expired(store.place, slots, reason)
        store.pending -= count
        store.expired += count
        self.stats.expired[store.topic] = self.stats.expired.get(store.topic, 0) + count

    async def _fire_again(self, target: Target) -> None:
        """Store new fires for all that waits, under a producer of which the partition knows nothing.

        Only one of these runs for a target, however long the disk takes: two would deliver everything twice. It is
        repeated until it succeeds or the term ends: once a new fire is written, nobody may go back to the former one.
        """
        while not target.store.is_over and not self._closed:
            try:
                await self._renew(target)
            except (GoQueueError, OSError) as error:
                self._report("delayed messages could not be fired again", error)
                await asyncio.sleep(RETRY_MS / 1000)
            else:
                target.is_renewing = False
                self.deliver()
                return

    async def _renew(self, target: Target) -> None:
        store, waiting = target.store, list(target.queue)
        producer_id = await self._producer_ids.allocate()
        sequence, renewed = 0, []
        for one in waiting:
            fire = msgspec.structs.replace(one.fire, producer_id=producer_id, sequence=sequence)
            renewed.append(FiredBatch(fire, one.slots))
            sequence += len(one.slots)
        unsafe = store.safe(Operation.FIRE, store.write(fire_pairs(renewed)))
        if unsafe is not None:
            await unsafe
        for one in renewed:
            one.is_safe = True
        # What was fired meanwhile follows, with sequences that the new producer has not reached: it is renewed next.
        later = list(target.queue)[len(waiting) :]
        target.queue.clear()
        target.queue.extend([*renewed, *later])
        target.producer_id, target.next_sequence = producer_id, sequence

    def _report(self, what: str, error: BaseException) -> None:
        self._on_trouble(what, error)

"""Deliveries: fired batches on their way into their topics, in order for each partition, then settled.

A failure that may pass stops its partition for a while and nobody else. What a topic refuses for
good, or a topic that is gone, never loses a message: its slots are kept as expired.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from goqueue.broker.arrival import Facts
from goqueue.broker.batch_lanes import lane_of
from goqueue.broker.partitions import Partitions
from goqueue.broker.producer_ids import ProducerIds
from goqueue.broker.publish import Pending, PublishService
from goqueue.caller import INTERNAL
from goqueue.clock import Clock
from goqueue.codec.batch_encode import encode_batch
from goqueue.coordinator.timers import Alarm
from goqueue.delay.indexing import RETRY_MS, OnTrouble
from goqueue.delay.observer import DelayObserver
from goqueue.delay.records import Fire, FireKey, Slot, SlotKey
from goqueue.delay.store import Pair, Store
from goqueue.delay.targets import Prepared, Target, TargetKey, done_pairs, fire_pairs, parked
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
    TopicNotFound,
)
from goqueue.records import Acks

_SETTLE_PAIRS_MAX = 5000
LATE_MS = 20

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
    """The batches of one shard that are fired and not settled."""

    def __init__(
        self,
        store: Store,
        *,
        publish: PublishService,
        partitions: Partitions,
        producer_ids: ProducerIds,
        clock: Clock,
        on_trouble: OnTrouble,
        spawn: Spawn,
        observer: DelayObserver | None = None,
    ) -> None:
        self._observer = observer
        self.stats = DeliveryStats()
        self._store = store
        self._publish = publish
        self._partitions = partitions
        self._producer_ids = producer_ids
        self._clock = clock
        self._on_trouble = on_trouble
        self._spawn = spawn
        self._targets: dict[TargetKey, Target] = {}
        self._alarm = Alarm(clock, self._deliver)
        self._closed = False

    def close(self) -> None:
        """Append nothing more."""
        self._closed = True
        self._alarm.cancel()

    def target(self, key: TargetKey) -> Target:
        """The partition's state."""
        found = self._targets.get(key)
        if found is None:
            found = self._targets[key] = Target(key)
        return found

    def add(self, batches: Sequence[Prepared]) -> None:
        """Fired and durable: to be appended when due, in this order."""
        for one in batches:
            fire = one.fire
            key = TargetKey(fire.topic, fire.topic_id, fire.partition)
            self.target(key).queue.append(one)
            # Until it is due there is time to open the partition.
            self._publish.opening(fire.topic, fire.partition)
        self._deliver()

    def settled(self, fire: Fire) -> None:
        """A batch of which it is known that its topic has it."""
        self._spawn(self._settle([(Prepared(fire, []), None)]))

    def _deliver(self) -> None:
        """Append everything that is due, and come back for the rest."""
        appended: list[tuple[Prepared, Pending | None]] = []
        for target in self._targets.values():
            while target.queue and self._is_due(target):
                one = target.queue[0]
                if not self._try(target, one, appended):
                    break
        if appended:
            self._spawn(self._settle(appended))
        heads = (max(one.queue[0].fire.due_ms, one.paused_to_ms) for one in self._targets.values() if one.queue)
        self._alarm.set(min(heads, default=None))

    def _is_due(self, target: Target) -> bool:
        now_ms = self._clock.now_ms()
        return target.queue[0].fire.due_ms <= now_ms and target.paused_to_ms <= now_ms

    def _try(self, target: Target, one: Prepared, appended: list[tuple[Prepared, Pending | None]]) -> bool:
        """Append the first batch of a partition; False if the partition must wait."""
        now_ms = self._clock.now_ms()
        opening = self._publish.opening(target.key.topic, target.key.partition)
        if opening is not None:
            # A failure to open it is told by the append.
            target.paused_to_ms = now_ms + RETRY_MS
            opening.then(lambda error: self._opened(target, error))
            return False
        try:
            pending = self._append(one, now_ms)
        except (OutOfOrderSequence, DuplicateSequence, ProducerFenced) as error:
            # A batch before it was refused, so that its sequence is not the next: none of these is stored.
            self._report(f"the sequence in {target.key.topic} begins anew", error)
            target.paused_to_ms = now_ms + RETRY_MS
            self._spawn(self._fire_again(target))
            return False
        except (NotFound, InvalidRequest) as error:
            return self._park(target, one, error)
        except (GoQueueError, OSError) as error:
            self._report(f"a delayed message could not be written to {target.key.topic}", error)
            target.paused_to_ms = now_ms + RETRY_MS
            return False
        target.queue.popleft()
        self.stats.note(one.fire.topic, one.slots, now_ms)
        appended.append((one, pending))
        if self._observer is not None:
            fire = one.fire
            first = None if pending is None else pending.appended.base_offset
            self._observer.fired(self._store.partition, fire.slots, fire.topic, fire.partition, first, now_ms)
        return True

    def _opened(self, target: Target, error: GoQueueError | None) -> None:
        if error is None and not self._closed:
            target.paused_to_ms = 0
            self._alarm.set(self._clock.now_ms())
        elif error is not None:
            self._report(f"a partition of {target.key.topic} could not be opened", error)

    def _append(self, one: Prepared, now_ms: int) -> Pending | None:
        """Write the batch; None if an earlier life did, so long ago that its offsets are forgotten."""
        fire = one.fire
        if self._partitions.topic(fire.topic).topic_id.bytes != fire.topic_id:
            raise TopicNotFound(fire.topic)
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
                fire.topic, fire.partition, batch, acks=Acks.ALL, facts=Facts(lane_of(records)), caller=INTERNAL
            )
        except DuplicateSequence:
            if one.resent:
                return None
            raise
        if pending.appended.duplicate and not one.resent:
            # Nobody else writes under this producer id, so this would be our own mistake: never lose a message to it.
            raise OutOfOrderSequence(f"sequence {fire.sequence} of producer {fire.producer_id} is taken")
        return pending

    async def _settle(self, appended: Sequence[tuple[Prepared, Pending | None]]) -> None:
        """Once the batches are safe in their topics, their slots are done with."""
        done: list[Fire] = []
        for one, pending in appended:
            if pending is None or await self._is_safe(one.fire, pending):
                done.append(one.fire)
        await self._write_all([pair for fire in done for pair in done_pairs(fire)])
        # Not before it is written: whoever loads what is due meanwhile would take them for slots that wait.
        for fire in done:
            for slot in fire.slots:
                if self._store.near.firing.pop(slot, None) is not None:
                    self._store.pending[fire.topic] -= 1

    async def _is_safe(self, fire: Fire, pending: Pending) -> bool:
        """Wait until a batch is safe in its topic. A failure that passes is waited out, as long as the term lasts."""
        wait = pending.durable
        while wait is not None:
            try:
                await wait
                break
            except (NotLeader, LogPoisoned, ShuttingDown) as error:
                # Nothing more can be promised about it here; the next term, or the next life, sends it again.
                self._report(f"a delayed message in {fire.topic} is not safe yet", error)
                return False
            except GoQueueError as error:
                self._report(f"a delayed message in {fire.topic} is not safe yet", error)
                await asyncio.sleep(RETRY_MS / 1000)
            try:
                place = await self._partitions.open_leader(fire.topic, fire.partition)
                wait = place.writer.reached(pending.appended.last_offset + 1, Acks.ALL)
            except GoQueueError as error:
                self._report(f"a delayed message in {fire.topic} is not safe", error)
                return False
        return True

    async def _write_all(self, pairs: Sequence[Pair]) -> None:
        for first in range(0, len(pairs), _SETTLE_PAIRS_MAX):
            part = pairs[first : first + _SETTLE_PAIRS_MAX]
            while True:
                try:
                    self._store.write(part)
                    break
                except NotLeader:
                    # The next leader of the shard sends them again, and their topics recognise them.
                    raise
                except (GoQueueError, OSError) as error:
                    self._report("delivered messages could not be settled", error)
                    await asyncio.sleep(RETRY_MS / 1000)

    def _park(self, target: Target, one: Prepared, error: GoQueueError) -> bool:
        """Keep the slots of a batch that its topic does not take."""
        pairs: list[Pair] = [(FireKey(one.fire.slots[0]), None)]
        pairs += [(SlotKey(slot), parked(whole, str(error))) for slot, whole in self._whole(one)]
        try:
            self._store.write(pairs)
        except (GoQueueError, OSError) as trouble:
            self._report("a message that expired could not be kept apart", trouble)
            target.paused_to_ms = self._clock.now_ms() + RETRY_MS
            return False
        target.queue.popleft()
        for slot in one.fire.slots:
            self._store.near.firing.pop(slot, None)
        self.note_expired(one.fire.topic, one.fire.slots, str(error))
        return True

    def note_expired(self, topic: str, slots: Sequence[int], reason: str) -> None:
        """Slots were parked."""
        count = len(slots)
        if self._observer is not None:
            self._observer.expired(self._store.partition, slots, topic, reason)
        self._store.pending[topic] -= count
        self._store.expired[topic] += count
        self.stats.expired[topic] = self.stats.expired.get(topic, 0) + count

    def _whole(self, one: Prepared) -> Sequence[tuple[int, Slot]]:
        return list(zip(one.fire.slots, one.slots, strict=True))

    async def _fire_again(self, target: Target) -> None:
        """Store new fires for all that waits, under a producer of which the partition knows nothing."""
        waiting = list(target.queue)
        producer_id = await self._producer_ids.allocate()
        sequence, renewed = 0, []
        for one in waiting:
            fire = one.fire
            renewed.append(
                Prepared(
                    Fire(fire.slots, fire.due_ms, fire.topic, fire.topic_id, fire.partition, producer_id, sequence),
                    one.slots,
                )
            )
            sequence += len(one.slots)
        try:
            unsafe = self._store.durable(self._store.write(fire_pairs(renewed)))
            if unsafe is not None:
                await unsafe
        except (GoQueueError, OSError) as error:
            self._report("delayed messages could not be fired again", error)
            return
        # What was fired meanwhile follows, with sequences that the new producer has not reached: it is renewed next.
        later = list(target.queue)[len(waiting) :]
        target.queue.clear()
        target.queue.extend([*renewed, *later])
        target.producer_id, target.next_sequence = producer_id, sequence
        target.paused_to_ms = 0
        self._deliver()

    def _report(self, what: str, error: BaseException) -> None:
        self._on_trouble(what, error)

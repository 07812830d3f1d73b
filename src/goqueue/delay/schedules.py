"""Recurring messages: made, listed and deleted. Their runs are slots, and the driver makes each next one.

A schedule lies in the shard of its topic, so that a run and the run after it are stored together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from goqueue.broker.topics import TopicService
from goqueue.clock import Clock
from goqueue.config import DelayConfig
from goqueue.delay.occurrences import next_runs_ms
from goqueue.delay.records import Missed, Schedule, ScheduleKey, Slot, SlotKey
from goqueue.delay.runs import NO_SLOT, first_pairs
from goqueue.delay.service import DelayService
from goqueue.delay.shards import DELAYED, DelayShard
from goqueue.delay.store import Pair
from goqueue.delay.targets import check_holds
from goqueue.delay.values import SlotId
from goqueue.errors import (
    InternalTopic,
    InvalidRequest,
    PartitionNotFound,
    ScheduleExists,
    ScheduleNotFound,
    TooBusy,
)
from goqueue.records import NewRecord

RUNS_SHOWN = 3


class NewSchedule(NamedTuple):
    """A recurring message that is asked for."""

    name: str
    cron: str
    timezone: str
    topic: str
    record: NewRecord
    partition: int | None = None
    missed: Missed = "once"


class Described(NamedTuple):
    """A recurring message as it stands, and when it runs next."""

    name: str
    schedule: Schedule
    next_runs_ms: Sequence[int]
    next_slot: SlotId | None


class ScheduleService:
    """All recurring messages of the node."""

    def __init__(self, delay: DelayService, topics: TopicService, *, config: DelayConfig, clock: Clock) -> None:
        self._delay = delay
        self._topics = topics
        self._config = config
        self._clock = clock

    async def create(self, new: NewSchedule) -> Described:
        """Begin with the first run after now."""
        topic = await self._topics.ensure(new.topic)
        if topic.internal:
            raise InternalTopic(new.topic)
        now_ms = self._clock.now_ms()
        key, value, headers, _ = new.record
        partition = -1 if new.partition is None else new.partition
        if partition >= topic.partition_count:
            raise PartitionNotFound(new.topic, partition)
        schedule = Schedule(
            new.cron, new.timezone, new.topic, partition, key, value, headers, new.missed, now_ms, NO_SLOT, -1
        )
        run = Slot(now_ms, new.topic, topic.topic_id.bytes, partition, key, value, headers, now_ms)
        check_holds(self._topics.config(new.topic), run)
        for refusal in (await self._delay.refusals(new.topic, [new.record])).values():
            raise refusal
        if not next_runs_ms(new.cron, new.timezone, now_ms, 1):
            raise InvalidRequest(f"{new.cron!r} never comes", field="cron", hint="there is no such date")
        shard = await self._delay.shard_of(new.topic)
        known = [name for one in await self._delay.all_shards() for name in one.store.schedules]
        if new.name in known:
            raise ScheduleExists(new.name)
        if len(known) >= self._config.schedules_max:
            raise TooBusy(f"there are {len(known)} recurring messages, as many as delay.schedules_max allows")
        store = shard.store
        end = store.write(first_pairs(new.name, schedule, topic.topic_id.bytes, now_ms, store.next_slot))
        store.pending[new.topic] += 1
        # As it is now: until it is durable its first run may be fired, or somebody may delete it.
        created = self._describe(shard, new.name)
        shard.driver.wake()
        unsafe = store.durable(end)
        if unsafe is not None:
            await unsafe
        return created

    async def list(self) -> tuple[Described, ...]:
        """All of them, by name. Asking does not make the internal topic."""
        if self._topics.find(DELAYED) is None:
            return ()
        shards = await self._delay.all_shards()
        found = [self._describe(shard, name) for shard in shards for name in shard.store.schedules]
        return tuple(sorted(found))

    async def get(self, name: str) -> Described:
        """One of them."""
        return self._describe(await self._find(name), name)

    async def delete(self, name: str) -> None:
        """No run comes any more, except one that is on its way already."""
        shard = await self._find(name)
        store = shard.store
        slot = store.schedules[name].next_slot
        pairs: list[Pair] = [(ScheduleKey(name), None)]
        row = store.find(slot) if slot != NO_SLOT else None
        if row is not None and slot not in store.near.firing:
            pairs.append((SlotKey(slot), None))
            store.pending[row.topic] -= 1
        unsafe = store.durable(store.write(pairs))
        if unsafe is not None:
            await unsafe

    async def _find(self, name: str) -> DelayShard:
        if self._topics.find(DELAYED) is not None:
            for shard in await self._delay.all_shards():
                if name in shard.store.schedules:
                    return shard
        raise ScheduleNotFound(name)

    def _describe(self, shard: DelayShard, name: str) -> Described:
        schedule = shard.store.schedules[name]
        slot = None if schedule.next_slot == NO_SLOT else SlotId(shard.store.partition, schedule.next_slot)
        runs: list[int] = []
        if slot is not None:
            later = next_runs_ms(schedule.cron, schedule.timezone, schedule.next_due_ms, RUNS_SHOWN - 1)
            runs = [schedule.next_due_ms, *later]
        return Described(name, schedule, runs, slot)

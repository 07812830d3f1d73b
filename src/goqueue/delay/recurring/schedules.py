"""Recurring messages: made, listed and deleted. Their runs are slots, and the driver makes each next one.

The metadata knows by name the home of each: the partition that its runs enter. What it is and how far it has come is
in the home's delay log, so that a run and the run after it are stored together. A name without a schedule in its home
is what a crash left of one that was being made or deleted: it may be used again. Only the leader of the home can say
so, and any other node refuses with `NotLeader`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple
from weakref import WeakValueDictionary

from goqueue.broker.replicas.safety import Operation
from goqueue.broker.topics import TopicService
from goqueue.clock import Clock
from goqueue.config import DelayConfig
from goqueue.delay.firing.targets import check_holds
from goqueue.delay.holding.records import Missed, Schedule, ScheduleKey, Slot, SlotKey
from goqueue.delay.holding.store import Pair, Store
from goqueue.delay.recurring.occurrences import next_runs_ms
from goqueue.delay.recurring.runs import NO_SLOT, first_pairs
from goqueue.delay.recurring.schedule_homes import ScheduleHomes
from goqueue.delay.service import DelayService
from goqueue.delay.values import SlotId
from goqueue.errors import (
    InternalTopic,
    InvalidRequest,
    NotLeader,
    PartitionNotFound,
    ScheduleExists,
    ScheduleNotFound,
    TooBusy,
)
from goqueue.metadata.events import ScheduleHome, Topic
from goqueue.partitioner import partition_for_key
from goqueue.records import NewRecord, TopicPartition

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
    """The recurring messages whose homes this node leads."""

    def __init__(
        self, delay: DelayService, topics: TopicService, homes: ScheduleHomes, *, config: DelayConfig, clock: Clock
    ) -> None:
        self._delay = delay
        self._homes = homes
        self._topics = topics
        self._config = config
        self._clock = clock
        # By name: between a claim and what is written in the home nobody may take the name for unused, and
        # between what a deletion writes and the release of the name nobody may make a schedule.
        self._changes: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

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
        chosen = home_partition(new.name, partition, key, topic, self._topics.config(new.topic).partitioner)
        for refusal in (await self._delay.refusals(TopicPartition(new.topic, chosen), [new.record])).values():
            raise refusal
        if not next_runs_ms(new.cron, new.timezone, now_ms, 1):
            raise InvalidRequest(f"{new.cron!r} never fires", field="cron", hint="there is no such date")
        async with self._changing(new.name):
            place = TopicPartition(new.topic, chosen)
            # Only the leader of a home claims a name for it.
            self._delay.stores.check_led(place)
            await self._claim(new.name, ScheduleHome(topic.topic_id, chosen))
            store = await self._delay.stores.get(place)
            if new.name in store.schedules:
                raise ScheduleExists(new.name)
            end = store.write(first_pairs(new.name, schedule, topic.topic_id.bytes, now_ms, store.next_slot))
            store.pending += 1
            # As it is now: until it is durable its first run may be fired, or somebody may delete it.
            created = _describe(store, new.name)
        self._delay.wake()
        unsafe = store.safe(Operation.HOLD, end)
        if unsafe is not None:
            await unsafe
        return created

    async def list(self) -> tuple[Described, ...]:
        """All of them, by name."""
        found: list[Described] = []
        for name in sorted(self._homes.all()):
            # Whoever leads the home of another one lists it.
            with suppress(NotLeader):
                store = await self._find(name)
                if store is not None:
                    found.append(_describe(store, name))
        return tuple(found)

    async def get(self, name: str) -> Described:
        """One of them."""
        return _describe(await self._home(name), name)

    async def delete(self, name: str) -> None:
        """No run comes any more, except one that is on its way already."""
        async with self._changing(name):
            store = await self._home(name)
            slot = store.schedules[name].next_slot
            pairs: list[Pair] = [(ScheduleKey(name), None)]
            row = store.find(slot) if slot != NO_SLOT else None
            if row is not None and not store.is_firing(slot):
                pairs.append((SlotKey(slot), None))
                store.pending -= 1
            unsafe = store.safe(Operation.HOLD, store.write(pairs))
            if unsafe is not None:
                await unsafe
            # Last: a crash before leaves a name without a schedule.
            await self._homes.release(name)

    async def free(self, name: str) -> None:
        """Let a name go whose home has no such schedule; `ScheduleExists` if it has."""
        async with self._changing(name):
            if await self._find(name) is not None:
                raise ScheduleExists(name)
            await self._homes.release(name)

    def known_home(self, name: str) -> TopicPartition | None:
        """The partition in which the schedule of that name lives, if it is in use."""
        home = self._homes.all().get(name)
        topic = None if home is None else self._topics.find_by_id(home.topic_id)
        return None if home is None or topic is None else TopicPartition(topic.name, home.partition)

    async def future_home(self, new: NewSchedule) -> TopicPartition:
        """The partition in which a new schedule will live."""
        topic = await self._topics.ensure(new.topic)
        partition = -1 if new.partition is None else new.partition
        algorithm = self._topics.config(new.topic).partitioner
        return TopicPartition(new.topic, home_partition(new.name, partition, new.record.key, topic, algorithm))

    def _changing(self, name: str) -> asyncio.Lock:
        return self._changes.setdefault(name, asyncio.Lock())

    async def _claim(self, name: str, home: ScheduleHome) -> None:
        """Have the name, with a home for it; refuses one that is in use."""
        known = dict(self._homes.all())
        if name in known and await self._find(name) is not None:
            raise ScheduleExists(name)
        # Those of deleted topics went with them.
        count = sum(self._topics.find_by_id(one.topic_id) is not None for one in known.values())
        if name not in known and count >= self._config.schedules_max:
            raise TooBusy(f"there are {count} recurring messages, as many as delay.schedules_max allows")
        await self._homes.claim(name, home, known.get(name))

    async def _find(self, name: str) -> Store | None:
        """The store that has the schedule; None if none has. `NotLeader` if another node has to say."""
        place = self.known_home(name)
        if place is None:
            return None
        self._delay.stores.check_led(place)
        if not self._delay.stores.has(place):
            return None
        store = await self._delay.stores.get(place)
        return store if name in store.schedules else None

    async def _home(self, name: str) -> Store:
        store = await self._find(name)
        if store is None:
            raise ScheduleNotFound(name)
        return store


def home_partition(name: str, partition: int, key: bytes | None, topic: Topic, algorithm: str) -> int:
    """Where a recurring message lives: in the `partition` that it names, or in that of its key, or of its name."""
    if partition >= 0:
        return partition
    return partition_for_key(name.encode() if key is None else key, topic.partition_count, algorithm)


def _describe(store: Store, name: str) -> Described:
    schedule = store.schedules[name]
    slot = None if schedule.next_slot == NO_SLOT else SlotId(store.partition, schedule.next_slot)
    runs: list[int] = []
    if slot is not None:
        later = next_runs_ms(schedule.cron, schedule.timezone, schedule.next_due_ms, RUNS_SHOWN - 1)
        runs = [schedule.next_due_ms, *later]
    return Described(name, schedule, runs, slot)

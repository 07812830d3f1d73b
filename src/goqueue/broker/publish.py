"""The way in: closed batches from Kafka clients, and records, which become batches, from everyone else.

Each batch becomes an `Arrival` that passes the steps of its partition. `append` is the hot path: a batch of an
ordinary topic is never opened, and pays for no step that its topic does not use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from goqueue.broker.arrival import NO_FACTS, Arrival, ChecksValues, Facts, HeldAt, Step, Steps
from goqueue.broker.batch_checks import header_of
from goqueue.broker.deduplication import Deduplication
from goqueue.broker.opening import Opening
from goqueue.broker.partitions import Partition, Partitions
from goqueue.broker.record_publishing import RecordPublishing
from goqueue.caller import ANONYMOUS, Caller
from goqueue.clock import Clock
from goqueue.codec.batch import check_batch
from goqueue.codec.batch_decode import RECORDS_BYTES_MAX, decode_records
from goqueue.errors import GoQueueError, wire_of
from goqueue.ports import Buffer
from goqueue.records import Acks, Appended, NewRecord, Record

_NOTHING_HELD: Mapping[int, HeldAt] = MappingProxyType({})


class Pending(NamedTuple):
    """A batch that is written. Await `durable` before saying so; None means that it may be said now."""

    appended: Appended
    durable: Awaitable[None] | None
    # Records that are held back instead, by their position in the batch.
    slots: Mapping[int, HeldAt] = _NOTHING_HELD


class PublishService:
    """Takes batches in, one partition at a time, through an ordered list of steps of which one writes."""

    def __init__(
        self,
        partitions: Partitions,
        *,
        clock: Clock,
        steps: Sequence[Step],
        deduplication: Deduplication,
        values: ChecksValues | None = None,
    ) -> None:
        self._partitions = partitions
        self._clock = clock
        self._steps = tuple(steps)
        # For records that are in no batch yet: they come back to `append` as batches.
        self.publish_records = RecordPublishing(partitions, clock, deduplication, self.append, values).publish
        self._values = values
        # The last batch of each partition that is being checked: those behind it are written behind it.
        self._checking: dict[Partition, asyncio.Future[Pending]] = {}

    def opening(self, topic: str, partition: int) -> Opening | None:
        """What to wait for before `append` only writes, instead of opening files on the event loop; None if it does."""
        return self._partitions.opening(topic, partition, to_write=True)

    def append(
        self,
        topic: str,
        partition: int,
        batch: Buffer,
        *,
        acks: Acks,
        facts: Facts = NO_FACTS,
        caller: Caller = ANONYMOUS,
    ) -> Pending:
        """Check and write one closed batch, and say what is left to wait for."""
        place = self._partitions.leader(topic, partition)
        try:
            arrival = Arrival(place, header_of(batch), batch, acks, caller, self._clock.now_ms(), facts, facts.lane)
            steps = place.steps.get(self) if facts.dues is None else self._needed(place, facts)
            for step in steps or self._remembered(place):
                step(arrival)
        except GoQueueError as error:
            place.traffic.failures[wire_of(error).code] += 1
            raise
        appended = arrival.appended
        if appended is None:
            raise RuntimeError("none of the steps has written the batch")
        durable = place.writer.reached(appended.last_offset + 1, acks) if acks else None
        if acks and arrival.waits is not None:
            durable = _all_of([durable, *arrival.waits])
        return _pending(Pending, (appended, durable, arrival.held or _NOTHING_HELD))

    async def check(self, topic: str, records: Sequence[NewRecord | Record]) -> Facts:
        """What `append` must be told of records of a topic that checks values."""
        place = await self._partitions.open_leader(topic, 0)
        if self._values is None or not self._values.is_needed(place):
            return NO_FACTS
        return Facts(bad_records=await self._values.check(place, records))

    def take(
        self,
        topic: str,
        partition: int,
        batch: Buffer,
        *,
        acks: Acks,
        caller: Caller = ANONYMOUS,
    ) -> asyncio.Future[Pending]:
        """Check the records of a batch, then write it. Batches of one partition are written in the order of calls."""
        place = self._partitions.leader(topic, partition)
        before = self._checking.get(place)

        async def work() -> Pending:
            facts = await self._checked(place, batch)
            if before is not None:
                await asyncio.wait([before])
            return self.append(topic, partition, batch, acks=acks, facts=facts, caller=caller)

        def done(task: asyncio.Future[Pending]) -> None:
            if self._checking.get(place) is task:
                del self._checking[place]
            # With acks=0 nobody asks for the outcome.
            if not task.cancelled():
                task.exception()

        task = asyncio.get_running_loop().create_task(work())
        self._checking[place] = task
        task.add_done_callback(done)
        return task

    async def _checked(self, place: Partition, batch: Buffer) -> Facts:
        try:
            check_batch(batch)
            records = decode_records(batch, size_max=RECORDS_BYTES_MAX)
        except GoQueueError:
            # A step refuses it, with all that belongs to a refusal.
            return Facts(bad_records={})
        return Facts(bad_records={} if self._values is None else await self._values.check(place, records))

    def _needed(self, place: Partition, facts: Facts) -> Steps:
        # The methods themselves: to call an object costs a look-up each time.
        return tuple(step.__call__ for step in self._steps if step.applies(place, facts))

    def _remembered(self, place: Partition) -> Steps:
        """The steps of all batches of which nothing is known, worked out once for each state of the settings."""
        steps = place.steps[self] = self._needed(place, NO_FACTS)
        return steps


# Skips the keyword handling of a NamedTuple's own constructor.
_pending = tuple.__new__


async def _all_of(waits: Sequence[Awaitable[None] | None]) -> None:
    for one in waits:
        if one is not None:
            await one

"""The way in: closed batches from Kafka clients, and records, which become batches, from everyone else.

Each batch becomes an `Arrival` that passes the steps of its partition. `append` is the hot path: a batch of an
ordinary topic is never opened, and pays for no step that its topic does not use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from goqueue.broker.arrivals.arrival import (
    NO_FACTS,
    Arrival,
    ChecksValues,
    Facts,
    HeldAt,
    NeedsCheck,
    Step,
    Steps,
    VerifyTransaction,
)
from goqueue.broker.arrivals.batch_checks import header_of
from goqueue.broker.arrivals.batch_lanes import NORMAL, lane_of
from goqueue.broker.arrivals.deduplication.windows import Deduplication
from goqueue.broker.arrivals.record_publishing import RecordPublishing
from goqueue.broker.arrivals.refused_sequences import RefusedSequences
from goqueue.broker.replicas.opening import Awaited, Prepares
from goqueue.broker.replicas.partitions import Partition, Partitions
from goqueue.broker.replicas.roles import Leading, Role
from goqueue.broker.replicas.writers import PartitionWriter
from goqueue.caller import ANONYMOUS, INTERNAL, Caller
from goqueue.clock import Clock
from goqueue.codec.batch import BatchHeader, check_batch
from goqueue.codec.batch_decode import RECORDS_BYTES_MAX, decode_records
from goqueue.errors import GoQueueError, NotLeader, ProducerError, wire_of
from goqueue.ports import Buffer
from goqueue.records import TRACEPARENT, Acks, Appended, Record, TopicPartition

_NOTHING_HELD: Mapping[int, HeldAt] = MappingProxyType({})
_NOT_APPENDED = Appended(-1, -1, -1)


class Pending(NamedTuple):
    """A batch that is written. Await `durable` before saying so; None means that it may be said now.

    `durable` may also raise that the batch is refused: the sequence that a former leader expects is not the producer's
    next one, and an error that is fatal for the producer is raised only once it is certain that this node leads.
    """

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
        verify: VerifyTransaction | None = None,
    ) -> None:
        self._verify = verify
        self._partitions = partitions
        self._clock = clock
        self._steps = tuple(steps)
        self._preparations = [step for step in steps if isinstance(step, Prepares)]
        # For records that are in no batch yet: they come back to `append` as batches.
        self.publish_records = RecordPublishing(
            partitions, clock, deduplication, self.append, self.opening, values, verify
        ).publish
        self._values = values
        self._refused = RefusedSequences()
        partitions.on_role(self._take_role)
        # The last batch of each partition that is being checked: those behind it are written behind it.
        self._checking: dict[Partition, asyncio.Future[Pending]] = {}

    async def verify(self, producer_id: int, producer_epoch: int, place: TopicPartition) -> None:
        """Let it be known here whether the producer's transaction is open, if another node coordinates it."""
        if self._verify is not None:
            await self._verify(producer_id, producer_epoch, place)

    def opening(self, topic: str, partition: int) -> Awaited | None:
        """What to wait for before `append` only writes, instead of opening files on the event loop; None if it does.

        One may follow another: ask again when it is done.
        """
        opening = self._partitions.opening(topic, partition, to_write=True)
        if opening is None and self._preparations and (place := self._partitions.at_hand(topic, partition)) is not None:
            now_ms = self._clock.now_ms()
            for step in self._preparations:
                if (preparing := step.preparing(place, now_ms)) is not None:
                    return preparing
        return opening

    async def open(self, topic: str, partition: int) -> None:
        """Wait for all of that."""
        while (opening := self.opening(topic, partition)) is not None:
            await opening

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
        try:
            place = self._partitions.leader(topic, partition)
        except GoQueueError as error:
            if caller is not INTERNAL:
                self.refused(topic, partition, batch, error)
            raise
        if facts is NO_FACTS and self._checking and place in self._checking:
            # Written now, it would overtake a batch that came before it.
            raise NeedsCheck
        header: BatchHeader | None = None
        try:
            header = header_of(batch)
            # Parts of the node keep their order by themselves, and do something else about a refusal.
            if self._refused and caller is not INTERNAL:
                self._refused.check(place, header, self._clock.now_ms())
            arrival = Arrival(
                place,
                header,
                batch,
                acks,
                caller,
                self._clock.now_ms(),
                facts,
                facts.lane,
                facts.has_gaps,
            )
            steps = place.steps.get(self) if facts.dues is None else self._needed(place, facts)
            for step in steps or self._remembered(place):
                step(arrival)
        except ProducerError as error:
            place.traffic.failures[wire_of(error).code] += 1
            # Parts of the node, which do something about it at once, ask for themselves.
            unsure = place.writer.confirmed() if acks and caller is not INTERNAL else None
            if unsure is None:
                raise
            return Pending(_NOT_APPENDED, _refuse_if_led(unsure, error))
        except GoQueueError as error:
            place.traffic.failures[wire_of(error).code] += 1
            if header is not None and caller is not INTERNAL:
                self._refused.note(topic, partition, header, error, self._clock.now_ms())
            raise
        appended = arrival.appended
        if appended is None:
            raise RuntimeError("none of the steps has written the batch")
        durable = place.writer.reached(appended.last_offset + 1, acks) if acks else None
        if acks and arrival.waits is not None:
            durable = _all_of([durable, *arrival.waits])
        return _pending(Pending, (appended, durable, arrival.held or _NOTHING_HELD))

    def refused(self, topic: str, partition: int, batch: Buffer, error: GoQueueError) -> None:
        """A batch was refused before anybody looked at it: what its producer has sent behind it waits for it."""
        try:
            header = header_of(batch)
        except GoQueueError:
            return
        self._refused.note(topic, partition, header, error, self._clock.now_ms())

    async def facts_of(self, place: TopicPartition, header: BatchHeader, records: Sequence[Record]) -> Facts:
        """All that `append` can be told of a batch whose records are at hand."""
        partition = self._partitions.leader(*place)
        values, bad = self._values, None
        if values is not None and values.is_needed(partition):
            bad = await values.check(partition, records)
        return Facts(
            lane_of(records) if records else NORMAL,
            has_traces=any(name == TRACEPARENT for one in records for name, _ in one.headers),
            bad_records=bad,
            has_gaps=len(records) <= header.last_offset_delta,
        )

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

    def _take_role(self, place: TopicPartition, role: Role | None) -> None:
        # Nobody led it before its first epoch.
        if isinstance(role, Leading) and role.epoch > 0:
            self._refused.take_over(*place, self._clock.now_ms())

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


async def confirm_refusal(writer: PartitionWriter, refusal: ProducerError) -> None:
    """Raise `NotLeader` in place of a refusal that is no leader's; return if the refusal is to be believed."""
    unsure = writer.confirmed()
    if unsure is not None:
        try:
            await unsure
        except NotLeader as error:
            raise error from refusal


async def _refuse_if_led(unsure: Awaitable[None], refusal: ProducerError) -> None:
    await unsure
    raise refusal


# Skips the keyword handling of a NamedTuple's own constructor.
_pending = tuple.__new__


async def _all_of(waits: Sequence[Awaitable[None] | None]) -> None:
    for one in waits:
        if one is not None:
            await one

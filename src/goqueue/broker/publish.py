"""The way in: closed batches from Kafka clients, and records, which become batches, from everyone else.

`append` is the hot path: it looks at a batch's header, never at its records, unless the
topic is compacted and must know that every record has a key.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from goqueue.broker.batch_checks import check_acks, check_keys, check_limits, header_of
from goqueue.broker.batch_lanes import NORMAL, BatchLane, lane_of, lane_of_batch
from goqueue.broker.deduplication import Deduplication, Remembered, Thinned
from goqueue.broker.opening import Opening
from goqueue.broker.partitions import Partition, Partitions
from goqueue.broker.record_publishing import RecordPublishing
from goqueue.broker.stages import AfterAppend, HeldAt, HoldBack, PublishStage, Remaining
from goqueue.clock import Clock
from goqueue.codec.batch import TRANSACTIONAL, BatchHeader, check_batch
from goqueue.codec.batch_encode import stamped
from goqueue.codec.frame import Flags
from goqueue.errors import (
    GoQueueError,
    InternalTopic,
    InvalidRecord,
    InvalidTransactionState,
    wire_of,
)
from goqueue.ports import Buffer
from goqueue.records import Acks, Appended


class Pending(NamedTuple):
    """A batch that is written. Await `durable` before saying so; None means that it may be said now."""

    appended: Appended
    durable: Awaitable[None] | None
    # Records that are held back instead, by their position in the batch.
    slots: Mapping[int, HeldAt] = MappingProxyType({})


class PublishService:
    """Takes batches in, one partition at a time."""

    def __init__(
        self,
        partitions: Partitions,
        *,
        clock: Clock,
        stages: Sequence[PublishStage] = (),
        after_append: Sequence[AfterAppend] = (),
        transactions: bool = False,
        deduplication: Deduplication | None = None,
    ) -> None:
        self._partitions = partitions
        self._clock = clock
        self._stages = tuple(stages)
        self._after_append = tuple(after_append)
        self._transactions = transactions
        self._deduplication = deduplication or Deduplication(ids_max=0)
        # Set by the node once there is somewhere to hold records back.
        self.hold_back: HoldBack | None = None
        # For records that are in no batch yet: they come back to `append` as batches.
        self.publish_records = RecordPublishing(partitions, clock, self._deduplication, self).publish

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
        internal: bool = False,
        lane: BatchLane | None = None,
        sifted: bool = False,
        is_due: bool = False,
        dues: Sequence[int | None] | None = None,
    ) -> Pending:
        """Check and write one closed batch, and say what is left to wait for.

        `is_due`: its records are for now, whatever their headers say. `dues` says for when each of them is.
        Who knows the records' `lane` says so; else they are looked at if the topic wants that, or are normal.
        Where repeats are `sifted` out already, they are not looked for again.
        """
        place = self._partitions.leader(topic, partition)
        try:
            return self._append(place, batch, acks, lane, internal=internal, sifted=sifted, is_due=is_due, dues=dues)
        except GoQueueError as error:
            place.traffic.failures[wire_of(error).code] += 1
            raise

    def _append(
        self,
        place: Partition,
        batch: Buffer,
        acks: Acks,
        lane: BatchLane | None,
        *,
        internal: bool,
        sifted: bool,
        is_due: bool,
        dues: Sequence[int | None] | None,
    ) -> Pending:
        if place.internal and not internal:
            raise InternalTopic(place.topic_name)
        if acks != Acks.LEADER:
            check_acks(acks, place.in_sync_replicas, place.config.min_insync_replicas)
        now_ms = self._clock.now_ms()
        header = header_of(batch)
        check_limits(place.config, header, batch, now_ms)
        if header[5] & TRANSACTIONAL:
            self._check_transactional(header)
        for stage in self._stages:
            stage.check(place, header, batch, now_ms)
        if place.opens_batches or dues is not None:
            if lane is None and place.config.priority_headers:
                lane = lane_of_batch(batch)
            batch = _opened(place, batch, now_ms)
            if (place.config.delay_headers or dues is not None) and self.hold_back is not None and not is_due:
                rest = self.hold_back(place, batch, now_ms, dues)
                if rest is not None:
                    has_lanes = lane is not None or place.config.priority_headers
                    return self._append_rest(place, rest, acks, now_ms, has_lanes=has_lanes, sifted=sifted)
        writer = place.writer
        appended = self._write(place, header, batch, lane, now_ms, sifted=sifted)
        if not appended.duplicate:
            traffic = place.traffic
            traffic.bytes_in += len(batch)
            count = appended.last_offset - appended.base_offset + 1
            traffic.messages_in += count
            _count_lanes(place, lane or NORMAL, appended, count, now_ms)
            for hook in self._after_append:
                hook(place.topic_name, place.id, appended.base_offset, appended.last_offset)
        return Pending(appended, writer.reached(appended.last_offset + 1, acks) if acks else None)

    def _write(
        self,
        place: Partition,
        header: BatchHeader,
        batch: Buffer,
        lane: BatchLane | None,
        now_ms: int,
        *,
        sifted: bool,
        is_rest: bool = False,
    ) -> Appended:
        """Write a batch, or the rest of one, without the records that the topic's window knows already."""
        writer = place.writer
        thinned = None
        if place.config.dedup_window_ms and not sifted and not header[5] & TRANSACTIONAL:
            if not is_rest:
                check_batch(batch)
            thinned = self._deduplication.thin(place, header_of(batch), batch, now_ms)
        if thinned is not None:
            lane = lane or NORMAL
            appended = writer.append(
                thinned.batch, now_ms=now_ms, priority=lane.priority, flags=lane.flags, thinned=True
            )
            self._remember(place, thinned, appended, now_ms)
            return appended
        if is_rest:
            lane = lane or NORMAL
            return writer.append(batch, now_ms=now_ms, priority=lane.priority, flags=lane.flags, thinned=True)
        if lane is None or lane is NORMAL:
            return writer.append(batch, now_ms=now_ms)
        return writer.append(batch, now_ms=now_ms, priority=lane.priority, flags=lane.flags)

    def _remember(self, place: Partition, thinned: Thinned, appended: Appended, now_ms: int) -> None:
        if not appended.duplicate:
            for one in thinned.fresh:
                offset = appended.base_offset + one.offset - thinned.base_offset
                remembered = Remembered(place.id, offset, one.timestamp_ms, now_ms)
                self._deduplication.remember(place.topic_id, one.headers, remembered)

    def _append_rest(
        self, place: Partition, rest: Remaining, acks: Acks, now_ms: int, *, has_lanes: bool, sifted: bool
    ) -> Pending:
        """Write what is left of a batch; its reply waits until the records taken out of it are safe, too."""
        lane = lane_of(rest.records) if rest.records and has_lanes else NORMAL
        writer = place.writer
        header = header_of(rest.batch)
        appended = self._write(place, header, rest.batch, lane, now_ms, sifted=sifted, is_rest=True)
        if not appended.duplicate:
            place.traffic.bytes_in += len(rest.batch)
            place.traffic.messages_in += len(rest.records)
            _count_lanes(place, lane, appended, len(rest.records), now_ms)
            for hook in self._after_append:
                hook(place.topic_name, place.id, appended.base_offset, appended.last_offset)
        written = writer.reached(appended.last_offset + 1, acks) if acks else None
        return Pending(appended, _both(written, rest.durable) if acks else None, rest.slots)

    def _check_transactional(self, header: BatchHeader) -> None:
        if not self._transactions:
            # Nobody would ever end it, and readers of committed records would wait for ever.
            raise InvalidTransactionState("no transaction was begun for this batch")
        if header.base_sequence < 0:
            raise InvalidRecord("a batch with a producer id needs an epoch and a sequence")


async def _both(first: Awaitable[None] | None, second: Awaitable[None] | None) -> None:
    for one in (first, second):
        if one is not None:
            await one


def _opened(place: Partition, batch: Buffer, now_ms: int) -> Buffer:
    if place.config.is_compacted:
        check_keys(batch)
    if place.config.stamps_records:
        # Checked before the stamp: a new checksum would bless whatever the old one caught.
        check_batch(batch)
        return stamped(batch, now_ms)
    return batch


def _count_lanes(place: Partition, lane: BatchLane, appended: Appended, count: int, now_ms: int) -> None:
    """Count a batch by lane. One of several lanes was opened for the lane index, which says how many are of each."""
    if not lane.flags & Flags.MIXED_LANES:
        place.traffic.lanes_in[lane.priority] += count
        place.enqueued.add(lane.priority, count, now_ms)
        return
    end = appended.last_offset + 1
    for run in place.log.lane_runs(None, appended.base_offset, upper=end, runs_max=end - appended.base_offset).runs:
        place.traffic.lanes_in[run.lane] += run.count
        place.enqueued.add(run.lane, run.count, now_ms)

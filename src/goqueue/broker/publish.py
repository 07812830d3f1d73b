"""The way in: closed batches from Kafka clients, and records from everyone else.

`append` is the hot path: it looks at a batch's header, never at its records, unless the
topic is compacted and must know that every record has a key.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from goqueue.broker.batch_checks import check_acks, check_keys, check_limits, check_timestamp, header_of, keyless
from goqueue.broker.batch_lanes import NORMAL, BatchLane, lane_of, lane_of_batch
from goqueue.broker.deduplication import Deduplication, Remembered, Sifted, Thinned
from goqueue.broker.partitions import Partition, Partitions
from goqueue.broker.placement import Share, place_records, split_share
from goqueue.broker.stages import AfterAppend, HeldAt, HoldBack, PublishStage, Remaining
from goqueue.clock import Clock
from goqueue.codec.batch import TRANSACTIONAL, BatchHeader, check_batch, encode_batch, stamped
from goqueue.errors import (
    GoQueueError,
    InternalTopic,
    InvalidRecord,
    InvalidRequest,
    InvalidTransactionState,
    wire_of,
)
from goqueue.ports import Buffer
from goqueue.records import Acks, Appended, NewRecord


class Pending(NamedTuple):
    """A batch that is written. Await `durable` before saying so; None means that it may be said now."""

    appended: Appended
    durable: Awaitable[None] | None
    # Records that are held back instead, by their position in the batch.
    slots: Mapping[int, HeldAt] = MappingProxyType({})


class Published(NamedTuple):
    """What became of one record. With an error, offset and timestamp are -1."""

    partition: int
    offset: int
    timestamp_ms: int
    error: GoQueueError | None = None
    # It was stored before, by an earlier attempt of the same producer: the offset is that one's.
    duplicate: bool = False
    # It is held back until then: partition and offset are its slot, and it has no timestamp yet.
    due_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Sender:
    """The idempotent producer that records come from; -1 means none."""

    producer_id: int = -1
    producer_epoch: int = -1
    sequence: int = -1
    # The records are part of its open transaction.
    transactional: bool = False

    @property
    def is_idempotent(self) -> bool:
        """Whether a retry must be recognised."""
        return self.producer_id >= 0


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
        place = self._partitions.get(topic, partition)
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
        check_limits(place.config, header, now_ms)
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
                    return self._append_rest(place, rest, acks, now_ms, has_lanes=has_lanes)
        writer = place.writer
        appended = self._write(place, header, batch, lane, now_ms, sifted=sifted)
        if not appended.duplicate:
            traffic = place.traffic
            traffic.bytes_in += len(batch)
            traffic.messages_in += appended.last_offset - appended.base_offset + 1
            for hook in self._after_append:
                hook(place.topic_name, place.id, appended.base_offset, appended.last_offset)
        return Pending(appended, writer.reached(appended.last_offset + 1, acks) if acks else None)

    def _write(
        self, place: Partition, header: BatchHeader, batch: Buffer, lane: BatchLane | None, now_ms: int, *, sifted: bool
    ) -> Appended:
        """Write a batch, without the records that the topic's window knows already."""
        writer = place.writer
        thinned = None
        if place.config.dedup_window_ms and not sifted and not header[5] & TRANSACTIONAL:
            check_batch(batch)
            thinned = self._deduplication.thin(place, header_of(batch), batch, now_ms)
        if thinned is not None:
            lane = lane or NORMAL
            appended = writer.append(
                thinned.batch, now_ms=now_ms, priority=lane.priority, flags=lane.flags, thinned=True
            )
            self._remember(place, thinned, appended, now_ms)
            return appended
        if lane is None or lane is NORMAL:
            return writer.append(batch, now_ms=now_ms)
        return writer.append(batch, now_ms=now_ms, priority=lane.priority, flags=lane.flags)

    def _remember(self, place: Partition, thinned: Thinned, appended: Appended, now_ms: int) -> None:
        if not appended.duplicate:
            for one in thinned.fresh:
                offset = appended.base_offset + one.offset - thinned.base_offset
                remembered = Remembered(place.id, offset, one.timestamp_ms, now_ms)
                self._deduplication.remember(place.topic_id, one.headers, remembered)

    def _append_rest(self, place: Partition, rest: Remaining, acks: Acks, now_ms: int, *, has_lanes: bool) -> Pending:
        """Write what is left of a batch; its reply waits until the records taken out of it are safe, too."""
        lane = lane_of(rest.records) if rest.records and has_lanes else NORMAL
        writer = place.writer
        appended = writer.append(rest.batch, now_ms=now_ms, priority=lane.priority, flags=lane.flags, thinned=True)
        if not appended.duplicate:
            place.traffic.bytes_in += len(rest.batch)
            place.traffic.messages_in += len(rest.records)
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

    async def publish_records(
        self,
        topic: str,
        records: Sequence[NewRecord],
        *,
        acks: Acks,
        partition: int | None = None,
        producer_id: int = -1,
        producer_epoch: int = -1,
        sequence: int = -1,
        transactional: bool = False,
        dues: Sequence[int | None] | None = None,
    ) -> list[Published]:
        """Write records, one batch per partition, and wait until they are as safe as asked.

        With `dues`, which only a transaction may say, some are held back once it is committed.
        What concerns the whole request is raised; what became of each record is in the list,
        in the order sent. An idempotent producer's records are all taken or all refused.
        """
        first = self._partitions.get(topic, 0 if partition is None else partition)
        if first.internal:
            raise InternalTopic(topic)
        check_acks(acks, first.in_sync_replicas, first.config.min_insync_replicas)
        sender = Sender(producer_id, producer_epoch, sequence, transactional)
        now_ms = self._clock.now_ms()
        results: dict[int, Published] = {}
        taken = self._check_records(first, records, sender, now_ms, results)
        waits: list[tuple[Share, Awaitable[None]]] = []
        sifted = self._sift(first, records, taken, sender, now_ms)
        if sifted is not None:
            taken = sifted.fresh
        for share in self._shares(first, records, taken, partition, sender):
            try:
                pending = self._append_share(topic, share, records, sender, acks, now_ms, results, dues)
            except GoQueueError as error:
                _fail(share, error, results)
                continue
            if pending.durable is not None:
                waits.append((share, pending.durable))
        if sifted is not None:
            self._answer_repeats(topic, sifted, acks, results, waits)
        for share, durable in waits:
            try:
                await durable
            except GoQueueError as error:
                _fail(share, error, results)
        for position, twin in sifted.twins.items() if sifted is not None else ():
            results[position] = results[twin]._replace(duplicate=results[twin].error is None)
        return [results[position] for position in range(len(records))]

    def _check_records(
        self,
        place: Partition,
        records: Sequence[NewRecord],
        sender: Sender,
        now_ms: int,
        results: dict[int, Published],
    ) -> list[int]:
        """The positions of the records that may be stored; the others get their error here."""
        taken: list[int] = []
        for position, record in enumerate(records):
            try:
                if record.key is None and place.config.is_compacted:
                    raise keyless(position)
                if record.timestamp_ms is not None:
                    check_timestamp(place.config, record.timestamp_ms, now_ms)
            except InvalidRequest as error:
                if sender.is_idempotent:
                    raise
                results[position] = Published(-1, -1, -1, error)
            else:
                taken.append(position)
        return taken

    def _sift(
        self, place: Partition, records: Sequence[NewRecord], taken: Sequence[int], sender: Sender, now_ms: int
    ) -> Sifted | None:
        """Which records are repeats by their deduplication ids; None where the topic has no window."""
        if not place.config.dedup_window_ms or sender.is_idempotent:
            # A producer with sequences is recognised by those.
            return None
        return self._deduplication.sift(place, records, taken, now_ms)

    def _answer_repeats(
        self,
        topic: str,
        sifted: Sifted,
        acks: Acks,
        results: dict[int, Published],
        waits: list[tuple[Share, Awaitable[None]]],
    ) -> None:
        """A repeat is answered with the first one's place, once that is as safe as the repeat asks."""
        for position, found in sifted.repeats.items():
            results[position] = Published(found.partition, found.offset, found.timestamp_ms, duplicate=True)
            if acks:
                wait = self._partitions.get(topic, found.partition).writer.reached(found.offset + 1, acks)
                if wait is not None:
                    waits.append((Share(found.partition, [position]), wait))

    def _shares(
        self,
        place: Partition,
        records: Sequence[NewRecord],
        taken: Sequence[int],
        partition: int | None,
        sender: Sender,
    ) -> list[Share]:
        if not taken:
            return []
        if partition is not None:
            shares = [Share(partition, taken)]
        else:
            topic = self._partitions.topic(place.topic_name)
            if sender.is_idempotent and len(topic.partitions) > 1 and any(records[at].key is None for at in taken):
                raise InvalidRequest(
                    "a producer with sequences must say which partition its records without a key go to: "
                    "a retry might go elsewhere",
                    field="partition",
                )
            shares = place_records(
                records,
                taken,
                partitions=len(topic.partitions),
                algorithm=place.config.partitioner,
                turns=self._partitions.turns(topic),
            )
        if not sender.is_idempotent:
            return [piece for share in shares for piece in split_share(share, records, place.config.max_message_bytes)]
        if len(shares) > 1:
            raise InvalidRequest("sequences count per partition, but these records go to several", field="partition")
        return shares

    def _append_share(
        self,
        topic: str,
        share: Share,
        records: Sequence[NewRecord],
        sender: Sender,
        acks: Acks,
        now_ms: int,
        results: dict[int, Published],
        dues: Sequence[int | None] | None,
    ) -> Pending:
        chosen = [records[position] for position in share.positions]
        batch = encode_batch(
            chosen,
            producer_id=sender.producer_id,
            producer_epoch=sender.producer_epoch,
            base_sequence=sender.sequence,
            transactional=sender.transactional,
            now_ms=now_ms,
        )
        sifted = not sender.is_idempotent
        said = None if dues is None else [dues[position] for position in share.positions]
        pending = self.append(topic, share.partition, batch, acks=acks, lane=lane_of(chosen), sifted=sifted, dues=said)
        appended = pending.appended
        place = self._partitions.get(topic, share.partition)
        has_window = place.config.dedup_window_ms and sifted
        for offset, position in enumerate(share.positions, appended.base_offset):
            sent_ms = records[position].timestamp_ms
            stamp_ms = appended.stamped_ms if appended.stamped_ms >= 0 else now_ms if sent_ms is None else sent_ms
            results[position] = Published(share.partition, offset, stamp_ms, duplicate=appended.duplicate)
            if has_window:
                remembered = Remembered(share.partition, offset, stamp_ms, now_ms)
                self._deduplication.remember(place.topic_id, records[position].headers, remembered)
        for at, held in pending.slots.items():
            results[share.positions[at]] = Published(
                held.partition, held.offset, -1, duplicate=appended.duplicate, due_ms=held.due_ms
            )
        return pending


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


def _fail(share: Share, error: GoQueueError, results: dict[int, Published]) -> None:
    for position in share.positions:
        results[position] = Published(share.partition, -1, -1, error)

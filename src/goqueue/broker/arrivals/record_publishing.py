"""Records that come one by one: who may be stored, in which partition, and what became of each.

They are checked, repeats are sifted out, the rest is shared out over partitions and put into
batches, which go the way of all batches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from goqueue.broker.arrivals.arrival import ChecksValues, Facts, VerifyTransaction
from goqueue.broker.arrivals.batch_checks import check_acks, check_timestamp, keyless
from goqueue.broker.arrivals.batch_lanes import lane_of
from goqueue.broker.arrivals.deduplication.window import Remembered
from goqueue.broker.arrivals.deduplication.windows import Deduplication, Sifted
from goqueue.broker.arrivals.placement import PlacedRecords, placements_of, split_placed
from goqueue.broker.arrivals.refused_records import refused_values
from goqueue.broker.replicas.opening import Awaited
from goqueue.broker.replicas.partitions import Partition, Partitions
from goqueue.caller import ANONYMOUS, Caller
from goqueue.clock import Clock
from goqueue.codec.batch_encode import encode_batch
from goqueue.errors import GoQueueError, InternalTopic, InvalidRequest, InvalidValue
from goqueue.ports import Buffer
from goqueue.records import TRACEPARENT, Acks, NewRecord, TopicPartition

if TYPE_CHECKING:
    from goqueue.broker.arrivals.publish import Pending


class AppendBatch(Protocol):
    """Takes one closed batch in: `PublishService.append`."""

    def __call__(
        self, topic: str, partition: int, batch: Buffer, /, *, acks: Acks, facts: Facts, caller: Caller
    ) -> Pending:
        """Write it, and say what is left to wait for."""
        ...


# Others may take turns meanwhile, so that records without a key go to partitions that are not open either.
_OPENINGS_MAX = 8


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
    # Which transaction of the producer it must be; None: whichever is open.
    transaction: int | None = None

    @property
    def is_idempotent(self) -> bool:
        """Whether a retry must be recognised."""
        return self.producer_id >= 0


class RecordPublishing:
    """Makes batches of records, and answers for each record."""

    def __init__(
        self,
        partitions: Partitions,
        clock: Clock,
        deduplication: Deduplication,
        append: AppendBatch,
        opening: Callable[[str, int], Awaited | None],
        values: ChecksValues | None = None,
        verify: VerifyTransaction | None = None,
    ) -> None:
        self._verify = verify
        self._values = values
        self._partitions = partitions
        self._clock = clock
        self._deduplication = deduplication
        self._append = append
        self._opening = opening

    async def publish(
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
        transaction: int | None = None,
        dues: Sequence[int | None] | None = None,
        written: Callable[[], None] | None = None,
        caller: Caller = ANONYMOUS,
    ) -> list[Published]:
        """Write records, one batch per partition, and wait until they are as safe as asked.

        `written` is called when they are written, before that wait: what is published from then on lies behind them.
        With `dues`, which only a transaction may say, some are held back once it is committed.
        What concerns the whole request is raised; what became of each record is in the list,
        in the order sent. An idempotent producer's records are all taken or all refused.
        """
        first = await self._partitions.open_leader(topic, 0 if partition is None else partition)
        if first.internal:
            raise InternalTopic(topic)
        check_acks(acks, first.in_sync_replicas, first.config.min_insync_replicas)
        sender = Sender(producer_id, producer_epoch, sequence, transactional, transaction)
        if transactional and partition is not None and self._verify is not None:
            await self._verify(producer_id, producer_epoch, TopicPartition(topic, partition))
        bad: Mapping[int, str] | None = None
        if self._values is not None and self._values.is_needed(first):
            bad = await self._values.check(first, records)
        now_ms, results, sifted, placements = await self._plan(first, records, partition, sender, bad)
        waits: list[tuple[PlacedRecords, Awaitable[None]]] = []
        for placed in placements:
            try:
                pending = self._append_placed(topic, placed, records, sender, acks, now_ms, results, dues, bad, caller)
            except GoQueueError as error:
                _fail(placed, error, results)
                continue
            if pending.durable is not None:
                waits.append((placed, pending.durable))
        if written is not None:
            written()
        if sifted is not None:
            self._answer_repeats(topic, sifted, acks, results, waits)
        for placed, durable in waits:
            try:
                await durable
            except GoQueueError as error:
                _fail(placed, error, results)
        for position, twin in sifted.twins.items() if sifted is not None else ():
            results[position] = results[twin]._replace(duplicate=results[twin].error is None)
        return [results[position] for position in range(len(records))]

    async def _plan(
        self,
        first: Partition,
        records: Sequence[NewRecord],
        partition: int | None,
        sender: Sender,
        bad: Mapping[int, str] | None,
    ) -> tuple[int, dict[int, Published], Sifted | None, Sequence[PlacedRecords]]:
        """When, what is refused, which are repeats, what goes where: worked out in one step, with all of it open."""
        topic = first.topic_name
        turns = self._partitions.turns(self._partitions.topic(topic))
        openings_left = _OPENINGS_MAX
        while True:
            now_ms, turn = self._clock.now_ms(), turns.position
            results: dict[int, Published] = {}
            taken = self._check_records(first, records, sender, now_ms, results)
            if bad and self._values is not None and self._values.is_refusing(first):
                taken = _refuse_bad(taken, bad, sender, results)
            placements = self._placements(first, records, taken, partition, sender)
            openings = self._openings(topic, placements) if openings_left else ()
            if not openings:
                sifted, left = self._sift(first, records, placements, sender, now_ms)
                return now_ms, results, sifted, self._cut(first, records, left, sender)
            # Nothing is written, and by the time they are open what was worked out may not be true any more.
            turns.go_back(turn)
            openings_left = openings_left - 1 if await _are_open(openings) else 0

    def _openings(self, topic: str, placements: Sequence[PlacedRecords]) -> list[Awaited]:
        """What to wait for, so that no file is opened on the event loop."""
        found = (self._opening(topic, placed.partition) for placed in placements)
        return [one for one in found if one is not None]

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
        self,
        first: Partition,
        records: Sequence[NewRecord],
        placements: Sequence[PlacedRecords],
        sender: Sender,
        now_ms: int,
    ) -> tuple[Sifted | None, Sequence[PlacedRecords]]:
        """Which records are repeats by their deduplication ids, and the rest; None: there is no window.

        Windows belong to partitions: an id is looked for where its record goes.
        """
        if not first.config.dedup_window_ms or sender.is_idempotent:
            # A producer with sequences is recognised by those.
            return None, placements
        whole, left = Sifted([], {}, {}), []
        for placed in placements:
            place = self._partitions.leader(first.topic_name, placed.partition)
            sifted = self._deduplication.sift(place, records, placed.positions, now_ms)
            whole.fresh.extend(sifted.fresh)
            whole.repeats.update(sifted.repeats)
            whole.twins.update(sifted.twins)
            if sifted.fresh:
                left.append(PlacedRecords(placed.partition, sifted.fresh))
        return whole, left

    def _cut(
        self, place: Partition, records: Sequence[NewRecord], placements: Sequence[PlacedRecords], sender: Sender
    ) -> Sequence[PlacedRecords]:
        """The placements, in batches that the topic takes. A producer with sequences sends one batch, or is refused."""
        if sender.is_idempotent:
            return placements
        return [
            piece for placed in placements for piece in split_placed(placed, records, place.config.max_message_bytes)
        ]

    def _answer_repeats(
        self,
        topic: str,
        sifted: Sifted,
        acks: Acks,
        results: dict[int, Published],
        waits: list[tuple[PlacedRecords, Awaitable[None]]],
    ) -> None:
        """A repeat is answered with the first one's place, once that is as safe as the repeat asks."""
        for position, found in sifted.repeats.items():
            results[position] = Published(found.partition, found.offset, found.timestamp_ms, duplicate=True)
            if acks:
                wait = self._partitions.leader(topic, found.partition).writer.reached(found.offset + 1, acks)
                if wait is not None:
                    waits.append((PlacedRecords(found.partition, [position]), wait))

    def _placements(
        self,
        place: Partition,
        records: Sequence[NewRecord],
        taken: Sequence[int],
        partition: int | None,
        sender: Sender,
    ) -> list[PlacedRecords]:
        topic = self._partitions.topic(place.topic_name)
        return placements_of(
            records,
            taken,
            partition=partition,
            partitions=topic.partition_count,
            config=place.config,
            turns=self._partitions.turns(topic),
            is_idempotent=sender.is_idempotent,
        )

    def _append_placed(
        self,
        topic: str,
        placed: PlacedRecords,
        records: Sequence[NewRecord],
        sender: Sender,
        acks: Acks,
        now_ms: int,
        results: dict[int, Published],
        dues: Sequence[int | None] | None,
        bad: Mapping[int, str] | None,
        caller: Caller,
    ) -> Pending:
        chosen = [records[position] for position in placed.positions]
        batch = encode_batch(
            chosen,
            producer_id=sender.producer_id,
            producer_epoch=sender.producer_epoch,
            base_sequence=sender.sequence,
            transactional=sender.transactional,
            now_ms=now_ms,
        )
        has_no_repeats = not sender.is_idempotent
        said = None if dues is None else [dues[position] for position in placed.positions]
        has_traces = any(name == TRACEPARENT for one in chosen for name, _ in one.headers)
        named = None if bad is None else {at: bad[one] for at, one in enumerate(placed.positions) if one in bad}
        facts = Facts(
            lane_of(chosen),
            said,
            has_no_repeats,
            has_traces=has_traces,
            bad_records=named,
            transaction=sender.transaction,
        )
        pending = self._append(topic, placed.partition, batch, acks=acks, facts=facts, caller=caller)
        appended = pending.appended
        place = self._partitions.leader(topic, placed.partition)
        has_window = place.config.dedup_window_ms and has_no_repeats
        for offset, position in enumerate(placed.positions, appended.base_offset):
            sent_ms = records[position].timestamp_ms
            stamp_ms = appended.stamped_ms if appended.stamped_ms >= 0 else now_ms if sent_ms is None else sent_ms
            results[position] = Published(placed.partition, offset, stamp_ms, duplicate=appended.duplicate)
            if has_window:
                remembered = Remembered(placed.partition, offset, stamp_ms, now_ms)
                self._deduplication.remember(place, records[position].headers, remembered)
        for at, held in pending.slots.items():
            results[placed.positions[at]] = Published(
                held.partition, held.offset, -1, duplicate=appended.duplicate, due_ms=held.due_ms
            )
        return pending


def _refuse_bad(
    taken: Sequence[int], bad: Mapping[int, str], sender: Sender, results: dict[int, Published]
) -> list[int]:
    """Answer for the records that their schema does not allow; returns the others."""
    if sender.is_idempotent:
        raise refused_values(bad)
    for position in taken:
        if position in bad:
            results[position] = Published(-1, -1, -1, InvalidValue(bad[position]))
    return [position for position in taken if position not in bad]


def _fail(placed: PlacedRecords, error: GoQueueError, results: dict[int, Published]) -> None:
    for position in placed.positions:
        results[position] = Published(placed.partition, -1, -1, error)


async def _are_open(openings: Sequence[Awaited]) -> bool:
    """Wait for all of them; False if one failed, which the write itself will tell."""
    outcomes = await asyncio.gather(*(_is_open(one) for one in openings))
    return all(outcomes)


async def _is_open(opening: Awaited) -> bool:
    try:
        await opening
    except GoQueueError:
        return False
    return True

"""Delay from Kafka clients: records whose headers say that they are for later are taken out of their batch.

`goqueue-deliver-at` is a time (milliseconds since 1970, or RFC 3339), `goqueue-delay-ms` a number of
milliseconds. What is left of the batch keeps its header, sequence and offset range, as compaction would leave
it. A retried batch schedules nothing twice: of every idempotent producer it is stored how far it has come.
What is part of a transaction is staged; see `staging`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from goqueue.broker.arrival import Arrival, Facts
from goqueue.broker.deduplication import digest_of
from goqueue.broker.partitions import Partition
from goqueue.broker.refused_records import check_records
from goqueue.codec.batch import BatchHeader
from goqueue.codec.batch_decode import decode_records
from goqueue.delay.index import OriginKey, OriginMark
from goqueue.delay.records import Origin
from goqueue.delay.refused import RefusedBatches
from goqueue.delay.service import DelayService
from goqueue.delay.shards import DelayShard
from goqueue.delay.staging import Staging
from goqueue.delay.values import DUE_MS_MAX, Held
from goqueue.errors import InvalidRecord, NotLeader, OutOfOrderSequence
from goqueue.records import Header, NewRecord, Record

DELIVER_AT_HEADER = "goqueue-deliver-at"
DELAY_HEADER = "goqueue-delay-ms"
# Sequences count from 0 to 2^31-1 and then from 0 again; half the circle lies behind.
_SEQUENCE_MASK = 0x7FFF_FFFF
_BEHIND_MAX = 1 << 30


class HeaderDelay:
    """A step: holds records back that are for later, by their headers or because their sender said when."""

    def __init__(self, service: DelayService, staging: Staging) -> None:
        self._service = service
        self._staging = staging
        self._refused = RefusedBatches()

    def applies(self, partition: Partition, facts: Facts) -> bool:
        """To topics with goqueue.delay.headers=true, and to batches whose times are said."""
        return partition.config.delay_headers or facts.dues is not None

    def __call__(self, arrival: Arrival) -> None:
        """Hold back what is for later, and go on with the rest."""
        place, header, now_ms = arrival.partition, arrival.header, arrival.now_ms
        arrival.check()
        if self._refused:
            self._refused.check(place, header, now_ms)
        records = arrival.records()
        dues = _dues(records, now_ms) if arrival.facts.dues is None else arrival.facts.dues
        if all(due_ms is None for due_ms in dues):
            self._check_order(place, header)
            return
        shard = self._service.shard_at_work(place.topic_name)
        if shard is None:
            raise self._refused.refuse(place, header, now_ms)
        if header.is_transactional:
            self._stage(shard, arrival, dues)
            return
        # Refused before anything is held back: a batch that is not the producer's next one may come again later.
        stored_at = self._check_order(place, header)
        mark = _mark(shard, place, header)
        if mark is not None:
            # What was for later when the batch came first is held, even if its time has come meanwhile.
            now_ms = mark.seen_ms
            dues = [due_of(record.headers, now_ms) for record in records]
        later = [due_ms is not None and due_ms > now_ms for due_ms in dues]
        if mark is None and stored_at is not None and stored_at >= place.log.start_offset:
            # The power cut left the batch and not its slots: what it lacks was for later, even if its time has come.
            lacks = _lacking(place, header, records, stored_at)
            later = [due_ms is not None and is_lacking for due_ms, is_lacking in zip(dues, lacks, strict=True)]
        if not any(later):
            return
        arrival.thin([record for record, is_later in zip(records, later, strict=True) if not is_later])
        if mark is not None:
            arrival.wait_for(shard.store.durable(shard.store.next_slot))
            return
        held = [
            Held(NewRecord(record.key, record.value, record.headers), due_ms or 0, place.id, _origin(place, header))
            for record, due_ms, is_later in zip(records, dues, later, strict=True)
            if is_later
        ]
        _, durable = self._service.hold_now(
            shard, place.topic_name, held, all_or_none=True, now_ms=now_ms, caller=arrival.caller
        )
        arrival.wait_for(durable)

    def _check_order(self, place: Partition, header: BatchHeader) -> int | None:
        """Of a repeat, where its batch is stored. Refuse what is out of order.

        Only for the moment, if the batch before it is stored by half.

        Its slots are stored, and writing the rest of it failed. Called out of order, the producer would begin a new
        epoch, under which those slots are not recognised when the batch is sent again.
        """
        try:
            return place.log.check_producer(header)
        except OutOfOrderSequence:
            if header.is_transactional or not self._service.has_shards():
                raise
            shard = self._service.shard_at_work(place.topic_name)
            if shard is None or _is_half_stored(shard, place, header):
                raise NotLeader("an earlier batch of this producer is not stored yet: send it again first") from None
            raise

    def _stage(self, shard: DelayShard, arrival: Arrival, dues: Sequence[int | None]) -> None:
        records = arrival.records()
        staged = self._staging.stage(shard, arrival, dues)
        if staged is not None:
            arrival.thin([record for at, record in enumerate(records) if at not in staged.slots])
            arrival.wait_for(staged.durable)
            arrival.held = staged.slots


def _dues(records: Sequence[Record], now_ms: int) -> list[int | None]:
    """For when each record is; the refusal of a batch names every record whose headers are wrong."""
    try:
        return [due_of(record.headers, now_ms) for record in records]
    except InvalidRecord:
        check_records(records, lambda record: due_of(record.headers, now_ms))
        raise


def due_of(headers: Sequence[Header], now_ms: int) -> int | None:
    """When a record's headers say that it is due; the last word counts."""
    for name, value in reversed(headers):
        if name == DELIVER_AT_HEADER:
            return _time_ms(value)
        if name == DELAY_HEADER:
            return now_ms + _number(DELAY_HEADER, value)
    return None


def _time_ms(value: bytes | None) -> int:
    text = (value or b"").decode("ascii", "replace")
    if text.isdigit():
        return _number(DELIVER_AT_HEADER, value)
    try:
        when = datetime.fromisoformat(text)
        if when.tzinfo is None:
            raise ValueError("it names no zone")
        return -(-round(when.timestamp() * 1_000_000) // 1000)
    except (ValueError, OverflowError) as problem:
        raise InvalidRecord(
            f"header {DELIVER_AT_HEADER} is {text[:64]!r}: {problem}",
            hint="give milliseconds since 1970, or RFC 3339 with a zone",
        ) from problem


def _number(name: str, value: bytes | None) -> int:
    text = (value or b"").decode("ascii", "replace")
    if not text.isdigit() or len(text) > 15 or int(text) > DUE_MS_MAX:
        raise InvalidRecord(f"header {name} is {text[:64]!r}", hint="give milliseconds as a decimal number")
    return int(text)


def _origin(place: Partition, header: BatchHeader) -> Origin | None:
    if header.producer_id < 0 or header.base_sequence < 0:
        return None
    return Origin(place.id, header.producer_id, header.producer_epoch, header.last_sequence)


def _lacking(place: Partition, header: BatchHeader, records: Sequence[Record], stored_at: int) -> list[bool]:
    """Which records are not in the batch as it is stored. It is read at once: only a power cut makes that necessary."""
    log = place.log
    read = log.read_batches(stored_at, max_bytes=1, upper=log.end_offset)
    kept = {record.offset for batch in read.batches for record in decode_records(batch)}
    shift = stored_at - header.base_offset
    # A repeat is left out as well, and is never held back.
    has_window = place.config.dedup_window_ms > 0
    return [
        record.offset + shift not in kept and not (has_window and digest_of(record.headers) is not None)
        for record in records
    ]


def _mark(shard: DelayShard, place: Partition, header: BatchHeader) -> OriginMark | None:
    """How far its producer has come, if an earlier attempt of this batch has had its delayed records stored."""
    if header.producer_id < 0 or header.base_sequence < 0:
        return None
    mark = shard.store.origins.get(OriginKey(place.topic_id.bytes, place.id, header.producer_id))
    if mark is None or mark.epoch != header.producer_epoch:
        return None
    return mark if _is_behind(header.last_sequence, mark) else None


def _is_half_stored(shard: DelayShard, place: Partition, header: BatchHeader) -> bool:
    """Whether the producer's last batch with delayed records has its slots, and is not in its partition."""
    mark = shard.store.origins.get(OriginKey(place.topic_id.bytes, place.id, header.producer_id))
    if mark is None or mark.epoch != header.producer_epoch:
        return False
    expected = place.log.next_sequence(header.producer_id, header.producer_epoch)
    return expected is not None and _is_behind(expected, mark)


def _is_behind(sequence: int, mark: OriginMark) -> bool:
    return ((mark.sequence - sequence) & _SEQUENCE_MASK) < _BEHIND_MAX

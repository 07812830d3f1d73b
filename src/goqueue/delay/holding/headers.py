"""Delay from Kafka clients: records whose headers say that they are for later are taken out of their batch.

`goqueue-deliver-at` is a time (milliseconds since 1970, or RFC 3339), `goqueue-delay-ms` a number of
milliseconds. What is left of the batch keeps its header, sequence and offset range, as compaction would leave
it. A retried batch schedules nothing twice: of every idempotent producer it is stored how far it has come.
What is part of a transaction is staged; see `staging`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from goqueue.broker.arrivals.arrival import Arrival, Facts
from goqueue.broker.arrivals.refused_records import check_records
from goqueue.broker.replicas.opening import Awaited
from goqueue.broker.replicas.partitions import Partition
from goqueue.broker.replicas.safety import Operation
from goqueue.codec.batch import BatchHeader
from goqueue.delay.firing.refused import RefusedBatches
from goqueue.delay.holding.agreement import is_half_stored, judge, mark_of, sequence_of
from goqueue.delay.holding.records import Origin
from goqueue.delay.holding.staging import Staging
from goqueue.delay.holding.store import Store
from goqueue.delay.service import DelayService
from goqueue.delay.values import DUE_MS_MAX, Held
from goqueue.errors import InvalidRecord, NotLeader, OutOfOrderSequence
from goqueue.records import Header, NewRecord, Record

DELIVER_AT_HEADER = "goqueue-deliver-at"
DELAY_HEADER = "goqueue-delay-ms"


class HeaderDelay:
    """A step: holds records back that are for later, by their headers or because their sender said when."""

    def __init__(self, service: DelayService, staging: Staging) -> None:
        self._service = service
        self._staging = staging
        self._refused = RefusedBatches()
        self._preparing: dict[Partition, Awaited] = {}

    def applies(self, partition: Partition, facts: Facts) -> bool:
        """To topics with goqueue.delay.headers=true, and to batches whose times are said."""
        return partition.config.delay_headers or facts.dues is not None

    def preparing(self, partition: Partition, _now_ms: int) -> Awaited | None:
        """Wait for the partition's store; its first batch makes the delay log. A store that fails holds up nobody."""
        if not partition.config.delay_headers:
            return None
        awaited = self._preparing.get(partition)
        if awaited is None and (task := self._service.stores.loading(partition.key)) is not None:
            awaited = self._preparing[partition] = Awaited()
            task.add_done_callback(lambda _task: self._preparing.pop(partition).finish(None))
        return awaited

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
        store = self._service.stores.at_work(place.key)
        if store is None:
            raise self._refused.refuse(place, header, now_ms)
        if header.is_transactional:
            self._stage(store, arrival, dues)
            return
        # Refused before anything is held back: a batch that is not the producer's next one may come again later.
        stored_at = self._check_order(place, header)
        mark = mark_of(store.origins.get(header.producer_id, ()), header)
        if mark is not None:
            now_ms = mark.seen_ms
            dues = [due_of(record.headers, now_ms) for record in records]
        judged = judge(place, mark, header, records, dues, stored_at, now_ms)
        if not any(judged.later):
            return
        arrival.thin([record for record, is_later in zip(records, judged.later, strict=True) if not is_later])
        held = [
            (record, due_ms or 0)
            for record, due_ms, is_later, is_held in zip(records, dues, judged.later, judged.held, strict=True)
            if is_later and not is_held
        ]
        if not held:
            arrival.wait_for(store.safe(Operation.HOLD))
            return
        _, durable = self._service.hold_now(
            store, _held(place, header, held), all_or_none=True, now_ms=now_ms, caller=arrival.caller
        )
        arrival.wait_for(durable)

    def _check_order(self, place: Partition, header: BatchHeader) -> int | None:
        """Of a repeat, where its batch is stored. Refuse what is out of order.

        Only for the moment, if the batch before it is stored by half.

        Its slots are stored, and writing the rest of it failed. Called out of order, the producer would begin a new
        epoch, under which those slots are not recognised when the batch is sent again.
        """
        try:
            return place.log.producers.check(header)
        except OutOfOrderSequence:
            if header.is_transactional or not self._service.stores.has(place.key):
                raise
            store = self._service.stores.at_work(place.key)
            if store is None or is_half_stored(place, store.origins.get(header.producer_id, ()), header):
                raise NotLeader("an earlier batch of this producer is not stored yet: send it again first") from None
            raise

    def _stage(self, store: Store, arrival: Arrival, dues: Sequence[int | None]) -> None:
        records = arrival.records()
        staged = self._staging.stage(store, arrival, dues)
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
            raise ValueError("it has no time zone")
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


def _is_idempotent(header: BatchHeader) -> bool:
    return header.producer_id >= 0 and header.base_sequence >= 0


def _held(place: Partition, header: BatchHeader, records: Sequence[tuple[Record, int]]) -> list[Held]:
    """The records as they are held. Each names its own sequence, and the last one that of the whole batch.

    A cut leaves the beginning of the slots, and the last of those tells how far that goes.
    """
    found: list[Held] = []
    for record, due_ms in records:
        origin = None
        if _is_idempotent(header):
            is_last = record is records[-1][0]
            sequence = header.last_sequence if is_last else sequence_of(header, record)
            origin = Origin(place.id, header.producer_id, header.producer_epoch, sequence)
        found.append(Held(NewRecord(record.key, record.value, record.headers), due_ms, place.id, origin))
    return found

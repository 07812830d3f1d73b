"""Sending back: letters enter their topics and are settled in one transaction, so that a crash leaves both or neither.

The transactional id belongs to the topic whose letters they are. A later job takes it over and
so ends what an earlier life had begun before it looks at any letter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from goqueue.broker.arrivals.append_anywhere import AppendAnywhere, Stored
from goqueue.caller import INTERNAL
from goqueue.clock import Clock
from goqueue.codec.batch_encode import encode_batch
from goqueue.coordinator.shard import Transaction
from goqueue.delivery.dead_letters.originals import Original
from goqueue.delivery.dead_letters.return_routes import Routed
from goqueue.delivery.service import DeliveryService
from goqueue.delivery.state.commands import FreshShare
from goqueue.delivery.state.records import QueueId, ranges_of
from goqueue.delivery.values import Delivery
from goqueue.errors import GoQueueError, InvalidRequest, NotFound, wire_of
from goqueue.records import Acks, NewRecord, TopicPartition

# Between the attempts to append a batch: about three seconds in all.
_RETRY_PAUSES_MS = (50, 100, 200, 400, 800, 1600)

Outgoing = tuple[Delivery, NewRecord]


class Transactions(Protocol):
    """What sending back needs of transactions. A producer is only handed back to them."""

    async def init_producer(self, transactional_id: str) -> Any:
        """Take an id over; what it had open is ended first."""

    async def begin(self, transactional_id: str, producer: Any) -> int:
        """Begin a transaction; returns its number."""
        ...

    async def add_partitions(
        self, transactional_id: str, producer: Any, partitions: Collection[TopicPartition], *, number: int | None = None
    ) -> Mapping[TopicPartition, GoQueueError]:
        """Make partitions part of it; returns why not."""
        ...

    async def take_part(
        self, transactional_id: str, producer: Any, places: Collection[TopicPartition], *, number: int | None = None
    ) -> None:
        """Make partitions part of it in which it settles or reopens messages."""

    async def end(
        self, transactional_id: str, producer: Any, *, commit: bool, number: int | None = None, until_applied: bool
    ) -> Any:
        """Commit or abort; with `until_applied`, wait until every partition knows."""


class Outcome(NamedTuple):
    """What became of some letters."""

    sent: list[Delivery]
    refused: list[tuple[Delivery, GoQueueError]]


class OnSentBack(Protocol):
    """Told of a dead letter that was sent back. It must not raise."""

    def __call__(self, letter: Delivery, topic: str, partition: int, offset: int, /, *, is_held: bool) -> None:
        """It lies there now, or has lain there all the time and is delivered again.

        One that `is_held` is delayed once more: partition and offset are its slot.
        """
        ...


class SendBack:
    """The way back of one job's letters."""

    def __init__(
        self,
        topic: str,
        delivery: DeliveryService,
        append_anywhere: AppendAnywhere,
        transactions: Transactions,
        clock: Clock,
        on_sent: OnSentBack | None = None,
    ) -> None:
        self._on_sent = on_sent
        # Where the letters of the open transaction went.
        self._sent: list[tuple[Delivery, str, int, int, bool]] = []
        self._id = f"__redrive-{topic}"
        self._delivery = delivery
        self._append_anywhere = append_anywhere
        self._clock = clock
        self._transactions = transactions
        self._producer: Any = None
        self._sequences: dict[TopicPartition, int] = {}

    async def open(self) -> None:
        """Take over from earlier jobs: from now on it is settled for good which letters they sent."""
        self._producer = await self._transactions.init_producer(self._id)

    async def send(self, letters: Routed) -> Outcome:
        """Write letters to their partitions, or reopen them, and settle them. What is refused is left out."""
        outcome = Outcome([], list(letters.refused))
        if not letters.appends and not letters.reopens:
            return outcome
        number = await self._transactions.begin(self._id, self._producer)
        self._sent = []
        try:
            for queue_id, originals in letters.reopens.items():
                await self._reopen(queue_id, originals, number)
                outcome.sent.extend(one for one, _ in originals)
                topic = self._delivery.topic_of(queue_id)
                self._sent += [(one, topic, queue_id.partition, original.offset, False) for one, original in originals]
            for at, some in letters.appends.items():
                await self._write(at, some, number, outcome)
            await self._promise([one.receipt for one in outcome.sent], number)
            # What comes next in the letters' stories begins with the decision, not with the last marker.
            await self._transactions.end(
                self._id, self._producer, commit=bool(outcome.sent), number=number, until_applied=False
            )
        except BaseException:
            # Where even this fails, the transaction's time runs out, or the next job ends it.
            with suppress(GoQueueError):
                await self._transactions.end(self._id, self._producer, commit=False, number=number, until_applied=False)
            raise
        if self._on_sent is not None:
            for letter, topic, partition, offset, is_held in self._sent:
                self._on_sent(letter, topic, partition, offset, is_held=is_held)
        return outcome

    async def _reopen(self, queue_id: QueueId, originals: Sequence[tuple[Delivery, Original]], number: int) -> None:
        """Let the group of these have them again where they lie, once the transaction is committed."""
        by_lane: dict[int, dict[int, int]] = {}
        for _, one in originals:
            by_lane.setdefault(one.lane, {})[one.offset] = one.key
        shares = [
            FreshShare(lane, ranges_of(sorted(keys)), [keys[one] for one in sorted(keys)] if any(keys.values()) else [])
            for lane, keys in by_lane.items()
        ]
        place = TopicPartition(self._delivery.topic_of(queue_id), queue_id.partition)
        await self._transactions.take_part(self._id, self._producer, [place], number=number)
        transaction = Transaction(self._producer.producer_id, self._producer.epoch)
        await self._delivery.reopen(queue_id, shares, transaction)

    async def _write(self, at: TopicPartition, letters: Sequence[Outgoing], number: int, outcome: Outcome) -> None:
        error = await self._refusal(at, letters, number)
        if error is None:
            outcome.sent.extend(one for one, _ in letters)
        elif len(letters) == 1:
            outcome.refused.append((letters[0][0], error))
        else:
            # They may be too many for one batch, or one of them is bad.
            half = len(letters) // 2
            await self._write(at, letters[:half], number, outcome)
            await self._write(at, letters[half:], number, outcome)

    async def _refusal(self, at: TopicPartition, letters: Sequence[Outgoing], number: int) -> GoQueueError | None:
        """Write letters as one batch, or say why they cannot be; nothing of them is written then."""
        refused = await self._transactions.add_partitions(self._id, self._producer, [at], number=number)
        if at in refused:
            return refused[at]
        sequence = self._sequences.get(at, 0)
        batch = encode_batch(
            [record for _, record in letters],
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.epoch,
            base_sequence=sequence,
            transactional=True,
            now_ms=self._clock.now_ms(),
        )
        try:
            stored = await self._stored(at, batch)
        except (InvalidRequest, NotFound) as error:
            return error
        self._sequences[at] = sequence + len(letters)
        for position, (letter, _) in enumerate(letters):
            held = stored.held.get(position)
            if held is None:
                self._sent.append((letter, at.topic, at.partition, stored.appended.base_offset + position, False))
            else:
                self._sent.append((letter, at.topic, held.partition, held.offset, True))
        return None

    async def _stored(self, at: TopicPartition, batch: bytes) -> Stored:
        """Append, and again after a failure that may pass: the partition recognises a batch that it has.

        If it fails in the end the batch may be stored all the same, so nothing of its transaction may count.
        """
        for pause_ms in _RETRY_PAUSES_MS:
            try:
                return await self._append_anywhere(at, batch, Acks.ALL)
            except GoQueueError as error:
                if not wire_of(error).retriable:
                    raise
            await asyncio.sleep(pause_ms / 1000)
        return await self._append_anywhere(at, batch, Acks.ALL)

    async def _promise(self, receipts: Sequence[str], number: int) -> None:
        if not receipts:
            return
        places = self._delivery.places_of(receipts)
        await self._transactions.take_part(self._id, self._producer, places, number=number)
        transaction = Transaction(self._producer.producer_id, self._producer.epoch)
        await self._delivery.promise(receipts, transaction, caller=INTERNAL)

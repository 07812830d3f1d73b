"""Settler: receipts back in. Sorts them by lease, lets their shards settle them, and says what became of each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from goqueue.broker.replicas.partitions import Partition, Partitions
from goqueue.broker.topics import TopicService
from goqueue.clock import Rng
from goqueue.coordinator.runtime import Shards
from goqueue.delivery.dead_letters.dead_letter_moves import DeadLetters
from goqueue.delivery.leases.receipts import is_ours, parse_nonce, split_place, split_receipt
from goqueue.delivery.state.commands import Settle, SettleShare, ShareSettled
from goqueue.delivery.state.queue import Queue
from goqueue.delivery.state.records import QueuePlace
from goqueue.delivery.table import NodeQueues
from goqueue.delivery.values import Action, Settlement, SettleResult
from goqueue.errors import GoQueueError, InvalidRequest, NotEnoughReplicas, ReceiptExpired, ReceiptNotFound
from goqueue.records import TopicPartition

REASON_CHARS_MAX = 1000
VISIBILITY_MS_MAX = 12 * 3600 * 1000
_DELAY_MS_MAX = 365 * 24 * 3600 * 1000
_OFFSET_DIGITS = 20
# Skips the keyword handling of a NamedTuple's own constructor: this runs for every receipt.
_settled = tuple.__new__


class Located(NamedTuple):
    """Where a receipt belongs."""

    topic: str
    place: QueuePlace
    lease_id: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody asks for here
    offset: int


class LeasedOffsets(NamedTuple):
    """Messages of one lease: what their receipts have in common, and their offsets."""

    place: str
    count: int  # type: ignore[assignment]  # hides tuple.count, as above
    nonce: str
    offsets: list[int]


class LeaseSettled(NamedTuple):
    """The outcome for one lease: what was done with all offsets but the refused ones, or why with none."""

    action_taken: str = ""
    next_visible_ms: int | None = None
    dead_letter_topic: str | None = None
    # Settled before, or their visibility has ended.
    refused: Sequence[int] = ()
    error: GoQueueError | None = None


class Settler:
    """Settles receipts of all queues."""

    def __init__(
        self,
        shards: Shards[QueuePlace],
        queues: NodeQueues,
        dead_letters: DeadLetters,
        *,
        topics: TopicService,
        partitions: Partitions,
        rng: Rng,
        receipts_max: int,
    ) -> None:
        self._runtime = shards
        self._queues = queues
        self._dead_letters = dead_letters
        self._topics = topics
        self._partitions = partitions
        self._rng = rng
        self._receipts_max = receipts_max

    async def settle(self, settlements: Sequence[Settlement], *, durable: bool = False) -> list[SettleResult]:
        """Do what each says; one result each, in their order. With `durable` it waits for the disk."""
        if len(settlements) > self._receipts_max:
            raise InvalidRequest(f"{len(settlements)} receipts are more than {self._receipts_max}", field="receipts")
        results: list[SettleResult | None] = [None] * len(settlements)
        shares = self._shares(settlements, results)
        by_place: dict[QueuePlace, list[tuple[_Share, SettleShare]]] = {}
        for (_, count, _, action, delay_ms, reason, visibility_ms), found in shares.items():
            part = SettleShare(
                found.lease_id, count, action, found.offsets, delay_ms, reason[:REASON_CHARS_MAX], visibility_ms
            )
            by_place.setdefault(found.place, []).append((found, part))
        replies = [
            self._settled(
                parts[0][0].topic, at, Settle([part for _, part in parts], durable=durable, chance=self._rng.random())
            )
            for at, parts in by_place.items()
        ]
        for reply, parts in zip(replies, by_place.values(), strict=True):
            try:
                outcomes: list[ShareSettled] = await reply
            except GoQueueError as error:
                for share, _ in parts:
                    for position in share.positions:
                        results[position] = SettleResult(settlements[position].receipt, error=error)
                continue
            for (share, part), outcome in zip(parts, outcomes, strict=True):
                self._fill(share, part, outcome, settlements, results)
        return [one for one in results if one is not None]

    async def settle_leases(
        self,
        leases: Sequence[LeasedOffsets],
        action: Action,
        *,
        delay_ms: int | None = None,
        reason: str = "",
        visibility_ms: int | None = None,
        durable: bool = False,
    ) -> list[LeaseSettled]:
        """Do the same with messages of several leases; one outcome each, in their order."""
        count = sum(len(one.offsets) for one in leases)
        if count > self._receipts_max:
            raise InvalidRequest(f"{count} receipts are more than {self._receipts_max}", field="leases")
        results = [LeaseSettled()] * len(leases)
        by_place: dict[QueuePlace, list[tuple[int, _Share, SettleShare]]] = {}
        for position, (place, deliveries, nonce, offsets) in enumerate(leases):
            receipt = f"{place}:{min(offsets, default=0)}:{deliveries}:{nonce}"
            try:
                share = self._share(Settlement(receipt, action, delay_ms, reason, visibility_ms), place, nonce)
            except GoQueueError as error:
                results[position] = LeaseSettled(error=error)
                continue
            part = SettleShare(
                share.lease_id, deliveries, action, offsets, delay_ms, reason[:REASON_CHARS_MAX], visibility_ms
            )
            by_place.setdefault(share.place, []).append((position, share, part))
        replies = [
            self._settled(
                parts[0][1].topic,
                at,
                Settle([part for _, _, part in parts], durable=durable, chance=self._rng.random()),
            )
            for at, parts in by_place.items()
        ]
        for reply, parts in zip(replies, by_place.values(), strict=True):
            try:
                outcomes: list[ShareSettled] = await reply
            except GoQueueError as error:
                for position, _, _ in parts:
                    results[position] = LeaseSettled(error=error)
                continue
            for (position, share, _), outcome in zip(parts, outcomes, strict=True):
                results[position] = self._lease_settled(share.topic, outcome)
        return results

    def _settled(self, topic: str, at: QueuePlace, command: Settle) -> asyncio.Future[list[ShareSettled]]:
        """Run the command, unless what it does could be forgotten by the next leader."""
        try:
            self._partitions.check_copies(topic, at.partition)
        except NotEnoughReplicas as refusal:
            refused: asyncio.Future[list[ShareSettled]] = asyncio.get_running_loop().create_future()
            refused.set_exception(refusal)
            return refused
        return self._runtime.submit_to(at, command)

    def _lease_settled(self, topic: str, outcome: ShareSettled) -> LeaseSettled:
        dlq = None
        if outcome.queue is not None and self._queues.find(outcome.queue) is not None:
            self._queues.wake(outcome.queue)
            if outcome.dies:
                dlq = self._dead_letters.topic_for(topic)
        return LeaseSettled(outcome.action_taken, outcome.next_visible_ms, dlq, sorted(outcome.refused))

    def lowest(self, queue: Queue, partition: Partition) -> int:
        """The lowest unsettled offset: outstanding, or untouched as far as anyone looked, or where nobody looked."""
        window = self._queues.desk(queue.id).window
        window.move_to(queue.cursors)
        untouched = window.lowest_untouched(partition.log.last_stable_offset)
        outstanding = queue.lowest_outstanding()
        lowest = untouched if outstanding is None else min(outstanding, untouched)
        return max(lowest, min(partition.log.start_offset, untouched))

    def _shares(
        self, settlements: Sequence[Settlement], results: list[SettleResult | None]
    ) -> dict[tuple[Any, ...], _Share]:
        """The receipts by what they have in common; those that are none get their result here."""
        shares: dict[tuple[Any, ...], _Share] = {}
        last: _Share | None = None
        kind: tuple[Any, ...] = ()
        before = behind = ""
        for position, one in enumerate(settlements):
            receipt = one[0]
            # Receipts of one lease differ only in their offsets and mostly come together.
            if last is not None and one[1:] == kind and receipt.startswith(before) and receipt.endswith(behind):
                text = receipt[len(before) : -len(behind)]
                if text.isdecimal() and text.isascii() and len(text) < _OFFSET_DIGITS:
                    last.offsets.append(int(text))
                    last.positions.append(position)
                    continue
            try:
                place, offset, count, nonce = split_receipt(receipt)
                known = (place, count, nonce, *one[1:])
                share = shares.get(known)
                if share is None:
                    share = shares[known] = self._share(one, place, nonce)
                share.offsets.append(offset)
                share.positions.append(position)
                last, kind = share, one[1:]
                before, behind = f"{place}:", f":{count}:{nonce}"
            except GoQueueError as error:
                results[position] = SettleResult(receipt, error=error)
        return shares

    def place_of(self, receipt: str) -> TopicPartition:
        """Whose messages it is about, if that exists. Whether the receipt is good, the leader of the partition says."""
        topic, number = split_place(split_receipt(receipt)[0], receipt)
        known = self._topics.find(topic)
        if known is None or number >= known.partition_count:
            raise ReceiptNotFound(receipt)
        return TopicPartition(topic, number)

    def locate(self, receipt: str) -> Located:
        """Whose receipt it is, or why it is none."""
        place, offset, count, nonce = split_receipt(receipt)
        share = self._share(Settlement(receipt, Action.ACK), place, nonce)
        return Located(share.topic, share.place, share.lease_id, count, offset)

    def _share(self, settlement: Settlement, place: str, nonce: str) -> _Share:
        receipt, _, delay_ms, _, visibility_ms = settlement
        topic, number = split_place(place, receipt)
        parsed = parse_nonce(nonce, receipt)
        if visibility_ms is not None:
            check_visibility(visibility_ms)
        if delay_ms is not None and not 0 <= delay_ms <= _DELAY_MS_MAX:
            raise InvalidRequest(f"delay is {delay_ms} ms", field="delay", hint=f"use 0 to {_DELAY_MS_MAX} ms")
        known = self._topics.find(topic)
        if known is None or number >= known.partition_count or not is_ours(parsed, known.topic_id, number):
            raise ReceiptNotFound(receipt)
        return _Share(topic, QueuePlace(known.topic_id, number), parsed.lease_id, [], [])

    def _fill(
        self,
        share: _Share,
        part: SettleShare,
        outcome: ShareSettled,
        settlements: Sequence[Settlement],
        results: list[SettleResult | None],
    ) -> None:
        topic, number = share.topic, share.place.partition
        committed, in_flight, dlq = -1, 0, None
        queue = None if outcome.queue is None else self._queues.find(outcome.queue)
        if queue is not None:
            committed = self.lowest(queue, self._partitions.leader(topic, number))
            in_flight = queue.in_flight_count
            self._queues.wake(queue.id)
            if outcome.dies:
                dlq = self._dead_letters.topic_for(topic)
        refused, taken, next_ms = outcome.refused, outcome.action_taken, outcome.next_visible_ms
        count = part.count
        for position, offset in zip(share.positions, share.offsets, strict=True):
            receipt = settlements[position].receipt
            if offset in refused:
                results[position] = SettleResult(receipt, topic, number, offset, error=ReceiptExpired(receipt))
            else:
                results[position] = _settled(
                    SettleResult,
                    (receipt, topic, number, offset, taken, count, next_ms, dlq, committed, in_flight, None),
                )


class _Share(NamedTuple):
    """Receipts of one settlement that differ only in their offsets."""

    topic: str
    place: QueuePlace
    lease_id: int
    offsets: list[int]
    positions: list[int]


def one_by_one(
    leases: Sequence[LeasedOffsets], results: Sequence[LeaseSettled], kind: Settlement
) -> tuple[list[Settlement], list[SettleResult]]:
    """Settlements of leases, and their outcomes, receipt by receipt."""
    asked: list[Settlement] = []
    settled: list[SettleResult] = []
    for (place, count, nonce, offsets), result in zip(leases, results, strict=True):
        topic, _, partition = place.rpartition(":")
        for offset in offsets:
            receipt = f"{place}:{offset}:{count}:{nonce}"
            error = result.error if offset not in result.refused else ReceiptExpired(receipt)
            asked.append(kind._replace(receipt=receipt))
            settled.append(
                SettleResult(receipt, error=error)
                if error is not None
                else SettleResult(
                    receipt,
                    topic,
                    int(partition),
                    offset,
                    result.action_taken,
                    count,
                    result.next_visible_ms,
                    result.dead_letter_topic,
                )
            )
    return asked, settled


def check_visibility(visibility_ms: int) -> None:
    """Refuse a visibility that nobody can mean."""
    if not 0 <= visibility_ms <= VISIBILITY_MS_MAX:
        raise InvalidRequest(
            f"visibility is {visibility_ms} ms", field="visibility_timeout", hint=f"use 0 to {VISIBILITY_MS_MAX} ms"
        )

"""Staging: delayed messages in transactions. They are scheduled when the transaction is committed, or never.

The partitions of `__delayed` take part in the transaction like those of topics: they are added to it
first, told of its end by its coordinator, and told again after a crash. In the topic's own partition the
message leaves a hole with its sequence, as every delayed record does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import msgspec

from goqueue.broker.arrival import Arrival, HeldAt
from goqueue.broker.partitions import Partition
from goqueue.codec.batch import BatchHeader
from goqueue.coordinator.shard import Transaction
from goqueue.delay.index import Row
from goqueue.delay.records import Origin, Slot, SlotKey, SlotState
from goqueue.delay.service import DelayService
from goqueue.delay.shards import DELAYED, DelayShard
from goqueue.delay.staged import StagedSlot
from goqueue.delay.store import BATCH_BYTES_MAX, Pair
from goqueue.delay.targets import slices
from goqueue.delay.values import Held, SlotId
from goqueue.errors import InvalidRecord, InvalidTransactionState
from goqueue.records import NewRecord, Record, TopicPartition

_SEQUENCE_MASK = 0x7FFF_FFFF
# Slots that are in memory at once when a transaction ends: each may be as large as a message.
_END_SLOTS_MAX = 100

# (transaction, shard): refuses if the shard is not part of that transaction, or it is not open.
CheckTransaction = Callable[[Transaction, int], None]


class Staged(NamedTuple):
    """Which records of a batch, by position, have which slots; and what to wait for before that is promised."""

    slots: dict[int, HeldAt]
    durable: Awaitable[None] | None


class Staging:
    """Delayed messages of open transactions, in all shards."""

    def __init__(self, service: DelayService, check: CheckTransaction) -> None:
        self._service = service
        self._check = check

    def place_of(self, topic: str) -> TopicPartition:
        """What must be part of a transaction that delays messages of this topic."""
        return TopicPartition(DELAYED, self._service.partition_for(topic))

    async def load(self, topic: str) -> None:
        """Have the shard of a topic at work, which `stage` cannot wait for."""
        await self._service.shard_of(topic)

    def stage(self, shard: DelayShard, arrival: Arrival, dues: Sequence[int | None]) -> Staged | None:
        """Store what is for later of a batch that is about to be written; None if nothing of it is.

        A record that was staged by an earlier attempt stays so, even if its time has come meanwhile.
        """
        place, header, records, now_ms = arrival.partition, arrival.header, arrival.records(), arrival.now_ms
        # Refused before anything is staged: a batch that is not the producer's next one may come again later.
        if place.log.is_of_ended_transaction(header):
            return None
        origins = [_origin(place, header, record) for record in records]
        found = [shard.store.staged.find(place.topic_id.bytes, origin) for origin in origins]
        number = shard.store.partition
        slots = {at: HeldAt(number, one.slot, one.due_ms) for at, one in enumerate(found) if one is not None}
        later = [at for at, due_ms in enumerate(dues) if at not in slots and due_ms is not None and due_ms > now_ms]
        if not slots and not later:
            return None
        self._check_member(header, shard)
        held = [
            Held(
                NewRecord(records[at].key, records[at].value, records[at].headers),
                dues[at] or 0,
                place.id,
                origins[at],
                is_staged=True,
            )
            for at in later
        ]
        outcomes, durable = self._service.hold_now(
            shard, place.topic_name, held, all_or_none=True, caller=arrival.caller
        )
        for at, one, outcome in zip(later, held, outcomes, strict=True):
            if isinstance(outcome, SlotId):
                slots[at] = HeldAt(number, outcome.offset, one.due_ms)
        return Staged(slots, durable)

    async def end_transaction(self, partition: int, transaction: Transaction, /, *, commit: bool) -> None:
        """Schedule or forget what the transaction staged; done once that is durable, and again if asked again."""
        if not self._service.has_shards():
            return
        shard = await self._service.shard(partition)
        while staged := shard.store.staged.of_producer(transaction.producer_id, _END_SLOTS_MAX):
            if commit:
                await self._schedule(shard, staged)
            else:
                shard.store.write([(SlotKey(one.slot), None) for one in staged])
        unsafe = shard.store.durable(shard.store.next_slot)
        if unsafe is not None:
            await unsafe

    async def _schedule(self, shard: DelayShard, staged: Sequence[StagedSlot]) -> None:
        store = shard.store
        whole = await store.read([Row(one.slot, one.place, 0, one.topic) for one in staged])
        for part in slices(list(whole.items()), BATCH_BYTES_MAX):
            store.write([(SlotKey(slot), _pending(one)) for slot, one in part])
            self._service.released(shard, [one.topic for _, one in part])
        # One that is not in the log any more would be staged for ever.
        gone: list[Pair] = [(SlotKey(one.slot), None) for one in staged if one.slot not in whole]
        if gone:
            store.write(gone)

    def _check_member(self, header: BatchHeader, shard: DelayShard) -> None:
        transaction = Transaction(header.producer_id, header.producer_epoch)
        try:
            self._check(transaction, shard.store.partition)
        except InvalidTransactionState as error:
            # The batch itself is of an open transaction: that was looked at before.
            raise InvalidRecord(
                "delayed records are no part of this transaction: the topic did not take them when it began",
                hint="abort the transaction and send it again",
            ) from error


def _origin(place: Partition, header: BatchHeader, record: Record) -> Origin:
    sequence = (header.base_sequence + record.offset - header.base_offset) & _SEQUENCE_MASK
    return Origin(place.id, header.producer_id, header.producer_epoch, sequence)


def _pending(slot: Slot) -> Slot:
    return msgspec.structs.replace(slot, state=SlotState.PENDING.value, origin=None)

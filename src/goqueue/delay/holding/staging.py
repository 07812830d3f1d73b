"""Staging: delayed messages in transactions. They are scheduled when the transaction is committed, or never.

They lie in the delay log of the partition that the transaction writes to, which takes part in it already. When the
transaction ends there, its staged slots end first, then the marker is written to the data log. In the data log the
message leaves a hole with its sequence, as every delayed record does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import msgspec

from goqueue.broker.arrivals.arrival import Arrival, HeldAt
from goqueue.broker.replicas.safety import Operation
from goqueue.coordinator.shard import Transaction
from goqueue.delay.due.index import Row
from goqueue.delay.firing.targets import slices
from goqueue.delay.holding.agreement import sequence_of
from goqueue.delay.holding.records import Origin, Slot, SlotKey, SlotState
from goqueue.delay.holding.staged import StagedSlot
from goqueue.delay.holding.store import BATCH_BYTES_MAX, Pair, Store
from goqueue.delay.service import DelayService
from goqueue.delay.values import Held, SlotId
from goqueue.errors import CoordinatorFenced
from goqueue.records import NewRecord, TopicPartition

# (transaction, partition): refuses if the partition is in no open transaction of the producer; returns the epoch of the
# coordinator that says so.
CheckTransaction = Callable[[Transaction, TopicPartition], int]

# Slots that are in memory at once when a transaction ends: each may be as large as a message.
_END_SLOTS_MAX = 100


class Staged(NamedTuple):
    """Which records of a batch, by position, have which slots; and what to wait for before that is promised."""

    slots: dict[int, HeldAt]
    durable: Awaitable[None] | None


class Staging:
    """Delayed messages of open transactions, in all partitions."""

    def __init__(self, service: DelayService, check: CheckTransaction) -> None:
        self._service = service
        self._check = check

    async def load(self, place: TopicPartition) -> None:
        """Have the store of a partition at work, which `stage` cannot wait for."""
        await self._service.stores.get(place)

    def stage(self, store: Store, arrival: Arrival, dues: Sequence[int | None]) -> Staged | None:
        """Store what is for later of a batch that is about to be written; None if nothing of it is.

        A record that was staged by an earlier attempt stays so, even if its time has come meanwhile.
        """
        place, header, records, now_ms = arrival.partition, arrival.header, arrival.records(), arrival.now_ms
        # Refused before anything is staged: a batch that is not the producer's next one may come again later.
        if place.log.producers.is_of_ended_transaction(header):
            return None
        producer_id, epoch = header.producer_id, header.producer_epoch
        found = [store.staged.find(producer_id, epoch, sequence_of(header, one)) for one in records]
        slots = {at: HeldAt(store.partition, one.slot, one.due_ms) for at, one in enumerate(found) if one is not None}
        later = [at for at, due_ms in enumerate(dues) if at not in slots and due_ms is not None and due_ms > now_ms]
        if not slots and not later:
            return None
        coordinator_epoch = self._check(Transaction(producer_id, epoch), place.key)
        held = [
            Held(
                NewRecord(records[at].key, records[at].value, records[at].headers),
                dues[at] or 0,
                place.id,
                Origin(place.id, producer_id, epoch, sequence_of(header, records[at]), coordinator_epoch),
                is_staged=True,
            )
            for at in later
        ]
        outcomes, durable = self._service.hold_now(store, held, all_or_none=True, caller=arrival.caller)
        for at, one, outcome in zip(later, held, outcomes, strict=True):
            if isinstance(outcome, SlotId):
                slots[at] = HeldAt(store.partition, outcome.offset, one.due_ms)
        return Staged(slots, durable)

    async def end_staged(
        self, place: TopicPartition, transaction: Transaction, /, *, commit: bool, coordinator_epoch: int
    ) -> None:
        """Schedule or forget what the transaction staged; done once that is durable, and again if asked again.

        Slots of a later epoch of the producer are another transaction's. A coordinator that was replaced is refused:
        its successor has ended this transaction, and what is staged by now belongs to the next.
        """
        if not self._service.stores.has(place):
            return
        store = await self._service.stores.get(place)
        producer_id = transaction.producer_id
        while staged := store.staged.of_producer(producer_id, transaction.producer_epoch, _END_SLOTS_MAX):
            whole = await store.read([Row(store.key(one.slot), one.offset, 0) for one in staged]) if commit else {}
            # Looked at in the same step as the write: meanwhile others may have ended it.
            _check_coordinator(store, producer_id, coordinator_epoch)
            still = [one for one in staged if store.staged.find(producer_id, one.producer_epoch, one.sequence) == one]
            self._end(store, still, whole)
        unsafe = store.safe(Operation.END)
        if unsafe is not None:
            await unsafe

    def _end(self, store: Store, staged: Sequence[StagedSlot], whole: dict[int, Slot]) -> None:
        pending = [(one.slot, whole[one.slot]) for one in staged if one.slot in whole]
        for part in slices(pending, BATCH_BYTES_MAX):
            store.write([(SlotKey(slot), _pending(one)) for slot, one in part])
            self._service.released(store, len(part))
        # Aborted; or not in the log any more, and it would be staged for ever.
        gone: list[Pair] = [(SlotKey(one.slot), None) for one in staged if one.slot not in whole]
        if gone:
            store.write(gone)


def _check_coordinator(store: Store, producer_id: int, coordinator_epoch: int) -> None:
    known = max(
        store.data.log.producers.coordinator_epoch_of(producer_id), store.staged.coordinator_epoch_of(producer_id)
    )
    if 0 <= coordinator_epoch < known:
        raise CoordinatorFenced(
            f"the end of a transaction of producer {producer_id} comes from coordinator epoch {coordinator_epoch}, "
            f"but epoch {known} has begun since"
        )


def _pending(slot: Slot) -> Slot:
    return msgspec.structs.replace(slot, state=SlotState.PENDING.value, origin=None)

"""Promises: receipts that a transaction settles if it is committed.

The partition whose messages they are takes part in the transaction: it is added to it first, told of its end by the
coordinator, and told again after a crash. A promise carries the epochs of the producer and of the coordinator that
says that the transaction is open; the end that a coordinator decided which was replaced since is refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from goqueue.coordinator.runtime import Shards
from goqueue.coordinator.shard import Transaction
from goqueue.delivery.settlement.settler import REASON_CHARS_MAX, Settler
from goqueue.delivery.shards import DeliveryLogs
from goqueue.delivery.state.commands import EndPromises, FreshShare, Promise, Reopen, Settle, SettleShare, ShareSettled
from goqueue.delivery.state.records import QueueId, QueuePlace
from goqueue.delivery.values import Action
from goqueue.errors import ReceiptExpired
from goqueue.records import TopicPartition

# (transaction, partition): refuses if the partition is not part of that transaction, or it is not open; returns the
# epoch of the coordinator that says so.
CheckTransaction = Callable[[Transaction, TopicPartition], int]
# (transaction, partition): asks the coordinator, if that is another node, so that the check has an answer.
VerifyTransaction = Callable[[Transaction, TopicPartition], Awaitable[None]]


class Promises:
    """Makes promises, keeps them or forgets them."""

    def __init__(
        self,
        shards: Shards[QueuePlace],
        logs: DeliveryLogs,
        settler: Settler,
        check: CheckTransaction,
        verify: VerifyTransaction,
    ) -> None:
        self._verify = verify
        self._shards = shards
        self._logs = logs
        self._settler = settler
        self._check = check

    def places_of(self, receipts: Sequence[str]) -> list[TopicPartition]:
        """The partitions that must be part of a transaction that settles these."""
        return sorted({self._settler.place_of(receipt) for receipt in receipts})

    async def make(self, receipts: Sequence[str], transaction: Transaction, *, rejected: bool, reason: str) -> None:
        """Promise all receipts; the first bad one raises, and then nothing of its partition is promised."""
        action = Action.REJECT if rejected else Action.ACK
        by_place: dict[QueuePlace, dict[tuple[int, int], SettleShare]] = {}
        names: dict[tuple[int, int, int], str] = {}
        for receipt in receipts:
            _, place, lease_id, count, offset = self._settler.locate(receipt)
            share = SettleShare(lease_id, count, action, [], reason=reason[:REASON_CHARS_MAX])
            by_place.setdefault(place, {}).setdefault((lease_id, count), share).offsets.append(offset)
            names[lease_id, count, offset] = receipt
        for place, shares in by_place.items():
            epoch = await self._checked(place, transaction)
            command = Promise(transaction.producer_id, list(shares.values()), transaction.producer_epoch, epoch)
            outcomes: list[ShareSettled] = await self._shards.submit_to(place, command)
            for share, outcome in zip(shares.values(), outcomes, strict=True):
                for offset in sorted(outcome.refused):
                    raise ReceiptExpired(names[share.lease_id, share.count, offset])

    async def reopen(self, queue_id: QueueId, shares: Sequence[FreshShare], transaction: Transaction) -> None:
        """Let the transaction make settled messages available again. Their partition must be part of it."""
        epoch = await self._checked(queue_id.place, transaction)
        command = Reopen(transaction.producer_id, queue_id, shares, transaction.producer_epoch, epoch)
        await self._shards.submit_to(queue_id.place, command)

    async def end(
        self, place: QueuePlace, transaction: Transaction, *, commit: bool, coordinator_epoch: int
    ) -> tuple[QueueId, ...]:
        """Keep or forget what the transaction promised; returns the queues concerned once that is durable."""
        if not self._logs.exists(place):
            return ()
        command = EndPromises(transaction.producer_id, commit, transaction.producer_epoch, coordinator_epoch)
        queues: tuple[QueueId, ...] = await self._shards.submit_to(place, command)
        return queues

    async def _checked(self, place: QueuePlace, transaction: Transaction) -> int:
        # Before anything is written: what is written and then refused costs the shard, and is there all the same.
        self._logs.check_copies(place)
        # In memory first, so that nothing comes between the look at the transaction and the promise.
        await self._shards.submit_to(place, Settle(()))
        await self._verify(transaction, self._logs.named(place))
        return self._check(transaction, self._logs.named(place))

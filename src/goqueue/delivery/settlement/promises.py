"""Promises: receipts that a transaction settles if it is committed.

The partitions of `__delivery_state` take part in the transaction like those of topics: they are
added to it first, told of its end by its coordinator, and told again after a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from goqueue.coordinator.runtime import Coordinator
from goqueue.coordinator.shard import Transaction
from goqueue.delivery.commands import EndPromises, FreshShare, Promise, Reopen, Settle, SettleShare, ShareSettled
from goqueue.delivery.records import QueueId
from goqueue.delivery.settlement.settler import REASON_CHARS_MAX, Settler
from goqueue.delivery.values import Action
from goqueue.errors import ReceiptExpired

# (transaction, shard): refuses if the shard is not part of that transaction, or it is not open.
CheckTransaction = Callable[[Transaction, int], None]


class Promises:
    """Makes promises, keeps them or forgets them."""

    def __init__(self, coordinator: Coordinator, settler: Settler, check: CheckTransaction | None) -> None:
        self._coordinator = coordinator
        self._settler = settler
        self._check = check

    def shards_of(self, receipts: Sequence[str]) -> list[int]:
        """The shards that must be part of a transaction that settles these."""
        return sorted({self._settler.locate(receipt).shard for receipt in receipts})

    async def make(self, receipts: Sequence[str], transaction: Transaction, *, rejected: bool, reason: str) -> None:
        """Promise all receipts; the first bad one raises, and then nothing of its shard is promised."""
        action = Action.REJECT if rejected else Action.ACK
        by_shard: dict[int, dict[tuple[int, int], SettleShare]] = {}
        names: dict[tuple[int, int, int], str] = {}
        for receipt in receipts:
            shard, lease_id, count, offset = self._settler.locate(receipt)
            share = SettleShare(lease_id, count, action, [], reason=reason[:REASON_CHARS_MAX])
            by_shard.setdefault(shard, {}).setdefault((lease_id, count), share).offsets.append(offset)
            names[lease_id, count, offset] = receipt
        for shard, shares in by_shard.items():
            # In memory, so that nothing comes between the look at the transaction and the promise.
            await self._coordinator.submit_to(shard, Settle(()))
            if self._check is not None:
                self._check(transaction, shard)
            command = Promise(transaction.producer_id, list(shares.values()))
            outcomes: list[ShareSettled] = await self._coordinator.submit_to(shard, command)
            for share, outcome in zip(shares.values(), outcomes, strict=True):
                for offset in sorted(outcome.refused):
                    raise ReceiptExpired(names[share.lease_id, share.count, offset])

    async def reopen(self, queue_id: QueueId, shares: Sequence[FreshShare], transaction: Transaction) -> None:
        """Let the transaction make settled messages available again. Its shard must be part of it."""
        shard = self.shard_of(queue_id)
        await self._coordinator.submit_to(shard, Settle(()))
        if self._check is not None:
            self._check(transaction, shard)
        await self._coordinator.submit_to(shard, Reopen(transaction.producer_id, queue_id, shares))

    def shard_of(self, queue_id: QueueId) -> int:
        """The shard that must be part of a transaction that reopens messages of this queue."""
        return self._coordinator.partition_for(queue_id.text)

    async def end(self, shard: int, transaction: Transaction, *, commit: bool) -> tuple[QueueId, ...]:
        """Keep or forget what the transaction promised; returns the queues concerned once that is durable."""
        queues: tuple[QueueId, ...] = await self._coordinator.submit_to(
            shard, EndPromises(transaction.producer_id, commit)
        )
        return queues

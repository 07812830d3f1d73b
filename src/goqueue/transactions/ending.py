"""Ending: how a decided transaction ends at one of its partitions, which this node leads.

A transaction has one kind of participant, the data partition. What waits there for the end lies in the partition's
family of logs: staged delayed messages, promised acknowledgements, and records. They are ended in this order, and the
call is done when all of that is durable. It may be repeated: what has ended is not ended again, only waited for.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from goqueue.broker.arrivals.append_anywhere import AppendAnywhere
from goqueue.broker.replicas.partitions import Partitions
from goqueue.clock import Clock
from goqueue.codec.markers import encode_marker
from goqueue.coordinator.shard import Transaction
from goqueue.records import Acks, TopicPartition
from goqueue.transactions.open_transactions import OpenTransactions


class EndAt(Protocol):
    """Ends a transaction at one partition, wherever that is led."""

    def __call__(
        self, place: TopicPartition, transaction: Transaction, /, *, commit: bool, coordinator_epoch: int
    ) -> Awaitable[None]:
        """Done once the end is durable there. `coordinator_epoch` fences coordinators that have been replaced."""
        ...


class Ending:
    """The `EndAt` of a node for the partitions that it leads."""

    def __init__(
        self,
        partitions: Partitions,
        append: AppendAnywhere,
        clock: Clock,
        open_transactions: OpenTransactions,
        *,
        offsets_topic: str,
        end_offsets: EndAt,
        end_staged: EndAt,
        end_promises: EndAt,
    ) -> None:
        self._partitions = partitions
        self._append = append
        self._clock = clock
        self._open = open_transactions
        # The groups' own topic: its marker is written by whoever keeps the offsets that wait for it.
        self._offsets_topic = offsets_topic
        self._end_offsets = end_offsets
        self._end_staged = end_staged
        self._end_promises = end_promises

    async def __call__(
        self, place: TopicPartition, transaction: Transaction, /, *, commit: bool, coordinator_epoch: int
    ) -> None:
        """End it here; raises NotLeader elsewhere, and what a partition says to a coordinator that was replaced."""
        if place.topic == self._offsets_topic:
            self._open.forget_verified(transaction.producer_id, place)
            await self._end_offsets(place, transaction, commit=commit, coordinator_epoch=coordinator_epoch)
            return
        await self._partitions.open_leader(*place)
        self._open.check_end(place, transaction, coordinator_epoch)
        # What is verified from here on is verified against the transaction after this one.
        self._open.forget_verified(transaction.producer_id, place)
        await self._end_staged(place, transaction, commit=commit, coordinator_epoch=coordinator_epoch)
        await self._end_promises(place, transaction, commit=commit, coordinator_epoch=coordinator_epoch)
        await self._mark(place, transaction, commit=commit, coordinator_epoch=coordinator_epoch)

    async def _mark(
        self, place: TopicPartition, transaction: Transaction, *, commit: bool, coordinator_epoch: int
    ) -> None:
        """Write the marker if the producer has written here since its last one."""
        partition = await self._partitions.open_leader(*place)
        # Nothing is awaited between this look and the marker.
        self._open.check_end(place, transaction, coordinator_epoch)
        if not partition.log.producers.has_open_transaction(transaction.producer_id):
            # An earlier call may have written the marker, which need not be durable yet.
            if partition.log.producers.knows(transaction.producer_id):
                unsafe = partition.writer.reached(partition.log.end_offset, Acks.ALL)
                if unsafe is not None:
                    await unsafe
            return
        marker = encode_marker(
            commit,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            coordinator_epoch=coordinator_epoch,
            now_ms=self._clock.now_ms(),
        )
        await self._append(place, marker, Acks.ALL)

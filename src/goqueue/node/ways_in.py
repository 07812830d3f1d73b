"""The ways in: the one ordered list of steps that every batch passes, and what is asked of clients besides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from goqueue.broker.arrivals.arrival import AfterAppend, ChecksValues, Step
from goqueue.broker.arrivals.deduplication.step import RemoveRepeats
from goqueue.broker.arrivals.deduplication.windows import Deduplication
from goqueue.broker.arrivals.disk_guard import DiskGuard
from goqueue.broker.arrivals.publish import PublishService
from goqueue.broker.arrivals.steps import FindLane, Limits, RefuseInternal, RequireKeys, StampRecords, TellHooks, Write
from goqueue.broker.replicas.partitions import Partitions
from goqueue.clock import Clock
from goqueue.coordinator.shard import Transaction
from goqueue.transactions.open_transactions import OpenTransactions


class WayIn(NamedTuple):
    """What the list is made of."""

    partitions: Partitions
    clock: Clock
    disk_guard: DiskGuard
    open_transactions: OpenTransactions
    deduplication: Deduplication
    # Told of every batch that is stored, whoever sent it.
    hooks: Sequence[AfterAppend] = ()

    def through(self, *asked_of_clients: Step, values: ChecksValues | None = None) -> PublishService:
        """The service whose batches pass these steps, in this order.

        What is `asked_of_clients` is not asked of the broker's own batches (dead letters, delayed messages that
        are due): those were taken in before, and must not be refused or held back now.
        """
        steps: list[Step] = [
            RefuseInternal(),
            Limits(),
            self.disk_guard,
            self.open_transactions,
            StampRecords(),
            RequireKeys(),
            *asked_of_clients,
            RemoveRepeats(self.deduplication),
            FindLane(),
            Write(),
            TellHooks(self.hooks),
        ]
        return PublishService(
            self.partitions,
            clock=self.clock,
            steps=steps,
            deduplication=self.deduplication,
            values=values,
            verify=lambda producer_id, epoch, place: self.open_transactions.verify(
                Transaction(producer_id, epoch), place
            ),
        )

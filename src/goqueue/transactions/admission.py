"""Admission: a batch that makes its partition part of the transaction by itself waits for that to be durable.

Written earlier, it could outlive the note that the partition belongs to a transaction, and
nobody would ever end it there. While a producer's note is on its way all its batches wait for
the newest one, so they are written in the order in which they came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection

from goqueue.records import TopicPartition
from goqueue.transactions.commands import AddPartitions, Producer
from goqueue.transactions.names import Name, Participant
from goqueue.transactions.open_transactions import OpenTransactions

Submit = Callable[[Name, AddPartitions], Awaitable[object]]


class Admission:
    """Adds partitions to transactions on the first batch for them."""

    def __init__(
        self,
        open_transactions: OpenTransactions,
        submit: Submit,
        may_add: Callable[[TopicPartition], bool],
    ) -> None:
        self._open = open_transactions
        self._submit = submit
        self._may_add = may_add
        # By producer id, the newest note on its way.
        self._gates: dict[int, asyncio.Task[None]] = {}

    def admit(
        self,
        producer: Producer,
        places: Collection[TopicPartition],
        *,
        implicit: bool = False,
        number: int | None = None,
    ) -> asyncio.Future[None] | None:
        """None if the producer's batches for these partitions may be written now, else what they wait for.

        Participants add partitions by writing to them; others only if they are `implicit`. Whoever
        may not is let through: the partition itself refuses the batch, and says why. With `number`
        partitions are added to that transaction only, and none begins.
        """
        known = self._open.get(producer.producer_id)
        if known is None or known.epoch != producer.epoch:
            return None
        if not implicit and not isinstance(known.name, Participant):
            return None
        gate = self._gates.get(producer.producer_id)
        wanted = frozenset(place for place in places if place not in known.partitions and self._may_add(place))
        if wanted:
            command = AddPartitions(known.name, producer, wanted, number)
            adding = self._add(command, gate)
            gate = self._gates[producer.producer_id] = asyncio.get_running_loop().create_task(adding)
            gate.add_done_callback(lambda done: self._forget(producer.producer_id, done))
        return gate

    async def _add(self, command: AddPartitions, earlier: asyncio.Future[None] | None) -> None:
        try:
            await self._submit(command.name, command)
        except BaseException:
            self._open.withdraw(command.producer.producer_id, command.partitions)
            raise
        finally:
            if earlier is not None:
                await asyncio.wait([earlier])

    def _forget(self, producer_id: int, done: asyncio.Task[None]) -> None:
        if self._gates.get(producer_id) is done:
            del self._gates[producer_id]
        if not done.cancelled():
            # Whoever waits for it is told; it need not be reported again when nobody does.
            done.exception()

"""The end of a transaction that a replaced coordinator sends late does not end the next one of the same producer.

The partition changed its leader in between: the new one has not been told by anybody what is open there.
"""

from __future__ import annotations

from typing import Any, cast

import pytest

from goqueue.anywhere.asking import Asking
from goqueue.anywhere.transactions.transactions import EndAnywhere
from goqueue.caller import INTERNAL
from goqueue.coordinator.shard import Transaction
from goqueue.errors import CoordinatorFenced
from goqueue.records import TopicPartition
from goqueue.transactions.open_transactions import OpenTransactions, ShardProducers

PLACE = TopicPartition("orders", 1)
TRANSACTION = Transaction(7, 3)


class Homes:
    """Node 2 leads the partition; `epoch` is that of the coordinator in its metadata."""

    def __init__(self, node_id: int, epoch: int) -> None:
        self.node_id = node_id
        self.epoch = epoch

    def leader_of(self, _place: TopicPartition) -> int:
        return 2

    def coordinator_epoch(self, _topic: str, key: str) -> int:
        assert key == "tx"
        return self.epoch


class Wire(Asking):
    """What one node asks, the other is asked."""

    def __init__(self, homes: Homes, peer: Wire | None = None) -> None:
        self.homes = cast("Any", homes)
        self._peer = peer
        self.handler: Any = None

    def answer(self, _method: Any, handler: Any) -> None:
        self.handler = handler

    async def ask(self, _node: int, _method: Any, question: Any, *_: Any, **__: Any) -> Any:
        assert self._peer is not None
        return await self._peer.handler(question, INTERNAL)


class Nodes:
    """A coordinator on node 1 and a partition on node 2, which knows of nothing that is open there."""

    def __init__(self, *, epoch_there: int) -> None:
        self.ended: list[int] = []
        self.there = Wire(Homes(2, epoch_there))
        EndAnywhere(self.end, self.there, OpenTransactions())
        producers, known = ShardProducers(), OpenTransactions()
        producers.put(7, "tx", 3, frozenset([PLACE]), 0)
        known.show(0, producers, 5)
        self.end_at = EndAnywhere(self.end, Wire(Homes(1, 5), self.there), known)

    async def end(
        self, _place: TopicPartition, _transaction: Transaction, *, commit: bool, coordinator_epoch: int
    ) -> None:
        assert commit
        self.ended.append(coordinator_epoch)


async def test_an_end_from_a_coordinator_that_the_metadata_says_was_replaced_is_refused() -> None:
    nodes = Nodes(epoch_there=6)
    with pytest.raises(CoordinatorFenced):
        await nodes.end_at(PLACE, TRANSACTION, commit=True, coordinator_epoch=5)
    assert nodes.ended == []


async def test_the_end_from_the_present_coordinator_is_carried_out_also_where_the_metadata_is_behind() -> None:
    for epoch_there in (5, 4, -1):
        nodes = Nodes(epoch_there=epoch_there)
        await nodes.end_at(PLACE, TRANSACTION, commit=True, coordinator_epoch=5)
        assert nodes.ended == [5]


async def test_an_operator_speaks_for_no_coordinator() -> None:
    nodes = Nodes(epoch_there=6)
    await nodes.end_at(PLACE, TRANSACTION, commit=True, coordinator_epoch=-1)
    assert nodes.ended == [-1]

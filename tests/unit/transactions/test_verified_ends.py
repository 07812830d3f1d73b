"""What another node's coordinator verified is not ended by the coordinator before it."""

from __future__ import annotations

import pytest

from goqueue.coordinator.shard import Transaction
from goqueue.errors import CoordinatorFenced
from goqueue.records import TopicPartition
from goqueue.transactions.commands import Producer
from goqueue.transactions.open_transactions import OpenTransactions

PLACE = TopicPartition("t", 0)


def test_a_coordinator_that_was_replaced_does_not_end_what_its_successor_verified() -> None:
    known, transaction = OpenTransactions(), Transaction(7, 0)
    known.note_verified(Producer(7, 0), PLACE, coordinator_epoch=6, number=0)
    with pytest.raises(CoordinatorFenced):
        known.check_end(PLACE, transaction, 5)
    assert known.check(transaction, PLACE) == 6, "the transaction goes on"
    known.check_end(PLACE, transaction, 6)
    known.check_end(TopicPartition("t", 1), transaction, 5)
    known.check_end(PLACE, transaction, -1)

"""Offsets of a transaction that is aborted: a group that nothing else knows of is not kept for them."""

from __future__ import annotations

from uuid import UUID

from tests.unit.groups.driver import Bench

from goqueue.coordinator.shard import Transaction
from goqueue.groups.commands import CommitInTransaction, CommitOffsets, OffsetToCommit
from goqueue.groups.machine import GroupMachine
from goqueue.groups.statistics import Rebalances


def test_a_group_that_only_an_aborted_transaction_knew_is_not_kept() -> None:
    bench = Bench()
    moved: list[object] = []
    machine = GroupMachine(
        bench.config,
        bench.topics,
        Rebalances(),
        lambda _transaction, _shard: None,
        on_moved=lambda *move: moved.append(move),
    )
    for number in range(3):
        offset = OffsetToCommit("t", UUID(int=1), 0, 5, -1, "")
        commit = CommitOffsets(f"group-{number}", (offset,), "", -1, None)
        machine.decide(0, CommitInTransaction(commit, Transaction(7, 0), 0), 1_000)
    machine.release(7)
    assert not machine._table
    assert not moved

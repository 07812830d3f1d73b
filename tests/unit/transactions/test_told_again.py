"""What the coordinator before wrote is told again by its successor only once all in-sync replicas have synced it."""

from __future__ import annotations

import pytest
from tests.unit.delivery.driver import ListJournal
from tests.unit.transactions.driver import A0, Bench

from goqueue.coordinator.shard import Entry, Shard
from goqueue.transactions.commands import AddPartitions, Describe, EndTransaction, Prepared, Producer, WatchPrepared
from goqueue.transactions.machine import TransactionMachine
from goqueue.transactions.open_transactions import ShardProducers


def successor(bench: Bench) -> Shard:
    """Another node has loaded the log."""
    shard = Shard(TransactionMachine(bench.config, ShardProducers()), ListJournal(), end_offset=0)
    for number, record in enumerate(bench.log, 1):
        shard.take(Entry(number, [record]))
    shard.loaded_to(len(bench.log))
    return shard


@pytest.fixture
def bench() -> Bench:
    return Bench()


def begun(bench: Bench) -> Producer:
    producer = bench.init()
    bench.ask(AddPartitions("tx", producer, frozenset({A0})))
    return producer


def test_a_decision(bench: Bench) -> None:
    producer = begun(bench)
    commit = EndTransaction("tx", producer, commit=True)
    bench.ask(commit)
    shard, now_ms = successor(bench), bench.now_ms
    assert list(shard.submit(0, commit, now_ms)) == []
    assert shard.durable_to(shard.written_end) == [(0, producer)]
    assert list(shard.submit(1, commit, now_ms)) == [(1, producer)], "that is waited for once"


def test_a_decision_is_carried_out_no_earlier(bench: Bench) -> None:
    bench.ask(EndTransaction("tx", begun(bench), commit=True))
    shard = successor(bench)
    assert list(shard.submit(0, WatchPrepared(), bench.now_ms)) == []
    ((_, told),) = shard.durable_to(shard.written_end)
    assert isinstance(told, tuple)
    assert [(type(one), one.commit) for one in told] == [(Prepared, True)]


def test_a_partition_of_the_transaction(bench: Bench) -> None:
    add = AddPartitions("tx", begun(bench), frozenset({A0}))
    shard = successor(bench)
    assert list(shard.submit(0, add, bench.now_ms)) == []
    assert shard.durable_to(shard.written_end) == [(0, None)]


def test_a_look_waits_for_nothing_nor_does_a_watcher_of_whom_nothing_is_kept(bench: Bench) -> None:
    begun(bench)
    shard = successor(bench)
    assert list(shard.submit(0, WatchPrepared(), bench.now_ms)) == []
    assert not shard.holds_replies
    assert [ticket for ticket, _ in shard.submit(1, Describe("tx"), bench.now_ms)] == [1]

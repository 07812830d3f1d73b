"""The transaction machine: epochs, decisions, timeouts, and what a restart remembers."""

from __future__ import annotations

import pytest

from goqueue.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTransactionState,
    ProducerFenced,
    TransactionalIdNotFound,
    TransactionFenced,
)
from goqueue.transactions.commands import AbortAny, Completed, Describe, Producer
from goqueue.transactions.machine import EXPIRY_CHECK_MS
from goqueue.transactions.records import TransactionState
from goqueue.transactions.transitions import EPOCH_MAX

from .driver import A0, A1, B0, START_MS, Bench

# --- producers and their epochs -----------------------------------------------------------


def test_a_new_id_gets_a_producer_id_and_epoch_zero() -> None:
    bench = Bench()
    producer = bench.init()
    assert producer == Producer(101, 0)
    assert bench.state() is TransactionState.EMPTY


def test_each_initialisation_raises_the_epoch_of_the_same_producer_id() -> None:
    bench = Bench()
    assert [bench.init().epoch for _ in range(3)] == [0, 1, 2]
    assert bench.described().producer_id == 101


def test_two_ids_have_two_producer_ids() -> None:
    bench = Bench()
    assert bench.init("one").producer_id != bench.init("two").producer_id


def test_a_zombie_is_refused_on_add_and_on_end() -> None:
    bench = Bench()
    old = bench.init()
    bench.init()
    with pytest.raises(TransactionFenced):
        bench.add(old, A0)
    with pytest.raises(TransactionFenced):
        bench.end(old, commit=True)


def test_an_id_that_nobody_initialised_or_another_ones_producer_is_refused() -> None:
    bench = Bench()
    with pytest.raises(InvalidProducerIdMapping):
        bench.add(Producer(1, 0), A0)
    bench.init()
    with pytest.raises(InvalidProducerIdMapping):
        bench.add(Producer(1, 0), A0)


def test_a_producer_that_raises_its_own_epoch_may_ask_again_when_the_answer_was_lost() -> None:
    bench = Bench()
    first = bench.init()
    second = bench.init(current=first)
    assert second.epoch == 1
    assert bench.init(current=first) == second


def test_a_zombie_cannot_raise_its_epoch() -> None:
    bench = Bench()
    old = bench.init()
    bench.init()
    with pytest.raises(TransactionFenced):
        bench.init(current=old)


def test_when_the_epochs_are_used_up_the_id_gets_a_new_producer_id() -> None:
    bench = Bench()
    first = bench.init()
    epochs = [bench.init().epoch for _ in range(EPOCH_MAX - 1)]
    assert epochs[-1] == EPOCH_MAX - 1
    rotated = bench.init()
    assert rotated.epoch == 0
    assert rotated.producer_id != first.producer_id


def test_the_last_epoch_can_still_be_fenced() -> None:
    bench = Bench()
    for _ in range(EPOCH_MAX):
        last = bench.init()
    bench.add(last, A0)
    with pytest.raises(ConcurrentTransactions):
        bench.init()
    (prepared,) = bench.complete_all()
    assert prepared.producer == Producer(last.producer_id, EPOCH_MAX)
    assert bench.init().epoch == 0


# --- a transaction ------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_is_decided_told_and_completed(commit: bool) -> None:
    bench = Bench()
    producer = bench.init()
    watcher = bench.watch()
    bench.add(producer, A0, A1)
    bench.add(producer, B0)
    assert bench.state() is TransactionState.ONGOING
    assert bench.told(watcher) == ()
    bench.end(producer, commit=commit)
    (prepared,) = bench.told(watcher)
    assert (prepared.commit, prepared.partitions, prepared.producer) == (commit, {A0, A1, B0}, producer)
    bench.ask(Completed("tx", prepared.number))
    assert bench.state() is (TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT)


def test_the_watcher_is_told_of_a_decision_once() -> None:
    bench = Bench()
    producer = bench.init()
    bench.add(producer, A0)
    bench.end(producer, commit=True)
    assert len(bench.told(bench.watch())) == 1
    assert bench.told(bench.watch()) == ()


def test_asking_again_for_the_same_end_is_answered_the_same_and_writes_nothing() -> None:
    bench = Bench()
    producer = bench.init()
    bench.add(producer, A0)
    bench.end(producer, commit=True)
    size = len(bench.log)
    bench.end(producer, commit=True)
    bench.complete_all()
    bench.end(producer, commit=True)
    assert len(bench.log) == size + 1  # the completion


def test_what_is_decided_cannot_be_decided_otherwise() -> None:
    bench = Bench()
    producer = bench.init()
    bench.add(producer, A0)
    bench.end(producer, commit=True)
    with pytest.raises(InvalidTransactionState):
        bench.end(producer, commit=False)
    bench.complete_all()
    with pytest.raises(InvalidTransactionState):
        bench.end(producer, commit=False)


def test_there_is_nothing_to_end_before_the_first_partition() -> None:
    bench = Bench()
    producer = bench.init()
    with pytest.raises(InvalidTransactionState):
        bench.end(producer, commit=True)


def test_the_next_transaction_waits_until_the_last_is_completed() -> None:
    bench = Bench()
    producer = bench.init()
    bench.add(producer, A0)
    bench.end(producer, commit=True)
    with pytest.raises(ConcurrentTransactions):
        bench.add(producer, B0)
    bench.complete_all()
    bench.add(producer, B0)
    assert bench.described().partitions == (B0,)


def test_adding_a_partition_again_writes_nothing() -> None:
    bench = Bench()
    producer = bench.init()
    bench.add(producer, A0, A1)
    size = len(bench.log)
    bench.add(producer, A1)
    assert len(bench.log) == size


def test_a_late_completion_does_not_complete_the_next_transaction() -> None:
    bench = Bench()
    producer = bench.init()
    bench.add(producer, A0)
    bench.end(producer, commit=True)
    (first,) = bench.complete_all()
    bench.add(producer, A0)
    bench.end(producer, commit=False)
    bench.ask(Completed("tx", first.number))
    assert bench.state() is TransactionState.PREPARE_ABORT


# --- what is left behind ------------------------------------------------------------------


def test_initialising_again_aborts_what_the_old_producer_left_open() -> None:
    """The abort is carried out, not only noted."""
    bench = Bench()
    watcher = bench.watch()
    old = bench.init()
    bench.add(old, A0)
    with pytest.raises(ConcurrentTransactions):
        bench.init()
    (prepared,) = bench.told(watcher)
    assert not prepared.commit
    assert prepared.producer.epoch == old.epoch + 1
    with pytest.raises(ConcurrentTransactions):
        bench.init()
    bench.ask(Completed("tx", prepared.number))
    assert bench.init().epoch == old.epoch + 2
    with pytest.raises(TransactionFenced):
        bench.end(old, commit=True)


def test_initialising_again_does_not_change_what_was_decided() -> None:
    bench = Bench()
    old = bench.init()
    bench.add(old, A0)
    bench.end(old, commit=True)
    with pytest.raises(ConcurrentTransactions):
        bench.init()
    (prepared,) = bench.complete_all()
    assert prepared.commit
    assert bench.init().epoch == old.epoch + 1


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced() -> None:
    bench = Bench()
    watcher = bench.watch()
    producer = bench.init(timeout_ms=5000)
    bench.add(producer, A0)
    bench.pass_ms(4999)
    assert bench.state() is TransactionState.ONGOING
    bench.pass_ms(1)
    (prepared,) = bench.told(watcher)
    assert not prepared.commit
    assert prepared.producer.epoch == producer.epoch + 1
    with pytest.raises(TransactionFenced):
        bench.end(producer, commit=True)


def test_the_timeout_counts_from_the_first_partition_not_from_the_last() -> None:
    bench = Bench()
    producer = bench.init(timeout_ms=5000)
    bench.add(producer, A0)
    bench.pass_ms(4000)
    bench.add(producer, A1)
    bench.pass_ms(1000)
    assert bench.state() is TransactionState.PREPARE_ABORT


def test_a_decided_transaction_does_not_time_out() -> None:
    bench = Bench()
    producer = bench.init(timeout_ms=5000)
    bench.add(producer, A0)
    bench.end(producer, commit=True)
    bench.pass_ms(100_000)
    assert bench.state() is TransactionState.PREPARE_COMMIT


def test_an_operator_can_abort_an_open_transaction_and_nothing_else() -> None:
    bench = Bench()
    producer = bench.init()
    with pytest.raises(InvalidTransactionState):
        bench.ask(AbortAny("tx"))
    bench.add(producer, A0)
    bench.ask(AbortAny("tx"))
    assert bench.state() is TransactionState.PREPARE_ABORT
    with pytest.raises(TransactionFenced):
        bench.end(producer, commit=True)


def test_an_id_that_nobody_uses_is_forgotten_but_not_while_it_is_used() -> None:
    bench = Bench(id_expiration_ms=10 * EXPIRY_CHECK_MS)
    bench.init("idle")
    open_producer = bench.init("open", timeout_ms=2**40)
    bench.add(open_producer, A0, name="open")
    bench.pass_ms(12 * EXPIRY_CHECK_MS)
    with pytest.raises(TransactionalIdNotFound):
        bench.ask(Describe("idle"))
    assert bench.state("open") is TransactionState.ONGOING


# --- restarts -----------------------------------------------------------------------------


@pytest.mark.parametrize("from_snapshot", [True, False])
@pytest.mark.parametrize("commit", [True, False])
def test_after_a_restart_the_watcher_is_told_of_every_decision_that_is_not_completed(
    commit: bool, from_snapshot: bool
) -> None:
    """What was decided before the crash is what happens after it."""
    bench = Bench()
    producer = bench.init()
    bench.add(producer, A0)
    watcher = bench.watch()
    bench.end(producer, commit=commit)
    told = bench.told(watcher)
    bench.restart(from_snapshot=from_snapshot)
    assert bench.told(bench.watch()) == told
    with pytest.raises(InvalidTransactionState):
        bench.end(producer, commit=not commit)


def test_after_a_restart_an_open_transaction_goes_on_and_still_times_out() -> None:
    """Open transactions survive, in a snapshot too."""
    for from_snapshot in (True, False):
        bench = Bench()
        producer = bench.init(timeout_ms=5000)
        bench.add(producer, A0)
        bench.restart(from_snapshot=from_snapshot)
        bench.open.check_member(producer.producer_id, producer.epoch, A0)
        bench.add(producer, B0)
        bench.pass_ms(5000)
        assert bench.state() is TransactionState.PREPARE_ABORT
        assert bench.now_ms == START_MS + 5000


# --- what partitions are told about open transactions ---------------------------------------


def test_only_partitions_of_the_open_transaction_take_its_batches() -> None:
    bench = Bench()
    producer = bench.init()
    with pytest.raises(InvalidTransactionState):
        bench.open.check_member(producer.producer_id, producer.epoch, A0)
    bench.add(producer, A0)
    bench.open.check_member(producer.producer_id, producer.epoch, A0)
    with pytest.raises(InvalidTransactionState):
        bench.open.check_member(producer.producer_id, producer.epoch, A1)
    bench.end(producer, commit=True)
    with pytest.raises(InvalidTransactionState):
        bench.open.check_member(producer.producer_id, producer.epoch, A0)


def test_a_zombies_batch_is_fenced_even_where_it_never_wrote() -> None:
    bench = Bench()
    old = bench.init()
    new = bench.init()
    bench.add(new, A0)
    with pytest.raises(ProducerFenced):
        bench.open.check_member(old.producer_id, old.epoch, A0)


def test_a_producer_id_that_was_given_up_has_no_transaction_any_more() -> None:
    bench = Bench()
    for _ in range(EPOCH_MAX):
        last = bench.init()
    bench.init()
    with pytest.raises(InvalidTransactionState):
        bench.open.check_member(last.producer_id, last.epoch, A0)

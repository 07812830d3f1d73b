"""Prepared transactions in the machine: an epoch is decided once, whatever is asked and however often."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTransactionState,
    ParticipantNotFound,
    TooBusy,
    TransactionFenced,
    WriterNotFound,
)
from goqueue.transactions import epochs
from goqueue.transactions.commands import (
    AddPartitions,
    Claim,
    Completed,
    DecideEpoch,
    DescribedWriter,
    DescribeWriter,
    EpochCommitted,
    EpochDecided,
    ListIds,
    ListWriters,
    OpenParticipant,
    Producer,
    ProducerIdNeeded,
)
from goqueue.transactions.machine import EXPIRY_CHECK_MS
from goqueue.transactions.names import Participant, parse_participant, shard_key

from .driver import A0, A1, B0, Bench

DAY_MS = 24 * 3600 * 1000


def opened(bench: Bench, task: str, epoch: int = 1, *places: object) -> Producer:
    """A participant of writer w that has staged records in these partitions."""
    participant = Participant("w", epoch, task)
    assert bench.ask(OpenParticipant(participant)) == ProducerIdNeeded()
    bench.next_producer_id += 1
    producer = bench.ask(OpenParticipant(participant, bench.next_producer_id))
    assert isinstance(producer, Producer)
    if places:
        bench.ask(AddPartitions(participant, producer, frozenset(places)))  # type: ignore[arg-type]
    return producer


def decide(bench: Bench, epoch: int, *tasks: str | Claim, commit: bool = True) -> EpochDecided:
    claims = tuple(Claim(one) if isinstance(one, str) else one for one in tasks)
    reply = bench.ask(DecideEpoch("w", epoch, commit, claims))
    assert isinstance(reply, EpochDecided)
    return reply


def writer(bench: Bench) -> DescribedWriter:
    reply = bench.ask(DescribeWriter("w"))
    assert isinstance(reply, DescribedWriter)
    return reply


def tasks(bench: Bench) -> list[tuple[int, str, str]]:
    return [(one.epoch, one.task, state.state.kafka_name) for one, state in writer(bench).participants]


def test_a_commit_shows_the_listed_participants_and_aborts_the_others_of_the_epoch() -> None:
    bench = Bench()
    watcher = bench.watch()
    opened(bench, "0", 1, A0)
    opened(bench, "1", 1, A1, B0)
    opened(bench, "1-again", 1, A0)
    assert decide(bench, 1, "0", "1") == EpochDecided(already=False, committed=2, aborted=1)
    told = {str(one.name): (one.commit, one.partitions) for one in bench.told(watcher)}
    assert told == {"w/1/0": (True, {A0}), "w/1/1": (True, {A1, B0}), "w/1/1-again": (False, {A0})}


def test_one_decision_is_one_step_of_the_log() -> None:
    """All its records are in one batch: a crash keeps all of them or none."""
    bench = Bench()
    for task in "012":
        opened(bench, task, 1, A0)
    before = len(bench.steps)
    decide(bench, 1, "0", "1", "2")
    assert [len(step) for step in bench.steps[before:]] == [4]


def test_a_repeated_epoch_is_answered_as_done_and_writes_nothing() -> None:
    bench = Bench()
    opened(bench, "0", 1, A0)
    decide(bench, 1, "0")
    before = len(bench.log)
    for asked in (["0"], ["0", "never opened"], []):
        assert decide(bench, 1, *asked) == EpochDecided(already=True)
    assert len(bench.log) == before


def test_opening_a_participant_of_a_committed_epoch_answers_so() -> None:
    bench = Bench()
    decide(bench, 5)
    assert bench.ask(OpenParticipant(Participant("w", 5, "late"), 9)) == EpochCommitted()
    with pytest.raises(TransactionFenced):
        bench.ask(OpenParticipant(Participant("w", 4, "late"), 9))
    assert opened(bench, "next", 6).epoch == 0


def test_a_newer_epoch_aborts_what_older_ones_left_open() -> None:
    bench = Bench()
    opened(bench, "0", 1, A0)
    opened(bench, "0", 2, A0)
    opened(bench, "0", 3, A0)
    assert decide(bench, 2, "0") == EpochDecided(already=False, committed=1, aborted=1)
    assert tasks(bench) == [(1, "0", "PrepareAbort"), (2, "0", "PrepareCommit"), (3, "0", "Ongoing")]
    with pytest.raises(TransactionFenced):
        decide(bench, 1, "0")
    with pytest.raises(TransactionFenced):
        decide(bench, 1, commit=False)


def test_an_aborted_epoch_can_be_written_again() -> None:
    bench = Bench()
    opened(bench, "0", 1, A0)
    assert decide(bench, 1, commit=False) == EpochDecided(already=False, aborted=1)
    assert decide(bench, 1, commit=False) == EpochDecided(already=True)
    with pytest.raises(ParticipantNotFound):
        decide(bench, 1, "0")
    bench.complete_all()
    opened(bench, "0", 1, A0)
    assert decide(bench, 1, "0").committed == 1


def test_a_committed_epoch_cannot_be_aborted() -> None:
    bench = Bench()
    decide(bench, 1)
    with pytest.raises(InvalidTransactionState):
        decide(bench, 1, commit=False)


def test_a_commit_that_counts_on_somebody_who_is_gone_writes_nothing() -> None:
    bench = Bench()
    producer = opened(bench, "0", 1, A0)
    before = len(bench.log)
    with pytest.raises(ParticipantNotFound):
        decide(bench, 1, "0", "1")
    with pytest.raises(TransactionFenced):
        decide(bench, 1, Claim("0", Producer(producer.producer_id + 1, 0)))
    assert len(bench.log) == before
    assert decide(bench, 1, Claim("0", producer)).committed == 1


def test_a_name_that_is_opened_again_takes_over_and_aborts_what_was_staged() -> None:
    bench = Bench()
    watcher = bench.watch()
    first = opened(bench, "0", 1, A0)
    with pytest.raises(ConcurrentTransactions):
        bench.ask(OpenParticipant(Participant("w", 1, "0")))
    (aborted,) = bench.told(watcher)
    assert (aborted.commit, aborted.producer) == (False, Producer(first.producer_id, 1))
    bench.ask(Completed(aborted.name, aborted.number))
    second = opened(bench, "0", 1, A0)
    assert second.producer_id != first.producer_id
    # A note about the first, told again, is not taken for one about the second.
    decide(bench, 1, "0")
    bench.ask(Completed(aborted.name, aborted.number))
    assert tasks(bench) == [(1, "0", "PrepareCommit")]


def test_a_name_that_is_opened_again_before_it_staged_anything_changes_its_producer_at_once() -> None:
    bench = Bench()
    first, second = opened(bench, "0"), opened(bench, "0")
    assert first.producer_id != second.producer_id
    with pytest.raises(InvalidProducerIdMapping):
        bench.ask(AddPartitions(Participant("w", 1, "0"), first, frozenset({A0})))
    assert bench.open.get(first.producer_id) is None


def test_a_decided_participant_takes_no_more_partitions() -> None:
    bench = Bench()
    producer = opened(bench, "0", 1, A0)
    decide(bench, 1, "0")
    with pytest.raises(InvalidTransactionState):
        bench.ask(AddPartitions(Participant("w", 1, "0"), producer, frozenset({A1})))


def test_a_participant_is_forgotten_when_its_markers_are_written_and_the_epoch_is_not() -> None:
    bench = Bench()
    producer = opened(bench, "0", 1, A0)
    opened(bench, "empty", 1)
    decide(bench, 1, "0", "empty")
    assert tasks(bench) == [(1, "0", "PrepareCommit")]
    bench.complete_all()
    assert tasks(bench) == []
    assert bench.open.get(producer.producer_id) is None
    assert writer(bench).committed == ((1, 1),)


@pytest.mark.parametrize("from_snapshot", [False, True])
def test_a_restart_remembers_committed_epochs_open_participants_and_decisions(from_snapshot: bool) -> None:
    bench = Bench()
    opened(bench, "0", 1, A0)
    decide(bench, 1, "0")
    opened(bench, "0", 2, A1)
    bench.restart(from_snapshot=from_snapshot)
    assert tasks(bench) == [(1, "0", "PrepareCommit"), (2, "0", "Ongoing")]
    assert [str(one.name) for one in bench.complete_all()] == ["w/1/0"]
    assert decide(bench, 1, "0").already
    assert decide(bench, 2, "0").committed == 1


def test_participants_outlive_producers_but_not_a_day() -> None:
    bench = Bench(timeout_ms=1000, timeout_ms_max=1000)
    opened(bench, "0", 1, A0)
    opened(bench, "empty", 1)
    bench.pass_ms(DAY_MS - 1)
    assert len(tasks(bench)) == 2
    bench.pass_ms(1)
    assert tasks(bench) == [(1, "0", "PrepareAbort")]


def test_a_writer_is_forgotten_when_nobody_has_used_it_for_long() -> None:
    bench = Bench(prepared_writer_expiration_ms=DAY_MS)
    decide(bench, 1)
    bench.pass_ms(DAY_MS + EXPIRY_CHECK_MS)
    with pytest.raises(WriterNotFound):
        writer(bench)


def test_a_writer_has_a_bounded_number_of_open_participants() -> None:
    bench = Bench(prepared_participants_max=2)
    opened(bench, "0")
    opened(bench, "1")
    with pytest.raises(TooBusy):
        bench.ask(OpenParticipant(Participant("w", 1, "2")))


def test_ids_and_participants_are_listed_apart_even_if_they_read_the_same() -> None:
    bench = Bench()
    bench.init("w/1/0")
    opened(bench, "0", 1, A0)
    assert [one.transactional_id for one in bench.ask(ListIds())] == ["w/1/0"]  # type: ignore[attr-defined]
    (only,) = bench.ask(ListWriters())  # type: ignore[misc]
    assert [str(one) for one, _ in only.participants] == ["w/1/0"]
    assert bench.state("w/1/0").kafka_name == "Empty"


def test_all_participants_of_a_writer_lie_in_one_shard() -> None:
    assert {shard_key(Participant("w", epoch, str(epoch))) for epoch in range(9)} == {"w"}


@pytest.mark.parametrize(
    ("name", "field"),
    [
        (("", 0, "t"), "writer"),
        (("a/b", 0, "t"), "writer"),
        (("w\n", 0, "t"), "writer"),
        (("w", -1, "t"), "epoch"),
        (("w", 2**63, "t"), "epoch"),
        (("w", 0, ""), "task"),
        (("w", 0, "a/b"), "task"),
        (("w", 0, "x" * 101), "task"),
    ],
)
def test_names_that_are_not_allowed_are_refused_by_field(name: tuple[str, int, str], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_participant(*name)
    assert refused.value.field == field


@settings(deadline=None)
@given(st.lists(st.integers(1, 200), min_size=1, max_size=150))
def test_nothing_is_called_committed_that_was_not(steps: list[int]) -> None:
    ranges: epochs.Ranges = ()
    done: set[int] = set()
    epoch = 0
    for step in steps:
        epoch += step
        ranges = epochs.with_epoch(ranges, epoch)
        done.add(epoch)
    assert len(ranges) <= epochs.RANGES_MAX
    assert epochs.is_committed(ranges, epoch)
    for one in range(epoch + 2):
        try:
            assert not epochs.is_committed(ranges, one) or one in done
        except TransactionFenced:
            assert one < epoch

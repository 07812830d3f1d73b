"""The checker of the kill campaign can fail: each kind of wrong is made here once, and found by name."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from tests.e2e.campaign import checker
from tests.e2e.campaign.ledger import Answer, Body, Fate, GroupLedger, Ledger
from tests.e2e.campaign.readers import Row

CHANCE = random.Random(1)


def ledger_of(count: int, kind: str = "jobs") -> tuple[Ledger, list[Body]]:
    """A ledger in which everything is acknowledged."""
    ledger = Ledger(kind, Counter(kills=4))
    bodies = [ledger.begin(keys=1) for _ in range(count)]
    for body in bodies:
        ledger.note(body.id, Fate.ACKNOWLEDGED)
    return ledger, bodies


def rows_of(bodies: list[Body], *, partition: int = 0, **headers: str) -> list[Row]:
    return [
        Row(partition, at, 1000, body.key, body.encode(CHANCE), {f"goqueue-dlq-{k}": v for k, v in headers.items()})
        for at, body in enumerate(bodies)
    ]


def test_all_there_once_and_in_order_is_right() -> None:
    ledger, bodies = ledger_of(5)
    assert checker.check_stored(ledger, rows_of(bodies)) + checker.check_order(ledger, rows_of(bodies)) == []


def test_a_lost_message_is_named_with_the_kills_around_it() -> None:
    ledger, bodies = ledger_of(5)
    assert checker.check_stored(ledger, rows_of(bodies[:4])) == [
        "jobs: 1 lost: jobs/4 (acknowledged, sent after kill 4, answered after kill 4)"
    ]


def test_one_stored_twice_is_found_unless_that_is_allowed() -> None:
    ledger, bodies = ledger_of(2)
    rows = rows_of([*bodies, bodies[0]])
    assert "1 stored twice: jobs/0" in checker.check_stored(ledger, rows)[0]
    assert checker.check_stored(ledger, rows, once=False) == []


def test_an_unknown_message_may_be_there_or_not_and_a_refused_one_may_not() -> None:
    ledger, bodies = ledger_of(2)
    ledger.note(bodies[1].id, Fate.UNKNOWN)
    assert checker.check_stored(ledger, rows_of(bodies)) == checker.check_stored(ledger, rows_of(bodies[:1])) == []
    ledger.note(bodies[1].id, Fate.REFUSED)
    assert "1 refused and stored: jobs/1" in checker.check_stored(ledger, rows_of(bodies))[0]


def test_a_message_that_nobody_sent_is_found() -> None:
    ledger, bodies = ledger_of(1)
    assert "jobs/9 (never sent)" in checker.check_stored(ledger, rows_of([*bodies, Body("jobs/9", "k", 0)]))[0]


def test_messages_of_a_key_in_another_order_or_partition_are_found() -> None:
    ledger, bodies = ledger_of(3)
    assert "jobs/1" in checker.check_order(ledger, rows_of([bodies[0], bodies[2], bodies[1]]))[0]
    elsewhere = rows_of(bodies[:1]) + rows_of(bodies[1:], partition=1)
    assert "is in partitions 0 and 1" in checker.check_order(ledger, elsewhere)[0]


def test_a_damaged_value_is_found() -> None:
    with pytest.raises(AssertionError, match="damaged"):
        Body.decode(Body("jobs/1", "k", 0).encode(CHANCE).replace(b"jobs/1", b"jobs/2"))


@pytest.mark.parametrize(
    ("fate", "partitions", "found"),
    [
        (Fate.ACKNOWLEDGED, (0, 1), []),
        (Fate.UNKNOWN, (), []),
        (Fate.REFUSED, (), []),
        (Fate.ACKNOWLEDGED, (), ["lost"]),
        (Fate.UNKNOWN, (1,), ["torn"]),
        (Fate.REFUSED, (0, 1), ["aborted and read"]),
        (Fate.ACKNOWLEDGED, (0, 1, 1), ["stored twice"]),
    ],
)
def test_a_transaction_counts_wholly_or_not_at_all(fate: Fate, partitions: tuple[int, ...], found: list[str]) -> None:
    ledger, (body,) = ledger_of(1, "transactions-0")
    ledger.note(body.id, fate)
    rows = [row for partition in partitions for row in rows_of([body], partition=partition)]
    problems = checker.check_transactions(ledger, rows, 2)
    assert [one.split(": ")[1].partition(" ")[2] for one in problems] == found


def test_an_input_that_was_transformed_twice_or_never_is_found() -> None:
    ledger, bodies = ledger_of(2, "inputs")
    problems = checker.check_outputs(ledger, rows_of(bodies), rows_of([bodies[0], bodies[0]]))
    assert ["never transformed" in problems[0], "transformed twice" in problems[1]] == [True, True]


def test_what_a_group_neither_acked_nor_saw_die_is_found_and_so_is_what_came_again() -> None:
    ledger, bodies = ledger_of(5)
    group = GroupLedger("alpha")
    for body in bodies[:4]:
        group.note_delivery(body.id, asked_at=0)
    group.note_answer(bodies[0].id, Answer.ACK, confirmed=True)
    group.note_answer(bodies[1].id, Answer.ACK, confirmed=False)
    group.note_answer(bodies[2].id, Answer.REJECT, confirmed=True)
    letters = rows_of(bodies[2:4], group="alpha") + rows_of(bodies, group="beta")
    assert [one.partition(": ")[2] for one in checker.check_group(group, ledger, rows_of(bodies), letters)] == [
        "1 neither acked nor dead-lettered in group alpha: " + ledger.describe(bodies[4].id)
    ]
    group.note_delivery(bodies[0].id, asked_at=group.acked[bodies[0].id] + 1)
    found = checker.check_group(group, ledger, rows_of(bodies), [*letters, *letters[:1], *rows_of(bodies[:1])])
    assert any("delivered again after its confirmed answer" in one for one in found)
    assert any("1 dead-lettered twice in group alpha: jobs/2" in one for one in found)
    assert any("rejected and not dead-lettered" in one for one in checker.check_group(group, ledger, [], []))


def test_a_message_before_its_time_a_missing_run_and_readers_that_differ_are_found() -> None:
    ledger, bodies = ledger_of(1, "delayed")
    rows = rows_of(bodies)
    ledger.entries[bodies[0].id].answered_ms = 500
    assert checker.check_due(ledger, rows, {bodies[0].id: 1000}) == []
    assert "1 delivered early" in checker.check_due(ledger, rows, {bodies[0].id: 1001})[0]
    assert checker.check_runs({"delayed-key-0": 1}, rows) == []
    assert checker.check_runs({"delayed-key-0": 2}, rows) == ["delayed-key-0 had 2 runs and 1 messages"]
    assert checker.check_readers("t", rows, rows) == []
    assert "1 places differ" in checker.check_readers("t", rows, [])[0]

"""The judge of the transfer workload finds every kind of wrong that it is there for."""

from __future__ import annotations

import pytest
from tests.e2e.transfers import Entry, History, Outcome, changed, place_of, problems

from goqueue.records import TopicPartition

Seen = dict[TopicPartition, list[Entry]]


@pytest.fixture
def history() -> History:
    """Three transfers of 10 from account 0 to account 1, by their outcome."""
    made = History()
    for outcome in Outcome:
        made.begin(outcome.value, 0, 1, 10)
        made.note(outcome.value, outcome)
    return made


def view(history: History, *names: str) -> Seen:
    seen: Seen = {}
    for name in names:
        for entry in history.transfers[name].entries:
            seen.setdefault(place_of(entry.account), []).append(entry)
    return seen


@pytest.mark.parametrize("names", [["committed"], ["committed", "unknown"]])
def test_a_view_that_is_allowed_has_no_problems(history: History, names: list[str]) -> None:
    assert problems(history.transfers, view(history, *names)) == []


def test_a_lost_commit_is_found(history: History) -> None:
    assert problems(history.transfers, view(history, "unknown")) == ["committed was committed and is lost"]


def test_an_aborted_read_is_found(history: History) -> None:
    assert problems(history.transfers, view(history, "committed", "aborted")) == ["aborted was aborted and is read"]


@pytest.mark.parametrize("name", ["committed", "unknown"])
def test_a_torn_transfer_is_found_and_changes_the_sum(history: History, name: str) -> None:
    seen = view(history, "committed", "unknown")
    seen[place_of(1)] = [entry for entry in seen[place_of(1)] if entry.transfer != name]
    assert problems(history.transfers, seen) == [f"{name} is torn", "the sum has changed by -10"]


def test_a_record_that_is_there_twice_is_found(history: History) -> None:
    seen = view(history, "committed")
    seen[place_of(0)] *= 2
    assert "is there 2 times" in problems(history.transfers, seen)[0]


def test_a_record_that_nobody_wrote_or_that_lies_elsewhere_is_found(history: History) -> None:
    stranger = Entry("stranger", 0, 0)
    seen = view(history, "committed")
    seen[place_of(1)].append(stranger)
    assert len(problems(history.transfers, seen)) == 2


def test_a_view_that_is_taken_back_is_found() -> None:
    one, two = Entry("one", 0, 1), Entry("two", 0, 1)
    place = place_of(0)
    assert changed([one], [one, two], place) == []
    assert changed([one], [two, one], place)
    assert changed([one, two], [one], place)


def test_an_entry_survives_its_encoding() -> None:
    entry = Entry("name", 3, -7)
    assert Entry.decode(entry.encode()) == entry

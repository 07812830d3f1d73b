"""Dead letters: their history, which are meant, and what goes back."""

from __future__ import annotations

import pytest

from goqueue.delay.holding.headers import DELAY_HEADER, DELIVER_AT_HEADER
from goqueue.delivery.dead_letters.dead_letter_moves import HEADER_PREFIX
from goqueue.delivery.dead_letters.letters import Edits, Letter, LetterFilter, letter_of, way_back
from goqueue.records import Header

HISTORY: tuple[Header, ...] = (
    ("trace", b"7"),
    ("goqueue-dlq-topic", b"orders"),
    ("goqueue-dlq-partition", b"2"),
    ("goqueue-dlq-group", b"billing"),
    ("goqueue-dlq-reason", b"REJECTED"),
    ("goqueue-dlq-died", b"5000"),
)


def letter(*headers: Header, key: bytes | None = b"k") -> Letter:
    return letter_of(0, 9, 4000, key, b"value", (*HISTORY, *headers))


def test_the_history_is_read_out_of_the_headers() -> None:
    one = letter()
    assert (one.history["topic"], one.number("partition"), one.number("offset")) == ("orders", 2, None)


def test_who_died_twice_is_known_by_the_last_time() -> None:
    one = letter(("goqueue-dlq-reason", b"EXPIRED"), ("goqueue-dlq-died", b"9000"))
    assert (one.history["reason"], one.number("died")) == ("EXPIRED", 9000)


@pytest.mark.parametrize(
    ("wanted", "is_meant"),
    [
        (LetterFilter(), True),
        (LetterFilter(reason="rejected"), True),
        (LetterFilter(reason="expired"), False),
        (LetterFilter(group="billing", key=b"k"), True),
        (LetterFilter(group="shipping"), False),
        (LetterFilter(key=b"other"), False),
        (LetterFilter(header="trace"), True),
        (LetterFilter(header="trace", header_value=b"7"), True),
        (LetterFilter(header="trace", header_value=b"8"), False),
        (LetterFilter(header="span"), False),
        (LetterFilter(since_ms=5000, until_ms=5001), True),
        (LetterFilter(since_ms=5001), False),
        (LetterFilter(until_ms=5000), False),
    ],
)
def test_a_filter_takes_what_agrees_with_all_of_it(wanted: LetterFilter, is_meant: bool) -> None:
    assert wanted.takes(letter()) is is_meant


def test_a_letter_goes_back_as_it_was_with_its_history() -> None:
    back = way_back(letter(), Edits(), now_ms=7000)
    assert (back.key, back.value, back.timestamp_ms) == (b"k", b"value", None)
    assert back.headers == (*HISTORY, ("goqueue-redriven-at", b"7000"))


def test_edits_replace_and_remove_headers() -> None:
    back = way_back(letter(("old", b"1")), Edits({"trace": b"8", "old": None, "new": b"2"}), now_ms=7000)
    headers = dict(back.headers)
    assert (headers["trace"], headers["new"], "old" in headers) == (b"8", b"2", False)


def test_its_deduplication_id_does_not_keep_it_out_of_its_own_topic() -> None:
    headers = dict(way_back(letter(("goqueue-dedup-id", b"1")), Edits(), now_ms=7000).headers)
    assert "goqueue-dedup-id" not in headers
    assert headers["goqueue-dlq-dedup-id"] == b"1"


@pytest.mark.parametrize("name", [DELAY_HEADER, DELIVER_AT_HEADER])
def test_its_delay_is_over_and_does_not_hold_it_back_once_more(name: str) -> None:
    back = dict(way_back(letter((name, b"3600000")), Edits(), now_ms=7000).headers)
    assert name not in back
    assert back[name.replace("goqueue-", HEADER_PREFIX)] == b"3600000"
    # Whoever asks for a delay gets it.
    asked = dict(way_back(letter((name, b"3600000")), Edits({name: b"5"}), now_ms=7000).headers)
    assert asked[name] == b"5"


def test_a_second_redrive_leaves_one_time_behind() -> None:
    once = way_back(letter(), Edits(), now_ms=7000)
    again = way_back(letter_of(0, 10, 1, once.key, once.value, once.headers), Edits(), now_ms=8000)
    assert [value for name, value in again.headers if name == "goqueue-redriven-at"] == [b"8000"]


def test_a_raw_batch_is_sent_back_only_if_its_reason_is_asked_for() -> None:
    letter = letter_of(0, 0, 0, None, b"batch", [(HEADER_PREFIX + "reason", b"unreadable")])

    assert LetterFilter().takes(letter)
    assert not LetterFilter().redrives(letter)
    assert LetterFilter(reason="unreadable").redrives(letter)

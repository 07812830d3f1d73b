from __future__ import annotations

import pytest

from goqueue.client import InvalidArgument
from goqueue.worker.backoff import parse_backoff


def test_a_backoff_doubles_from_its_first_delay_to_its_last_and_is_never_longer_than_that():
    backoff = parse_backoff("1s..5m")

    for attempt, longest_s in [(1, 1), (2, 2), (3, 4), (9, 256), (10, 300), (11, 300), (10_000, 300)]:
        assert longest_s * 0.8 <= backoff.delay_s(attempt) <= longest_s


def test_a_single_duration_stays_the_same():
    backoff = parse_backoff("10s")

    assert all(8 <= backoff.delay_s(attempt) <= 10 for attempt in (1, 2, 30))


@pytest.mark.parametrize("wrong", ["5m..1s", "1..5", "1s..", "..5m", "soon"])
def test_a_backoff_that_cannot_be_read_is_refused_with_the_name_of_the_argument(wrong):
    with pytest.raises(InvalidArgument, match="backoff"):
        parse_backoff(wrong)

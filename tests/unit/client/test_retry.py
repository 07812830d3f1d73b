"""What may be sent again, and how soon."""

from __future__ import annotations

import pytest

from goqueue.client.retry import RetryPolicy


@pytest.mark.parametrize(
    ("status", "repeatable", "expected"),
    [
        (429, False, True),  # the broker said that it did nothing
        (503, True, True),
        (503, False, False),  # never a blind POST
        (504, True, True),
        (None, True, True),  # no answer at all
        (None, False, False),
        (400, True, False),
        (409, True, False),
        (500, True, False),
    ],
)
def test_only_harmless_repeats_are_allowed(status, repeatable, expected):
    assert RetryPolicy().may_retry(1, repeatable=repeatable, status=status) is expected


def test_the_last_attempt_is_the_last():
    policy = RetryPolicy(attempts_max=3)

    assert policy.may_retry(2, repeatable=True, status=503)
    assert not policy.may_retry(3, repeatable=True, status=503)


def test_delays_double_up_to_their_maximum():
    policy = RetryPolicy(delay_ms_first=100, delay_ms_max=1000)

    assert [policy.delay_ms(attempt, chance=1.0) for attempt in range(1, 6)] == [100, 200, 400, 800, 1000]


def test_what_the_server_asks_for_goes_before_our_own_guess():
    assert RetryPolicy().delay_ms(1, chance=0.0, retry_after_s=2) == 2000

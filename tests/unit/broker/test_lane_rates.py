"""Rates by lane: the last minute counts, whatever came before, and a lane knows nothing of the others."""

from __future__ import annotations

import pytest

from goqueue.broker.lane_rates import LaneRates

HIGH, LOW = 1, 3


def test_what_passed_within_the_minute_is_the_rate() -> None:
    rates = LaneRates()
    for second in range(120):
        rates.add(HIGH, 5, second * 1000)
    assert rates.per_second(HIGH, 120_000) == pytest.approx(5)
    assert rates.per_second(LOW, 120_000) == 0
    assert rates.totals[HIGH] == 600


def test_a_minute_of_silence_ends_the_rate_and_the_total_stays() -> None:
    rates = LaneRates()
    rates.add(LOW, 300, 9_999)
    assert rates.per_second(LOW, 50_000) == pytest.approx(6)
    assert rates.per_second(LOW, 70_000) == 0
    rates.add(LOW, 60, 75_000)
    assert rates.per_second(LOW, 80_000) == pytest.approx(60 / 50)
    assert rates.totals[LOW] == 360


def test_a_clock_that_is_put_back_loses_no_count() -> None:
    rates = LaneRates()
    rates.add(LOW, 1, 600_000)
    rates.add(LOW, 1, 300_000)
    rates.add(LOW, 1, 601_000)
    assert rates.totals[LOW] == 3
    assert rates.per_second(LOW, 610_000) == pytest.approx(3 / 50)


def test_years_of_traffic_keep_a_handful_of_notes() -> None:
    rates = LaneRates()
    for minute in range(10_000):
        rates.add(HIGH, 1, minute * 60_000)
    assert len(rates._noted) <= 6

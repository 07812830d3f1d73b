"""When recurring messages run."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from goqueue.delay.holding.records import Missed, Schedule, Slot
from goqueue.delay.recurring.occurrences import next_run_ms
from goqueue.delay.recurring.runs import first_pairs, following_pairs, is_skipped
from goqueue.errors import InvalidRequest

# A Wednesday.
NOON = datetime(2026, 4, 15, 12, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("@yearly", datetime(2027, 1, 1, tzinfo=UTC)),
        ("@annually", datetime(2027, 1, 1, tzinfo=UTC)),
        ("@monthly", datetime(2026, 5, 1, tzinfo=UTC)),
        ("@weekly", datetime(2026, 4, 19, tzinfo=UTC)),
        ("@daily", datetime(2026, 4, 16, tzinfo=UTC)),
        ("@midnight", datetime(2026, 4, 16, tzinfo=UTC)),
        (" @Hourly ", datetime(2026, 4, 15, 13, tzinfo=UTC)),
    ],
)
def test_the_names_that_cron_has_for_common_times_mean_those_times(name: str, first: datetime) -> None:
    assert next_run_ms(name, "UTC", int(NOON.timestamp() * 1000)) == int(first.timestamp() * 1000)


def test_a_name_that_says_no_time_is_refused_with_one_that_does() -> None:
    with pytest.raises(InvalidRequest) as refused:
        next_run_ms("@reboot", "UTC", 0)

    assert (refused.value.field, "@daily" in str(refused.value.hint)) == ("cron", True)


def runs_after_an_outage(missed: Missed, seconds: int) -> list[int]:
    """The seconds whose runs are delivered after an outage, by a schedule that runs every second."""
    name, start_ms = "beat", int(NOON.timestamp() * 1000)
    schedule = Schedule("* * * * * *", "UTC", "beats", -1, None, b"tick", (), missed, start_ms, -1, -1)
    pairs = first_pairs(name, schedule, bytes(16), start_ms, slot=0)
    now_ms, delivered = start_ms + seconds * 1000, []
    while True:
        (_, run), (_, schedule) = pairs
        assert isinstance(run, Slot)
        assert isinstance(schedule, Schedule)
        if run.due_ms > now_ms:
            assert schedule.runs == len(delivered)
            return delivered
        if not is_skipped(schedule, run, now_ms):
            delivered.append((run.due_ms - start_ms) // 1000)
        pairs = following_pairs(name, schedule, run, now_ms, slot=0)


@pytest.mark.parametrize("missed", ["once", "all", "skip"])
def test_an_outage_of_seconds_loses_no_run_whatever_the_policy_for_missed_runs(missed: Missed) -> None:
    assert runs_after_an_outage(missed, 60) == list(range(1, 61))


@pytest.mark.parametrize(
    ("missed", "late"),
    [("all", list(range(1, 240))), ("once", [1]), ("skip", [])],
)
def test_after_minutes_the_policy_decides_about_missed_runs_and_the_last_minute_is_complete(
    missed: Missed, late: list[int]
) -> None:
    assert runs_after_an_outage(missed, 300) == late + list(range(240, 301))

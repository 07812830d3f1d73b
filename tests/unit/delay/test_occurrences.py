"""When recurring messages run."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from goqueue.delay.occurrences import next_run_ms
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

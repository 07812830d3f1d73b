"""When a recurring message runs: cron expressions in a time zone, and what becomes of runs that were missed.

Five fields, or six with the seconds first, as Debian's cron reads them, or a name such as
`@daily`. Across a change of the clocks cron's own rules hold: a run at an hour that does not
exist comes right after it, and a daily run at an hour that comes twice happens once.
"""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from goqueue.delay.holding.records import Missed
from goqueue.errors import InvalidRequest

_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
# A run that is later than this was missed.
MISSED_AFTER_MS = 60_000


def next_run_ms(cron: str, timezone: str, after_ms: int) -> int | None:
    """The first run after that time; None when there is none within fifty years."""
    zone = parse_timezone(timezone)
    start = datetime.fromtimestamp(after_ms / 1000, tz=UTC).astimezone(zone)
    try:
        # The library counts from whole seconds; what it yields always lies after its start.
        found = next(CronSim(_NAMED.get(cron.strip().lower(), cron), start.replace(microsecond=0)), None)
    except CronSimError as problem:
        raise InvalidRequest(
            f"{cron!r} is not a cron expression: {problem}",
            field="cron",
            hint="write minute hour day month weekday, such as '0 9 * * MON-FRI', or @daily",
        ) from problem
    except OverflowError:
        return None
    return None if found is None else round(found.timestamp() * 1000)


def next_runs_ms(cron: str, timezone: str, after_ms: int, count: int) -> list[int]:
    """The first so many runs after that time."""
    runs: list[int] = []
    while len(runs) < count:
        at_ms = next_run_ms(cron, timezone, runs[-1] if runs else after_ms)
        if at_ms is None:
            break
        runs.append(at_ms)
    return runs


def parse_timezone(name: str) -> ZoneInfo:
    """A zone of the IANA database by its name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as problem:
        raise InvalidRequest(
            f"{name!r} is not a time zone", field="timezone", hint="use a name such as Europe/Paris or UTC"
        ) from problem


def is_missed(due_ms: int, now_ms: int) -> bool:
    """Whether a run comes so late that the policy for missed runs decides."""
    return now_ms - due_ms > MISSED_AFTER_MS


def after_run_ms(missed: Missed, due_ms: int, now_ms: int) -> int:
    """From where the next run is counted once this one is done.

    The policy speaks of missed runs only. A run that is late by less is made up for whatever the policy, so that
    a broker that was away for a few seconds loses none of a schedule that runs every second.
    """
    if missed == "all" or not is_missed(due_ms, now_ms):
        return due_ms
    # The last run that counts as missed lies one millisecond before this bound, and the search begins behind it.
    return max(due_ms, now_ms - MISSED_AFTER_MS - 1)

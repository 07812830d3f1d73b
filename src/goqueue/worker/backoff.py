"""How long a failed task waits for its next attempt: `"1s..5m"` doubles from one second to five minutes."""

from __future__ import annotations

import random
from dataclasses import dataclass

from goqueue.client import InvalidArgument
from goqueue.client.durations import Duration, seconds_of

# So many tasks that failed together do not all come back together. Never longer than what was asked for.
_JITTER = 0.2


@dataclass(frozen=True, slots=True)
class Backoff:
    """Doubles with every attempt, from `first_s` to `last_s`."""

    first_s: float
    last_s: float

    def delay_s(self, attempt: int) -> float:
        """How long to wait after attempt number `attempt`, counted from 1."""
        # The exponent is bounded, because a float is.
        whole_s = min(self.last_s, self.first_s * 2.0 ** min(attempt - 1, 60))
        return whole_s * (1 - _JITTER * random.random())  # noqa: S311 - no secret


def parse_backoff(given: Duration) -> Backoff:
    """`"1s..5m"` grows, any other duration stays the same."""
    if isinstance(given, str) and ".." in given:
        first, _, last = given.partition("..")
        backoff = Backoff(seconds_of(first, "backoff"), seconds_of(last, "backoff"))
        if backoff.first_s > backoff.last_s:
            raise InvalidArgument(f"backoff={given!r} begins with the longer delay", "write the shorter delay first")
        return backoff
    fixed_s = seconds_of(given, "backoff")
    return Backoff(fixed_s, fixed_s)

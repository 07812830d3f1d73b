"""When a request may be sent again.

Only two things make it safe: the broker said that it did nothing (429), or the request
does no harm the second time (a read, a delete, a publish that carries its sequence).
"""

from __future__ import annotations

from dataclasses import dataclass

NOTHING_WAS_DONE = frozenset({429})
MAY_PASS = frozenset({502, 503, 504})


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how patiently."""

    attempts_max: int = 5
    delay_ms_first: int = 100
    delay_ms_max: int = 5_000

    def may_retry(self, attempt: int, *, repeatable: bool, status: int | None) -> bool:
        """Whether attempt number `attempt` (from 1) may be followed by another; status None: no answer."""
        if attempt >= self.attempts_max:
            return False
        if status in NOTHING_WAS_DONE:
            return True
        return repeatable and (status is None or status in MAY_PASS)

    def delay_ms(self, attempt: int, chance: float, retry_after_s: float | None = None) -> float:
        """How long to wait after attempt `attempt`: what the server asked, else doubling with jitter."""
        if retry_after_s is not None:
            return min(retry_after_s * 1000, self.delay_ms_max)
        return float(min(self.delay_ms_first * 2 ** (attempt - 1), self.delay_ms_max) * (0.5 + chance / 2))

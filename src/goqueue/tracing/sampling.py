"""Sampling: whose spans are exported. Consistent by trace id, so that a trace is exported whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

# The low 64 bits decide, as in OpenTelemetry's own sampler, so that all who sample by ratio agree.
_LOW_DIGITS = 16
_RANGE = 1 << 64


def is_sampled(trace_id: str, rate: float) -> bool:
    """Whether a trace belongs to the share that is exported."""
    if rate >= 1.0:
        return True
    return rate > 0.0 and int(trace_id[-_LOW_DIGITS:], 16) < int(rate * _RANGE)


class Sampler:
    """The rate of each topic."""

    def __init__(self, rate: float, rate_of: Callable[[UUID], float | None]) -> None:
        self.rate = rate
        # A topic's own rate, None where it has none.
        self._rate_of = rate_of

    def rate_for(self, topic_id: UUID) -> float:
        """What holds for a topic."""
        own = self._rate_of(topic_id)
        return self.rate if own is None else own

    def takes(self, topic_id: UUID, trace_id: str) -> bool:
        """Whether spans of this trace are exported."""
        return is_sampled(trace_id, self.rate_for(topic_id))

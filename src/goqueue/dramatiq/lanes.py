"""Dramatiq's priorities as lanes.

An actor's `priority` is 0 unless it is set, and the lower number is the more urgent one. A message's
`broker_priority`, as with RabbitMQ, goes from 0 to 9, where 9 is the most urgent; it wins.
"""

from __future__ import annotations

_BY_BROKER_PRIORITY = (
    "background",
    "background",
    "low",
    "low",
    "normal",
    "normal",
    "high",
    "high",
    "critical",
    "critical",
)
_FAR = 10


def lane_of(priority: int, broker_priority: int | None = None) -> str:
    """The lane of a message."""
    if broker_priority is not None:
        return _BY_BROKER_PRIORITY[max(0, min(broker_priority, 9))]
    if priority == 0:
        return "normal"
    if priority < 0:
        return "critical" if priority <= -_FAR else "high"
    return "background" if priority >= _FAR else "low"

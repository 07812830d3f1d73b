"""What goes into the delay service and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from goqueue.delay.due.wheel import WheelStats
from goqueue.delay.holding.records import Origin, Slot, SlotState
from goqueue.records import NewRecord

# The end of the year 9999: what RFC 3339 can say.
DUE_MS_MAX = 253_402_300_799_999


class SlotId(NamedTuple):
    """The name of a delayed message within its topic: its partition, and an offset in the delay log of that."""

    partition: int
    offset: int

    def __str__(self) -> str:
        """The slot as users read and write it."""
        return f"{self.partition}/{self.offset}"


class Held(NamedTuple):
    """A message to hold back. `partition` None: its key, or the turn, decides now, and it keeps that partition."""

    record: NewRecord
    due_ms: int
    partition: int | None = None
    origin: Origin | None = None
    # Part of an open transaction: stored, and scheduled when that is committed.
    is_staged: bool = False


class Delayed(NamedTuple):
    """A delayed message as it stands."""

    id: SlotId
    topic: str
    due_ms: int
    state: SlotState


class DelayedWhole(NamedTuple):
    """The same with the message itself."""

    delayed: Delayed
    slot: Slot


@dataclass(slots=True)
class DelayStats:
    """Counters since the start, and what is there now."""

    scheduled: dict[str, int] = field(default_factory=dict)
    delivered: dict[str, int] = field(default_factory=dict)
    cancelled: dict[str, int] = field(default_factory=dict)
    expired_since: dict[str, int] = field(default_factory=dict)
    pending: dict[str, int] = field(default_factory=dict)
    expired: dict[str, int] = field(default_factory=dict)
    late_ms_max: int = 0
    late_ms_total: int = 0
    late_total: int = 0
    wheels: list[WheelStats] = field(default_factory=list)
    schedules: int = 0

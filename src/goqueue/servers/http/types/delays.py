"""The JSON of delayed and recurring messages."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from goqueue.delay.holding.records import Missed
from goqueue.servers.http.types.common import NAME_HINT, Body, PartitionIndex, Reply, Text

Time = Annotated[str, Meta(max_length=64)]
Duration = Annotated[str, Meta(max_length=32)]


class DelayedQuery(Body):
    """Which of the delayed messages to list; `due_before` is an RFC 3339 time."""

    limit: Annotated[int, Meta(ge=1, le=10_000)] = 100
    skip: Annotated[int, Meta(ge=0, le=2**53)] = 0
    due_before: Time | None = None


class DelayedRow(Reply):
    """A delayed message. It is changed or cancelled by its slot, which is part of the path."""

    topic: str
    slot: str
    deliver_at: str
    time_remaining: str
    state: str


class DelayedList(Reply, omit_defaults=False):
    """Delayed messages by time."""

    topic: str
    messages: list[DelayedRow]
    count: int
    limit: int
    skip: int


class DelayedMessage(DelayedRow):
    """The same with the message itself. With `encoding` set, key, value and header values are base64."""

    key: str | None
    value: str | None
    scheduled_at: str
    priority: str = "normal"
    headers: dict[str, str | None] = msgspec.field(default_factory=dict)
    headers_list: list[tuple[str, str | None]] | None = None
    encoding: str | None = None
    # The partition of its topic that it was sent to, if it was sent to one.
    target_partition: int | None = None
    # Why it was not delivered when it was due.
    reason: str | None = None
    schedule: str | None = None


class Cancelled(Reply):
    """A delayed message that was cancelled."""

    canceled: bool
    topic: str
    slot: str


class Reschedule(Body):
    """When to deliver it instead: after a delay from now, or at a time."""

    delay: Duration | None = None
    deliverAt: Time | None = None  # noqa: N815 - the name on the wire


class WheelCounts(Reply, omit_defaults=False):
    """The timer wheel: what is due within the near future."""

    current_active: int
    current_tick: int
    tick_ms: int
    active_by_level: list[int]
    total_scheduled: int
    total_fired: int
    total_canceled: int
    total_cascaded: int


class TopicDelayCounts(Reply, omit_defaults=False):
    """What waits for one topic."""

    pending: int
    expired: int
    scheduled: int
    delivered: int
    canceled: int


class DelayCounts(Reply, omit_defaults=False):
    """What waits now, and what happened since the node started."""

    total_scheduled: int
    total_delivered: int
    total_canceled: int
    total_expired: int
    total_pending: int
    pending_expired: int
    late_ms_max: int
    late_ms_average: float
    schedules: int
    by_topic: dict[str, TopicDelayCounts]
    timer_wheel: WheelCounts


class CreateSchedule(Body):
    """A recurring message: a cron expression of five fields (or six, seconds first) in a time zone."""

    name: Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9._-]+$", extra=NAME_HINT)]
    cron: Annotated[str, Meta(min_length=1, max_length=200)]
    topic: Annotated[str, Meta(min_length=1, max_length=249)]
    value: msgspec.Raw | UnsetType = UNSET
    timezone: Annotated[str, Meta(min_length=1, max_length=64)] = "UTC"
    key: Text | None = None
    headers: dict[str, Text | None] | None = None
    encoding: Literal["base64", "text"] = "text"
    partition: PartitionIndex | None = None
    missed: Missed = "once"


class ScheduleRow(Reply):
    """A recurring message and its next runs."""

    name: str
    cron: str
    timezone: str
    topic: str
    missed: Missed
    next_runs: list[str]
    runs: int
    last_run: str | None = None
    next_slot: str | None = None
    key: str | None = None
    value: str | None = None
    headers: dict[str, str | None] = msgspec.field(default_factory=dict)
    encoding: str | None = None


class ScheduleList(Reply, omit_defaults=False):
    """All recurring messages, by name."""

    schedules: list[ScheduleRow]
    count: int


class DeletedSchedule(Reply):
    """A recurring message that was deleted."""

    deleted: bool
    name: str

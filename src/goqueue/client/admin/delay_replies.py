"""Delayed and recurring messages, with attributes that an editor knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from goqueue.client.admin.replies import Reply


class DelayedSummary(Reply):
    """A delayed message in a list; times are RFC 3339 text."""

    topic: str
    slot: str
    deliver_at: str
    time_remaining: str
    state: str


class DelayedMessage(DelayedSummary):
    """A delayed message with its content. With `encoding`, key, value and header values are base64."""

    key: str | None
    value: str | None
    scheduled_at: str
    priority: str
    headers: dict[str, str | None]
    encoding: str | None
    target_partition: int | None
    reason: str | None
    schedule: str | None

    # The broker leaves out what has its default.
    _defaults: ClassVar[Mapping[str, Any]] = {
        "priority": "normal",
        "headers": {},
        "encoding": None,
        "target_partition": None,
        "reason": None,
        "schedule": None,
    }


class Cancelled(Reply):
    """A delayed message that was cancelled."""

    canceled: bool
    topic: str
    slot: str


class TopicDelayStats(Reply):
    """The delayed messages of one topic."""

    pending: int
    expired: int
    scheduled: int
    delivered: int
    canceled: int


class TimerWheelStats(Reply):
    """The timers of messages that are due soon."""

    current_active: int
    current_tick: int
    tick_ms: int
    active_by_level: list[int]
    total_scheduled: int
    total_fired: int
    total_canceled: int
    total_cascaded: int


class DelayStats(Reply):
    """How many messages are delayed now, and totals since the broker was started."""

    _nested: ClassVar[Mapping[str, type[Reply]]] = {"timer_wheel": TimerWheelStats}
    total_scheduled: int
    total_delivered: int
    total_canceled: int
    total_expired: int
    total_pending: int
    pending_expired: int
    late_ms_max: int
    late_ms_average: float
    schedules: int
    by_topic: dict[str, TopicDelayStats]
    timer_wheel: TimerWheelStats

    def __init__(self, fields: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self["by_topic"] = {name: TopicDelayStats(one) for name, one in self["by_topic"].items()}


class Schedule(Reply):
    """A recurring message and its next runs; times are RFC 3339 text."""

    name: str
    cron: str
    timezone: str
    topic: str
    missed: str
    next_runs: list[str]
    runs: int
    last_run: str | None
    next_slot: str | None
    key: str | None
    value: str | None
    headers: dict[str, str | None]
    encoding: str | None

    _defaults: ClassVar[Mapping[str, Any]] = {
        "last_run": None,
        "next_slot": None,
        "key": None,
        "value": None,
        "headers": {},
        "encoding": None,
    }


class DeletedSchedule(Reply):
    """A recurring message that was deleted."""

    deleted: bool
    name: str

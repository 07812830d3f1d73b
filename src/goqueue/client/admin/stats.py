"""Figures of queues and lanes, with attributes that an editor knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from goqueue.client.admin.replies import Reply


class SettlementStats(Reply):
    """What consumers did with messages since the broker was started."""

    delivered_total: int
    redelivered_total: int
    acked_total: int
    nacked_total: int
    rejected_total: int
    released_total: int
    waiting_for_retry: int
    consumers: int


class LeaseStats(Reply):
    """Messages in flight, and how their leases ended."""

    in_flight: int
    extended_total: int
    expired_total: int


class DeadLetterStats(Reply):
    """Dead letters, and messages on their way there."""

    dead_lettered_total: int
    failures_total: int
    too_old_total: int
    unreadable_total: int
    dying: int
    by_topic: dict[str, int]


class QueueStats(Reply):
    """One group on one partition; `at_bound` says that it gets nothing new until something is settled."""

    group: str
    topic: str
    partition: int
    in_flight: int
    waiting: int
    dying: int
    outstanding: int
    at_bound: bool
    consumers: dict[str, int]


class ReliabilityStats(Reply):
    """All queues together, and each."""

    _nested: ClassVar[Mapping[str, type[Reply]]] = {
        "ack_manager": SettlementStats,
        "visibility_tracker": LeaseStats,
        "dlq": DeadLetterStats,
        "queues": QueueStats,
    }
    ack_manager: SettlementStats
    visibility_tracker: LeaseStats
    dlq: DeadLetterStats
    queues: list[QueueStats]


class LaneStats(Reply):
    """One lane of one group: totals since the start of the broker, rates over the last minute, times in Unix ms."""

    ready: int
    in_flight: int
    delivered_total: int
    delivered_per_second: float
    enqueued_total: int
    enqueued_per_second: float
    last_served_at: int | None
    waiting_since: int | None
    waiting_ms: int


class GroupLanes(Reply):
    """The lanes of one group on one partition, by name."""

    group: str
    lanes: dict[str, LaneStats]

    def __init__(self, fields: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self["lanes"] = {name: LaneStats(one) for name, one in self["lanes"].items()}


class TopicLanes(Reply):
    """The groups of a topic, by partition (as text)."""

    partitions: dict[str, list[GroupLanes]]

    def __init__(self, fields: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self["partitions"] = {at: [GroupLanes(one) for one in found] for at, found in self["partitions"].items()}


class PriorityStats(Reply):
    """The lanes of all queues together, critical first, and each queue's."""

    ready_by_priority: list[int]
    in_flight_by_priority: list[int]
    delivered_by_priority: list[int]
    topics: dict[str, TopicLanes]

    def __init__(self, fields: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self["topics"] = {name: TopicLanes(one) for name, one in self["topics"].items()}

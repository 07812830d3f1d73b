"""What queues look like from outside: values for the statistics routes and the metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from goqueue.broker.lane_rates import LaneRates
from goqueue.delivery.lanes.lane_scheduler import LANES
from goqueue.delivery.leases.receive_plan import LaneOffer
from goqueue.delivery.state.queue import Queue


class QueueStats(msgspec.Struct, frozen=True):
    """One group on one partition."""

    group: str
    topic: str
    partition: int
    in_flight: int
    # Waiting for a retry, or for an earlier message of the key.
    waiting: int
    dying: int
    outstanding: int
    # Whether so much is outstanding that the group gets nothing new.
    at_bound: bool
    consumers: dict[str, int]


class ReliabilityStats(msgspec.Struct, frozen=True):
    """All queues together; counts are since the start of the node."""

    in_flight: int
    waiting: int
    dying: int
    consumers: int
    delivered_total: int
    redelivered_total: int
    acked_total: int
    nacked_total: int
    rejected_total: int
    released_total: int
    extended_total: int
    expired_total: int
    too_old_total: int
    # Stretches of offsets that were set aside because nobody can read them.
    unreadable_total: int
    dead_lettered_total: int
    dead_letter_failures_total: int
    dead_lettered_by_topic: dict[str, int]
    queues: list[QueueStats] = msgspec.field(default_factory=list)


class LaneStats(msgspec.Struct, frozen=True):
    """One lane of one queue. `ready` counts what may be delivered now, as far as anybody has looked."""

    priority: int
    ready: int
    in_flight: int
    delivered_total: int
    # Of the group, over the last minute.
    delivered_per_second: float
    # Into the partition, whoever reads it.
    enqueued_total: int
    enqueued_per_second: float
    last_served_ms: int | None
    # Since when it has waited for its turn.
    waiting_since_ms: int | None
    waiting_ms: int


class QueueLanes(msgspec.Struct, frozen=True):
    """The lanes of one group on one partition."""

    group: str
    topic: str
    partition: int
    lanes: list[LaneStats]


class PriorityStats(msgspec.Struct, frozen=True):
    """The lanes of all queues, and their sums."""

    ready_by_priority: list[int]
    in_flight_by_priority: list[int]
    delivered_by_priority: list[int]
    queues: list[QueueLanes]


class DeadLetterCounts(NamedTuple):
    """What was moved to dead-letter topics, by where it came from, and how often moving failed."""

    moved_by_topic: Mapping[str, int]
    failures: int


class LaneReport(NamedTuple):
    """A queue with what its lanes have to give."""

    topic: str
    queue: Queue
    offers: Sequence[LaneOffer]
    enqueued: LaneRates


def reliability_stats(queues: Sequence[tuple[str | None, Queue]], dead_letters: DeadLetterCounts) -> ReliabilityStats:
    """Everything of these queues, each with its topic, that is in flight, retried or dead."""
    counts: Counter[str] = Counter()
    rows: list[QueueStats] = []
    consumers: set[tuple[str, str]] = set()
    for topic, queue in queues:
        counts.update(queue.counts)
        if topic is None:
            continue
        consumers.update((queue.id.group, consumer) for consumer in queue.in_flight)
        outstanding, dying = len(queue.outstanding), len(queue.dying)
        rows.append(
            QueueStats(
                group=queue.id.group,
                topic=topic,
                partition=queue.id.partition,
                in_flight=queue.in_flight_count,
                waiting=outstanding - dying - queue.in_flight_count,
                dying=dying,
                outstanding=outstanding,
                at_bound=outstanding >= queue.policy.outstanding_max,
                consumers=dict(queue.in_flight),
            )
        )
    rows.sort(key=lambda row: (row.group, row.topic, row.partition))
    return ReliabilityStats(
        in_flight=sum(row.in_flight for row in rows),
        waiting=sum(row.waiting for row in rows),
        dying=sum(row.dying for row in rows),
        consumers=len(consumers),
        delivered_total=counts["delivered"],
        redelivered_total=counts["redelivered"],
        acked_total=counts["acked"],
        nacked_total=counts["nacked"],
        rejected_total=counts["rejected"],
        released_total=counts["released"],
        extended_total=counts["extended"],
        expired_total=counts["expired"],
        too_old_total=counts["too_old"],
        unreadable_total=counts["unreadable"],
        dead_lettered_total=sum(dead_letters.moved_by_topic.values()),
        dead_letter_failures_total=dead_letters.failures,
        dead_lettered_by_topic=dict(dead_letters.moved_by_topic),
        queues=rows,
    )


def priority_stats(reports: Sequence[LaneReport], now_ms: int) -> PriorityStats:
    """Per queue and lane: what is ready, in flight and served."""
    rows = [
        QueueLanes(
            report.queue.id.group,
            report.topic,
            report.queue.id.partition,
            [_lane_stats(report, lane, now_ms) for lane in range(LANES)],
        )
        for report in reports
    ]
    rows.sort(key=lambda row: (row.group, row.topic, row.partition))
    return PriorityStats(
        ready_by_priority=[sum(row.lanes[lane].ready for row in rows) for lane in range(LANES)],
        in_flight_by_priority=[sum(row.lanes[lane].in_flight for row in rows) for lane in range(LANES)],
        delivered_by_priority=[sum(row.lanes[lane].delivered_total for row in rows) for lane in range(LANES)],
        queues=rows,
    )


def lane_ready(queue: Queue, offers: Sequence[LaneOffer], lane: int) -> int:
    """What may be delivered now: again, or for the first time."""
    return len(queue.ready_offsets(lane, len(queue.ready[lane]))) + offers[lane].size


def _lane_stats(report: LaneReport, lane: int, now_ms: int) -> LaneStats:
    queue = report.queue
    since_ms = queue.scheduler.waits_since_ms(lane)
    last_ms = queue.scheduler.last_served_ms[lane]
    return LaneStats(
        priority=lane,
        ready=lane_ready(queue, report.offers, lane),
        in_flight=queue.lane_in_flight[lane],
        delivered_total=queue.served.totals[lane],
        delivered_per_second=queue.served.per_second(lane, now_ms),
        enqueued_total=report.enqueued.totals[lane],
        enqueued_per_second=report.enqueued.per_second(lane, now_ms),
        last_served_ms=None if last_ms < 0 else last_ms,
        waiting_since_ms=since_ms,
        waiting_ms=0 if since_ms is None else max(now_ms - since_ms, 0),
    )

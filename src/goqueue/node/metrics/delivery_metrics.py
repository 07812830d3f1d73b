"""The series of queue groups: what they hold, retried, settled and buried, since the node started."""

from __future__ import annotations

from collections import Counter

from prometheus_client.core import Metric

from goqueue.delivery.service import DeliveryService
from goqueue.delivery.stats import lane_ready
from goqueue.node.metrics.series import Series
from goqueue.records import Priority

_QUEUE = ("topic", "consumer_group")

DELIVERED = Series("broker_messages_delivered", "Messages delivered to queue groups.", _QUEUE)
REDELIVERED = Series("broker_messages_redelivered", "Deliveries after the first.", _QUEUE)
ACKED = Series("broker_messages_acked", "Messages acknowledged.", _QUEUE)
NACKED = Series("broker_messages_nacked", "Messages given back after a failure.", _QUEUE)
REJECTED = Series("broker_messages_rejected", "Messages rejected for good.", _QUEUE)
EXPIRED = Series("broker_messages_expired", "Messages whose visibility ended without an answer.", _QUEUE)
TOO_OLD = Series(
    "broker_messages_too_old", "Messages passed over because they are older than their topic's TTL.", _QUEUE
)
UNREADABLE = Series("broker_unreadable_set_aside", "Unreadable ranges of records that were set aside.", _QUEUE)
IN_FLIGHT = Series("broker_messages_in_flight", "Messages that consumers hold.", _QUEUE)
WAITING = Series("broker_messages_waiting", "Messages that wait for a retry or for their key.", _QUEUE)
DEAD_LETTERING = Series("broker_messages_dead_lettering", "Messages on their way to the dead-letter topic.", _QUEUE)
DEAD_LETTERED = Series("broker_messages_dead_lettered", "Messages moved to the dead-letter topic.", ("topic",))
DEAD_LETTER_FAILURES = Series("broker_dead_letter_failures", "Moves to a dead-letter topic that must be tried again.")
BY_PRIORITY = Series(
    "broker_priority_messages_delivered", "Messages delivered to queue groups, by lane.", ("topic", "priority")
)

# By topic and lane, not by partition and group: five rows a topic, however many partitions it has.
READY_BY_PRIORITY = Series(
    "broker_priority_messages_ready",
    "Messages that queue groups could take now, as far as they have looked, by lane.",
    ("topic", "priority"),
)
IN_FLIGHT_BY_PRIORITY = Series(
    "broker_priority_messages_in_flight",
    "Messages that consumers of queue groups hold, by lane.",
    ("topic", "priority"),
)
LAST_SERVED = Series(
    "broker_priority_last_served_timestamp_seconds",
    "When a message of the lane was last delivered to a queue group.",
    ("topic", "priority"),
)

_COUNTED = {
    "delivered": DELIVERED,
    "redelivered": REDELIVERED,
    "acked": ACKED,
    "nacked": NACKED,
    "rejected": REJECTED,
    "expired": EXPIRED,
    "too_old": TOO_OLD,
    "unreadable": UNREADABLE,
}


async def delivery_metrics(delivery: DeliveryService) -> list[Metric]:
    """Every series of delivery, with its rows."""
    counts: dict[str, Counter[tuple[str, str]]] = {name: Counter() for name in _COUNTED}
    lanes: Counter[tuple[str, str]] = Counter()
    ready: Counter[tuple[str, str]] = Counter()
    in_flight: Counter[tuple[str, str]] = Counter()
    last_served: dict[tuple[str, str], float] = {}
    for topic, queue in delivery.queues():
        for name, counter in counts.items():
            counter[topic, queue.id.group] += queue.counts[name]
        offers = delivery.known_offers(queue)
        for lane in Priority:
            at = (topic, lane.name.lower())
            lanes[at] += queue.served.totals[lane]
            ready[at] += lane_ready(queue, offers, lane)
            in_flight[at] += queue.lane_in_flight[lane]
            if queue.scheduler.last_served_ms[lane] >= 0:
                last_served[at] = max(queue.scheduler.last_served_ms[lane] / 1000, last_served.get(at, 0))
    stats = await delivery.stats()
    held: Counter[tuple[str, str]] = Counter()
    waiting: Counter[tuple[str, str]] = Counter()
    dead_lettering: Counter[tuple[str, str]] = Counter()
    for row in stats.queues:
        held[row.topic, row.group] += row.in_flight
        waiting[row.topic, row.group] += row.waiting
        dead_lettering[row.topic, row.group] += row.dying
    return [
        *(_COUNTED[name].counter(sorted(counter.items())) for name, counter in counts.items()),
        IN_FLIGHT.gauge(sorted(held.items())),
        WAITING.gauge(sorted(waiting.items())),
        DEAD_LETTERING.gauge(sorted(dead_lettering.items())),
        DEAD_LETTERED.counter(sorted(((topic,), count) for topic, count in stats.dead_lettered_by_topic.items())),
        DEAD_LETTER_FAILURES.counter([((), stats.dead_letter_failures_total)]),
        BY_PRIORITY.counter(sorted(lanes.items())),
        READY_BY_PRIORITY.gauge(sorted(ready.items())),
        IN_FLIGHT_BY_PRIORITY.gauge(sorted(in_flight.items())),
        LAST_SERVED.gauge(sorted(last_served.items())),
    ]

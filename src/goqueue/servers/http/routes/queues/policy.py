"""Policies of queue groups, and what queues and lanes look like."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta

from goqueue.delivery.policy import DeliveryPolicy, checked_wishes, group_policy, node_policy
from goqueue.delivery.stats import LaneStats
from goqueue.records import Priority
from goqueue.servers.http.route import Call, Route
from goqueue.servers.http.types.queues import (
    AckManagerStats,
    DeadLetterStats,
    GroupPolicy,
    LaneFigures,
    PartitionLanes,
    Policy,
    PolicyBody,
    PriorityStatsReply,
    QueueFigures,
    ReliabilityStatsReply,
    TopicLanes,
    VisibilityStats,
)
from goqueue.servers.services import Services

_LANES = tuple(lane.name.lower() for lane in Priority)


class TopicQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Of one topic, or of any: a policy leaves the topics' own settings out then, figures are of all together."""

    topic: Annotated[str, Meta(min_length=1, max_length=249)] | None = None


async def show(services: Services, call: Call) -> GroupPolicy:
    """How a queue group's messages are delivered."""
    return await _policy(services, call.path["group"], call.query.topic)


async def alter(services: Services, call: Call) -> GroupPolicy:
    """Change it. Deadlines of what is out stay; what happens to it next follows the new policy."""
    group, body = call.path["group"], call.body
    given = {name: getattr(body, name) for name in body.__struct_fields__}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not UNSET}
    checked_wishes({name: value for name, value in changes.items() if name != "sharing"})
    await services.groups.alter_queue(group, changes)
    await services.delivery.govern(group)
    return await _policy(services, group, None)


async def reliability_stats(services: Services, call: Call) -> ReliabilityStatsReply:
    """What is in flight, settled, retried and dead-lettered."""
    found = await services.delivery.stats(call.query.topic)
    return ReliabilityStatsReply(
        ack_manager=AckManagerStats(
            delivered_total=found.delivered_total,
            redelivered_total=found.redelivered_total,
            acked_total=found.acked_total,
            nacked_total=found.nacked_total,
            rejected_total=found.rejected_total,
            released_total=found.released_total,
            waiting_for_retry=found.waiting,
            consumers=found.consumers,
        ),
        visibility_tracker=VisibilityStats(
            in_flight=found.in_flight, extended_total=found.extended_total, expired_total=found.expired_total
        ),
        dlq=DeadLetterStats(
            dead_lettered_total=found.dead_lettered_total,
            failures_total=found.dead_letter_failures_total,
            too_old_total=found.too_old_total,
            unreadable_total=found.unreadable_total,
            dying=found.dying,
            by_topic=found.dead_lettered_by_topic,
        ),
        queues=[
            QueueFigures(
                group=one.group,
                topic=one.topic,
                partition=one.partition,
                in_flight=one.in_flight,
                waiting=one.waiting,
                dying=one.dying,
                outstanding=one.outstanding,
                at_bound=one.at_bound,
                consumers=one.consumers,
            )
            for one in found.queues
        ],
    )


async def priority_stats(services: Services, call: Call) -> PriorityStatsReply:
    """What waits in the lanes, per topic and partition, and how they are served."""
    found = await services.delivery.priority_stats(call.query.topic)
    topics: dict[str, TopicLanes] = {}
    for one in found.queues:
        topic = topics.setdefault(one.topic, TopicLanes(partitions={}))
        lanes = {_LANES[lane.priority]: _lane(lane) for lane in one.lanes}
        topic.partitions.setdefault(str(one.partition), []).append(PartitionLanes(group=one.group, lanes=lanes))
    return PriorityStatsReply(
        ready_by_priority=found.ready_by_priority,
        in_flight_by_priority=found.in_flight_by_priority,
        delivered_by_priority=found.delivered_by_priority,
        topics=topics,
    )


def _lane(lane: LaneStats) -> LaneFigures:
    return LaneFigures(
        ready=lane.ready,
        in_flight=lane.in_flight,
        delivered_total=lane.delivered_total,
        delivered_per_second=round(lane.delivered_per_second, 3),
        enqueued_total=lane.enqueued_total,
        enqueued_per_second=round(lane.enqueued_per_second, 3),
        last_served_at=lane.last_served_ms,
        waiting_since=lane.waiting_since_ms,
        waiting_ms=lane.waiting_ms,
    )


async def _policy(services: Services, group: str, topic: str | None) -> GroupPolicy:
    settings = await services.groups.queue_settings(group)
    if topic is not None:
        services.topics.get(topic)
        effective = await services.delivery.policy(group, topic)
    else:
        wishes = {**settings.policy, "key_ordered": settings.key_ordered}
        effective = group_policy(node_policy(services.config.delivery), wishes)
    return GroupPolicy(
        group=group,
        mode="queue",
        sharing=str(settings.sharing or ""),
        key_ordered=settings.key_ordered,
        overrides=dict(settings.policy),
        effective=_effective(effective),
    )


def _effective(policy: DeliveryPolicy) -> Policy:
    return Policy(
        visibility_ms=policy.visibility_ms,
        retries_max=policy.retries_max,
        backoff_ms=policy.backoff_ms,
        backoff_multiplier=policy.backoff_multiplier,
        backoff_ms_max=policy.backoff_ms_max,
        backoff_jitter=policy.backoff_jitter,
        in_flight_max=policy.in_flight_max,
        outstanding_max=policy.outstanding_max,
        key_ordered=policy.key_ordered,
        dead_letters=policy.dead_letters,
        ttl_ms=policy.ttl_ms,
        strict_priority=policy.strict_priority,
        lane_weights=list(policy.lane_weights),
        starvation_ms=policy.starvation_ms,
    )


ROUTES = (
    Route(
        "GET",
        "/groups/{group}/policy",
        show,
        "Show a queue group's policy",
        {200: GroupPolicy},
        query=TopicQuery,
        errors=(400, 404, 409, 503),
    ),
    Route(
        "PATCH",
        "/groups/{group}/policy",
        alter,
        "Change a queue group's policy",
        {200: GroupPolicy},
        body=PolicyBody,
        errors=(400, 404, 409, 503, 507),
    ),
    Route(
        "GET",
        "/reliability/stats",
        reliability_stats,
        "Statistics of deliveries and retries",
        {200: ReliabilityStatsReply},
        query=TopicQuery,
        errors=(400, 404),
    ),
    Route(
        "GET",
        "/priority/stats",
        priority_stats,
        "Statistics of priority lanes",
        {200: PriorityStatsReply},
        query=TopicQuery,
        errors=(400, 404),
    ),
)

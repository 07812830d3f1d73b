"""Cooperative membership: the protocol of KIP-848, so Kafka clients may share the group."""

from __future__ import annotations

from goqueue.errors import InconsistentProtocol, InvalidRequest, UnknownMember
from goqueue.groups.classic.eager import missing_topics
from goqueue.groups.commands import JOIN_EPOCH, LEAVE_EPOCH, ConsumerBeat, ConsumerHeartbeat, RebalanceState
from goqueue.groups.descriptions import ConsumerDescription, ConsumerMemberDescription
from goqueue.groups.statistics import RebalanceStatistics
from goqueue.groups.subscription.topic_partitions import NO_PARTITIONS, PartitionSet, TopicIdPartition
from goqueue.servers.http.route import Call, Route
from goqueue.servers.http.routes.groups.groups import named, refs
from goqueue.servers.http.routes.groups.members import queue_wish
from goqueue.servers.http.types.groups import (
    CooperativeBeatBody,
    CooperativeGroup,
    CooperativeJoinBody,
    CooperativeState,
    Done,
    LeaveBody,
    PartitionRef,
    RebalanceStats,
    RevokeBody,
    Revoked,
)
from goqueue.servers.services import Services


async def join(services: Services, call: Call) -> CooperativeState:
    """Join a group cooperatively."""
    body: CooperativeJoinBody = call.body
    if not body.topics and body.pattern is None:
        raise InvalidRequest("a member must name topics or a pattern", field="topics")
    missing = missing_topics(services.topics, body.topics, is_member=body.pattern is not None)
    beat = await services.groups.consumer_heartbeat(
        ConsumerHeartbeat(
            group=call.path["group"],
            member_id="",
            member_epoch=JOIN_EPOCH,
            instance_id=body.instance_id,
            rebalance_timeout_ms=services.config.groups.revocation_timeout_ms,
            topics=tuple(body.topics),
            regex=body.pattern,
            assignor=body.assignor,
            owned=NO_PARTITIONS,
            client_id=body.client_id,
            client_host=call.request.remote or "",
            tags=body.tags,
            as_queue=queue_wish(body),
        )
    )
    state = await _state(services, call.path["group"], beat)
    state.missing_topics = list(missing)
    return state


async def heartbeat(services: Services, call: Call) -> CooperativeState:
    """Send a heartbeat and get the assignment."""
    body: CooperativeBeatBody = call.body
    owned = None if body.owned_partitions is None else _ids(services, body.owned_partitions)
    return await _state(services, call.path["group"], await _beat(services, call, body, owned))


async def revoke(services: Services, call: Call) -> Revoked:
    """Confirm that partitions were revoked."""
    body: RevokeBody = call.body
    member = await _member(services, call.path["group"], body.member_id)
    left = (member.assigned | member.revoking) - _ids(services, body.revoked_partitions)
    beat = await _beat(services, call, body, left)
    return Revoked(
        status="ok",
        pending_count=len(beat.revoking),
        rebalance_state=str(beat.state),
        generation=beat.member_epoch,
    )


async def leave(services: Services, call: Call) -> Done:
    """Leave a group; its partitions are reassigned at once."""
    group, member_id = call.path["group"], call.body.member_id
    await services.groups.consumer_heartbeat(ConsumerHeartbeat(group, member_id, LEAVE_EPOCH))
    services.group_polls.forget(group, member_id)
    return Done(status="left")


async def show(services: Services, call: Call) -> CooperativeGroup:
    """Describe a cooperative group, member by member."""
    described = await _described(services, call.path["group"])
    return CooperativeGroup(
        id=described.group,
        state=str(described.state),
        protocol="consumer",
        generation=described.epoch,
        assignment_strategy=described.assignor,
        member_assignments={one.member_id: refs(named(services, one.assigned)) for one in described.members},
        member_targets={one.member_id: refs(named(services, one.target)) for one in described.members},
    )


async def group_stats(services: Services, call: Call) -> RebalanceStats:
    """Rebalances of one group."""
    described = await services.groups.describe(call.path["group"])
    return _stats(services.groups.rebalance_statistics(described.group))


async def all_stats(services: Services, _call: Call) -> RebalanceStats:
    """Rebalances of all groups."""
    return _stats(services.groups.rebalance_statistics())


async def _beat(
    services: Services, call: Call, body: CooperativeBeatBody | RevokeBody, owned: PartitionSet | None
) -> ConsumerBeat:
    return await services.groups.consumer_heartbeat(
        ConsumerHeartbeat(call.path["group"], body.member_id, body.generation, owned=owned)
    )


async def _state(services: Services, group: str, beat: ConsumerBeat) -> CooperativeState:
    member = await _member(services, group, beat.member_id)
    owned, revoking = named(services, member.assigned), named(services, member.revoking)
    return CooperativeState(
        member_id=beat.member_id,
        generation=beat.member_epoch,
        protocol="consumer",
        state=str(beat.state),
        rebalance_required=beat.state not in {RebalanceState.NONE, RebalanceState.COMPLETE},
        partitions=refs(owned),
        partitions_assigned=refs(owned),
        partitions_to_revoke=refs(revoking),
        heartbeat_interval_ms=beat.heartbeat_interval_ms,
        revocation_deadline=beat.revoke_before_ms,
        topic_ids={topic: str(services.topics.get(topic).topic_id) for topic in sorted({at.topic for at in owned})},
    )


async def _member(services: Services, group: str, member_id: str) -> ConsumerMemberDescription:
    described = await _described(services, group)
    for member in described.members:
        if member.member_id == member_id:
            return member
    raise UnknownMember(f"{member_id!r} is not a member of group {group!r}")


async def _described(services: Services, group: str) -> ConsumerDescription:
    described = await services.groups.describe(group)
    if not isinstance(described, ConsumerDescription):
        raise InconsistentProtocol(f"group {group!r} is a classic group: join it eagerly")
    return described


def _ids(services: Services, partitions: list[PartitionRef]) -> PartitionSet:
    # A member may own, or give up, partitions of a topic that was deleted meanwhile: there is nothing left of them.
    found = ((services.topics.find(one.topic), one.partition) for one in partitions)
    return frozenset(TopicIdPartition(topic.topic_id, number) for topic, number in found if topic is not None)


def _stats(found: RebalanceStatistics) -> RebalanceStats:
    return RebalanceStats(
        total_rebalances=found.started,
        successful_rebalances=found.completed,
        abandoned_rebalances=found.abandoned,
        total_partitions_moved=found.partitions_moved,
        total_revocation_timeouts=found.revocation_timeouts,
        average_rebalance_duration_ms=found.duration_ms_average,
        last_rebalance_duration_ms=found.duration_ms_last,
        last_rebalance_at=found.last_completed_ms,
        rebalances_by_reason={str(reason): count for reason, count in found.by_reason.items()},
    )


_REFUSALS = (400, 404, 409, 429, 503)

ROUTES = (
    Route(
        "POST",
        "/groups/{group}/join/cooperative",
        join,
        "Join a group (cooperative rebalance)",
        {200: CooperativeState},
        body=CooperativeJoinBody,
        errors=_REFUSALS,
    ),
    Route(
        "POST",
        "/groups/{group}/heartbeat/cooperative",
        heartbeat,
        "Send a heartbeat and get the assignment (cooperative rebalance)",
        {200: CooperativeState},
        body=CooperativeBeatBody,
        errors=_REFUSALS,
    ),
    Route(
        "POST",
        "/groups/{group}/revoke",
        revoke,
        "Confirm that partitions were revoked",
        {200: Revoked},
        body=RevokeBody,
        errors=_REFUSALS,
    ),
    Route(
        "POST",
        "/groups/{group}/leave/cooperative",
        leave,
        "Leave a group",
        {200: Done},
        body=LeaveBody,
        errors=_REFUSALS,
    ),
    Route(
        "GET",
        "/groups/{group}/cooperative",
        show,
        "Show members and target assignments",
        {200: CooperativeGroup},
        errors=_REFUSALS,
    ),
    Route(
        "GET",
        "/groups/{group}/rebalance/stats",
        group_stats,
        "Rebalances of a group",
        {200: RebalanceStats},
        errors=(400, 404),
    ),
    Route("GET", "/rebalance/stats", all_stats, "Rebalances of all groups", {200: RebalanceStats}),
)

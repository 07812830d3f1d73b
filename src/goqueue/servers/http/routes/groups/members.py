"""Membership over HTTP: eager joins, polls, and what a member owns."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from goqueue.errors import InvalidRequest
from goqueue.groups.commands import LeaveGroup, Leaver
from goqueue.groups.polls import Poll
from goqueue.groups.queue.settings import AsQueue, Sharing
from goqueue.records import TopicPartition
from goqueue.servers.http.bodies.durations import parse_duration_ms, parse_visibility_ms
from goqueue.servers.http.bodies.large_answers import MessagesReply, size_of
from goqueue.servers.http.bodies.message_json import message_of, queued_message, unreadable_ranges
from goqueue.servers.http.queue_poll import QueuePoll, poll_queue
from goqueue.servers.http.route import Answer, Call, Route
from goqueue.servers.http.routes.groups.groups import parse_offsets, refs
from goqueue.servers.http.types.groups import (
    AssignmentReply,
    CooperativeJoinBody,
    Done,
    JoinBody,
    JoinedEager,
    LeaveBody,
    MemberBody,
    PollBody,
    PollReply,
)
from goqueue.servers.services import Services


class PollQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A poll whose positions the broker keeps; `again` repeats the last one, whose answer was lost."""

    member_id: str
    generation: int
    timeout: Annotated[str, Meta(max_length=20)] = "30s"
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 100
    max_bytes: Annotated[int, Meta(ge=1, le=52_428_800)] = 4 * 1024 * 1024
    auto_offset_reset: Literal["earliest", "latest"] = "earliest"
    visibility: Annotated[str, Meta(max_length=20)] | None = None
    again: bool = False


class MemberQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which member."""

    member_id: str
    generation: int


async def join(services: Services, call: Call) -> JoinedEager:
    """Join a group eagerly."""
    body: JoinBody = call.body
    session_ms = body.session_timeout_ms or services.config.groups.session_timeout_ms
    joined = await services.eager_groups.join(
        call.path["group"],
        body.topics,
        member_id=body.member_id,
        client_id=body.client_id,
        client_host=call.request.remote or "",
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=body.rebalance_timeout_ms,
        as_queue=queue_wish(body),
    )
    # A commit of the former generation may have been refused: what was read and not committed comes again.
    services.group_polls.forget(call.path["group"], joined.member_id)
    return JoinedEager(
        member_id=joined.member_id,
        generation=joined.generation,
        leader_id=joined.leader,
        protocol="classic",
        partitions=refs(joined.partitions),
        members=list(joined.members),
        missing_topics=list(joined.missing_topics),
    )


async def heartbeat(services: Services, call: Call) -> Done:
    """Send a heartbeat."""
    await services.eager_groups.heartbeat(call.path["group"], call.body.member_id, call.body.generation)
    return Done(status="ok")


async def leave(services: Services, call: Call) -> Done:
    """Leave a group."""
    group, member_id = call.path["group"], call.body.member_id
    await services.eager_groups.leave(group, member_id)
    services.group_polls.forget(group, member_id)
    return Done(status="left")


async def evict(services: Services, call: Call) -> Done:
    """Evict a member from its group. One that still runs may join again."""
    group, member_id = call.path["group"], call.path["member"]
    await services.groups.describe(group)
    (refusal,) = await services.groups.leave(LeaveGroup(group, (Leaver(member_id),)))
    if refusal is not None:
        raise refusal
    services.group_polls.forget(group, member_id)
    return Done(status="evicted")


async def poll_held(services: Services, call: Call) -> MessagesReply | Answer:
    """Read on where the broker remembers the member to be; or, from a queue, take messages."""
    query: PollQuery = call.query
    wait_ms = parse_duration_ms(query.timeout, "timeout", maximum_ms=services.config.http.wait_ms_max)
    if await _is_queue(services, call.path["group"], query.visibility):
        return await _take(services, call, query, wait_ms)
    return await _read_on(services, call, query, wait_ms)


async def poll(services: Services, call: Call) -> MessagesReply | Answer:
    """Poll messages from the member's positions, or receive them from a queue."""
    body: PollBody = call.body
    if await _is_queue(services, call.path["group"], body.visibility):
        if body.positions is not None:
            raise InvalidRequest(
                "a queue group has no positions: its messages are settled by receipts", field="positions"
            )
        return await _take(services, call, body, body.timeout_ms)
    if body.positions is not None and body.again:
        raise InvalidRequest("positions and again exclude each other", field="again")
    positions = None if body.positions is None else dict(parse_offsets(body.positions))
    return await _read_on(services, call, body, body.timeout_ms, positions=positions)


async def assignment(services: Services, call: Call) -> AssignmentReply:
    """The partitions that are assigned to a member."""
    member_id = call.query.member_id
    owned, generation = await services.group_polls.assignment(call.path["group"], member_id, call.query.generation)
    return AssignmentReply(member_id=member_id, generation=generation, partitions=refs(owned))


def queue_wish(body: JoinBody | CooperativeJoinBody) -> AsQueue | None:
    """What a join says about its group as a queue; None for a stream."""
    if body.mode == "queue":
        return AsQueue(None if body.sharing is None else Sharing(body.sharing), body.key_ordered)
    if body.sharing is not None or body.key_ordered is not None:
        raise InvalidRequest(
            "sharing and key_ordered apply to queue groups only",
            field="mode",
            hint='send "mode": "queue", or leave them out',
        )
    return None


async def _is_queue(services: Services, group: str, visibility: str | None) -> bool:
    described = await services.groups.describe(group)
    if described.queue is None and visibility is not None:
        raise InvalidRequest("messages of a stream group have no visibility", field="visibility")
    return described.queue is not None


async def _take(services: Services, call: Call, asked: PollQuery | PollBody, wait_ms: int) -> MessagesReply:
    if asked.again:
        raise InvalidRequest(
            "messages of a queue group that are not settled are redelivered automatically", field="again"
        )
    await services.answers.room()
    found, generation = await poll_queue(
        services,
        QueuePoll(
            group=call.path["group"],
            member_id=asked.member_id,
            generation=asked.generation,
            limit=min(asked.limit, services.config.delivery.receive_max),
            max_bytes=asked.max_bytes,
            wait_ms=wait_ms,
            visibility_ms=parse_visibility_ms(asked.visibility),
            paused=_paused(asked),
        ),
    )
    reply = PollReply(messages=[], next_offsets={}, generation=generation)
    return MessagesReply(reply, (queued_message(one) for one in found), size_of(found))


async def _read_on(
    services: Services,
    call: Call,
    asked: PollQuery | PollBody,
    wait_ms: int,
    *,
    positions: dict[TopicPartition, int] | None = None,
) -> Answer:
    await services.answers.room()
    polled = await services.group_polls.poll(
        Poll(
            group=call.path["group"],
            member_id=asked.member_id,
            generation=asked.generation,
            limit=asked.limit,
            max_bytes=asked.max_bytes,
            wait_ms=wait_ms,
            from_latest=asked.auto_offset_reset == "latest",
            positions=positions,
            again=asked.again,
            paused=_paused(asked),
        )
    )
    next_offsets: dict[str, dict[str, int]] = {}
    for at, offset in polled.next_offsets.items():
        next_offsets.setdefault(at.topic, {})[str(at.partition)] = offset
    messages = (message_of(at.topic, at.partition, one) for at, records in polled.records.items() for one in records)
    unreadable = [row for at, found in polled.unreadable.items() for row in unreadable_ranges(at, found)]
    reply = PollReply(messages=[], next_offsets=next_offsets, generation=polled.generation, unreadable=unreadable)
    size_bytes = sum(map(size_of, polled.records.values()))
    return Answer(200, MessagesReply(reply, messages, size_bytes), sent=polled.sent)


def _paused(asked: PollQuery | PollBody) -> frozenset[TopicPartition]:
    paused = asked.paused if isinstance(asked, PollBody) else ()
    return frozenset(TopicPartition(one.topic, one.partition) for one in paused)


_REFUSALS = (400, 404, 409, 429, 503)

ROUTES = (
    Route(
        "POST",
        "/groups/{group}/join",
        join,
        "Join a group (eager rebalance)",
        {200: JoinedEager},
        body=JoinBody,
        errors=_REFUSALS,
    ),
    Route(
        "POST",
        "/groups/{group}/heartbeat",
        heartbeat,
        "Send a heartbeat",
        {200: Done},
        body=MemberBody,
        errors=_REFUSALS,
    ),
    Route("POST", "/groups/{group}/leave", leave, "Leave a group", {200: Done}, body=LeaveBody, errors=_REFUSALS),
    Route("DELETE", "/groups/{group}/members/{member}", evict, "Evict a member", {200: Done}, errors=_REFUSALS),
    Route(
        "GET",
        "/groups/{group}/poll",
        poll_held,
        "Poll messages as a member",
        {200: PollReply},
        query=PollQuery,
        errors=_REFUSALS,
    ),
    Route(
        "POST",
        "/groups/{group}/poll",
        poll,
        "Poll messages from given positions",
        {200: PollReply},
        body=PollBody,
        errors=_REFUSALS,
    ),
    Route(
        "GET",
        "/groups/{group}/assignment",
        assignment,
        "Show the partitions of a member",
        {200: AssignmentReply},
        query=MemberQuery,
        errors=_REFUSALS,
    ),
)

"""ShareFetch (KIP-932): acknowledge what was fetched before, acquire messages, and fetch the batches that hold them.

Versions 1 and 2. Acknowledgements are settled first, whatever becomes of the fetch.
"""

from __future__ import annotations

from uuid import UUID

from goqueue.errors import GoQueueError, InvalidRequest
from goqueue.groups.subscription.topic_partitions import TopicIdPartition
from goqueue.records import TopicPartition
from goqueue.security.model import Operation, Resource
from goqueue.servers.kafka.api import NONE, Api, Context, Message, Order, Reply, error_code, error_message, failed
from goqueue.servers.kafka.reading.acknowledgements import acknowledge, settlements_of
from goqueue.servers.kafka.reading.share_reading import ShareLimits, SharePart, read_shared
from goqueue.servers.kafka.reading.share_sessions import (
    CLOSE_EPOCH,
    OPEN_EPOCH,
    ShareMember,
    ShareSession,
    share_member,
)
from goqueue.servers.kafka.share_errors import share_error_code

API = Api(
    key=78,
    name="ShareFetch",
    versions=(1, 2),
    gaps=(
        "after the last retry a released record becomes a dead letter",
        "a batch is acquired to its end, up to what one consumer may hold; with several priorities, up to max_records",
        "min_bytes means one message",
        "a consumer sorts what one answer holds by offset, so priorities decide what it gets, not in which order",
    ),
    ends_with_client=True,
    order=Order.POLL,
)

# The acquire mode in which a consumer gets max_records at most (KIP-1206); otherwise batches are given whole.
RECORD_LIMIT = 1
_NO_LEADER = {"leader_id": -1, "leader_epoch": -1}
_DELIVERY_COUNT_MAX = 2**15 - 1


async def handle(context: Context, request: Message) -> Reply:
    """Session, acknowledgements, messages: in this order."""
    services = context.services
    try:
        member = share_member(request.group_id, request.member_id)
        context.services.access.require(Operation.READ, Resource.GROUP, member[0])
        session = await _session(context, request, member)
    except GoQueueError as error:
        return failed(error)
    refused = await _acknowledged(context, request, member)
    found: dict[TopicIdPartition, SharePart] = {}
    if session is None:
        await services.delivery.release_consumer(*member)
    elif request.max_records > 0 and request.max_bytes > 0 and not request.is_renew_ack:
        whole_batches = request.share_acquire_mode != RECORD_LIMIT
        limits = ShareLimits(request.max_records, request.max_bytes, max(request.max_wait, 0), whole_batches)
        # Who waits for nothing but an acknowledgement's result is not kept waiting.
        limits = limits._replace(wait_ms=0) if any(refused.values()) else limits
        found = await read_shared(services, member, session, limits)
    return {
        "error_code": NONE,
        "acquisition_lock_timeout": await lock_ms(context, member, found),
        "responses": _rows(found, refused),
    }


async def lock_ms(context: Context, member: ShareMember, partitions: dict[TopicIdPartition, SharePart]) -> int:
    """For how long messages are locked: the shortest of the topics in the answer."""
    services = context.services
    policies = []
    for topic_id in {one.topic_id for one in partitions}:
        try:
            policies.append(await services.delivery.policy(member[0], services.topics.by_id(topic_id).name))
        except GoQueueError:
            continue
    return min((one.visibility_ms for one in policies), default=services.config.delivery.visibility_ms)


async def _session(context: Context, request: Message, member: ShareMember) -> ShareSession | None:
    """The session that is fetched for; None when it ends with this request."""
    sessions, epoch = context.share_sessions, request.share_session_epoch
    named = [TopicIdPartition(one.topic_id, part.partition_index) for one in request.topics for part in one.partitions]
    if epoch == CLOSE_EPOCH:
        sessions.close(member)
        return None
    if epoch == OPEN_EPOCH:
        if any(part.acknowledgement_batches for one in request.topics for part in one.partitions):
            raise InvalidRequest(
                "a request that begins a share session cannot acknowledge records", field="acknowledgement_batches"
            )
        await context.services.use_shared(member[0])
        session = sessions.open(member, named, context.peer)
        # What the consumer held in an earlier session it does not know of any more.
        await context.services.delivery.release_consumer(*member)
        return session
    session = sessions.go_on(member, epoch)
    session.partitions.update(dict.fromkeys(named))
    for one in request.forgotten_topics_data:
        for partition in one.partitions:
            session.partitions.pop(TopicIdPartition(one.topic_id, partition), None)
    return session


async def _acknowledged(
    context: Context, request: Message, member: ShareMember
) -> dict[TopicIdPartition, GoQueueError | None]:
    """Settle what the request acknowledges; the outcome for each partition that has something to settle."""
    outcomes: dict[TopicIdPartition, GoQueueError | None] = {}
    for topic in request.topics:
        for part in topic.partitions:
            if part.acknowledgement_batches:
                at = TopicIdPartition(topic.topic_id, part.partition_index)
                outcomes[at] = await acknowledge_part(context, member, at, part, with_renewals=request.is_renew_ack)
    return outcomes


async def acknowledge_part(
    context: Context, member: ShareMember, at: TopicIdPartition, part: Message, *, with_renewals: bool
) -> GoQueueError | None:
    """Settle what is acknowledged of one partition."""
    try:
        settlements = settlements_of(part.acknowledgement_batches, with_renewals=with_renewals)
        topic = context.services.topics.by_id(at.topic_id).name
    except GoQueueError as error:
        return error
    return await acknowledge(context.services, member, TopicPartition(topic, at.partition), settlements)


def _rows(
    found: dict[TopicIdPartition, SharePart], refused: dict[TopicIdPartition, GoQueueError | None]
) -> list[dict[str, object]]:
    topics: dict[UUID, list[dict[str, object]]] = {}
    for at in dict.fromkeys([*found, *refused]):
        part, refusal = found.get(at, SharePart()), refused.get(at)
        topics.setdefault(at.topic_id, []).append(
            {
                "partition_index": at.partition,
                "error_code": share_error_code(part.error),
                "error_message": error_message(part.error),
                "acknowledge_error_code": error_code(refusal),
                "acknowledge_error_message": error_message(refusal),
                "current_leader": _NO_LEADER,
                "records": part.batches,
                "acquired_records": [
                    {
                        "first_offset": run.first,
                        "last_offset": run.last,
                        "delivery_count": min(run.delivery_count, _DELIVERY_COUNT_MAX),
                    }
                    for run in part.acquired
                ],
            }
        )
    return [{"topic_id": topic_id, "partitions": rows} for topic_id, rows in topics.items()]

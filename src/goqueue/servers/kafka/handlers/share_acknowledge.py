"""ShareAcknowledge (KIP-932): settle what was fetched, without fetching more.

Versions 1 and 2; 2 can renew locks.
"""

from __future__ import annotations

from goqueue.errors import GoQueueError, InvalidShareSessionEpoch
from goqueue.groups.subscription.topic_partitions import TopicIdPartition
from goqueue.security.model import Operation, Resource
from goqueue.servers.kafka.api import NONE, Api, Context, Message, Order, Reply, error_code, error_message, failed
from goqueue.servers.kafka.handlers.share_fetch import acknowledge_part, lock_ms
from goqueue.servers.kafka.reading.share_reading import SharePart
from goqueue.servers.kafka.reading.share_sessions import CLOSE_EPOCH, OPEN_EPOCH, share_member

API = Api(key=79, name="ShareAcknowledge", versions=(1, 2), order=Order.CHANGE)

_NO_LEADER = {"leader_id": -1, "leader_epoch": -1}


async def handle(context: Context, request: Message) -> Reply:
    """One result for each partition."""
    sessions, epoch = context.share_sessions, request.share_session_epoch
    try:
        member = share_member(request.group_id, request.member_id)
        context.services.access.require(Operation.READ, Resource.GROUP, member[0])
        if epoch == OPEN_EPOCH:
            raise InvalidShareSessionEpoch("a share session must begin with ShareFetch")
        if epoch == CLOSE_EPOCH:
            sessions.close(member)
        else:
            sessions.go_on(member, epoch)
    except GoQueueError as error:
        return failed(error)
    responses: list[dict[str, object]] = []
    touched: dict[TopicIdPartition, SharePart] = {}
    for topic in request.topics:
        rows = []
        for part in topic.partitions:
            at = TopicIdPartition(topic.topic_id, part.partition_index)
            touched[at] = SharePart()
            refusal = await acknowledge_part(context, member, at, part, with_renewals=request.is_renew_ack)
            rows.append(
                {
                    "partition_index": part.partition_index,
                    "error_code": error_code(refusal),
                    "error_message": error_message(refusal),
                    "current_leader": _NO_LEADER,
                }
            )
        responses.append({"topic_id": topic.topic_id, "partitions": rows})
    if epoch == CLOSE_EPOCH:
        await context.services.delivery.release_consumer(*member)
    return {
        "error_code": NONE,
        "acquisition_lock_timeout": await lock_ms(context, member, touched),
        "responses": responses,
    }

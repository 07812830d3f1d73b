"""ShareGroupHeartbeat (KIP-932): join, stay in and leave a group whose members share partitions."""

from __future__ import annotations

from goqueue.errors import GoQueueError
from goqueue.groups.commands import ConsumerHeartbeat
from goqueue.groups.queue.settings import AsQueue, Sharing
from goqueue.groups.subscription.topic_partitions import by_topic
from goqueue.servers.kafka.api import NONE, Api, Context, Message, Order, Reply, failed

API = Api(
    key=76,
    name="ShareGroupHeartbeat",
    versions=(1, 1),
    gaps=(
        "one assignor: every member is assigned every partition of its topics, and messages are shared one by one",
        "the rack of a member is stored and has no influence",
    ),
    order=Order.CHANGE,
)


async def handle(context: Context, request: Message) -> Reply:
    """Fields that the member leaves out are as they were."""
    try:
        beat = await context.services.groups.consumer_heartbeat(_command(context, request))
    except GoQueueError as error:
        return {**failed(error), "member_epoch": 0, "heartbeat_interval": 0}
    assignment = None
    if beat.assignment is not None:
        rows = [{"topic_id": topic_id, "partitions": numbers} for topic_id, numbers in by_topic(beat.assignment)]
        assignment = {"topic_partitions": rows}
    return {
        "error_code": NONE,
        "member_id": beat.member_id,
        "member_epoch": beat.member_epoch,
        "heartbeat_interval": beat.heartbeat_interval_ms,
        "assignment": assignment,
    }


def _command(context: Context, request: Message) -> ConsumerHeartbeat:
    topics = request.subscribed_topic_names
    return ConsumerHeartbeat(
        group=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        rack_id=request.rack_id,
        topics=None if topics is None else tuple(topics),
        client_id=context.client_id,
        client_host=context.client_host,
        as_queue=AsQueue(Sharing.SHARED),
        is_share=True,
    )

"""ConsumerGroupHeartbeat (KIP-848): join, stay and leave, with assignments made by the broker."""

from __future__ import annotations

from goqueue.errors import GoQueueError
from goqueue.groups.commands import ConsumerHeartbeat
from goqueue.groups.subscription.topic_partitions import PartitionSet, by_topic, partition_set
from goqueue.servers.kafka.api import NONE, Api, Context, Message, Order, Reply, failed

API = Api(
    key=68,
    name="ConsumerGroupHeartbeat",
    versions=(0, 1),
    gaps=(
        "a classic group is taken over only while it is empty: there is no migration of running members",
        "topic patterns are RE2's without Unicode classes, word boundaries and flags other than (?i)",
        "the rack of a member is stored but does not influence assignments",
    ),
    order=Order.CHANGE,
)


async def handle(context: Context, request: Message) -> Reply:
    """Fields that the member leaves out are as they were."""
    try:
        beat = await context.services.groups.consumer_heartbeat(_command(context, request))
    except GoQueueError as error:
        return {**failed(error), "member_epoch": 0, "heartbeat_interval": 0}
    return {
        "error_code": NONE,
        "member_id": beat.member_id,
        "member_epoch": beat.member_epoch,
        "heartbeat_interval": beat.heartbeat_interval_ms,
        "assignment": None if beat.assignment is None else _assignment(beat.assignment),
    }


def _command(context: Context, request: Message) -> ConsumerHeartbeat:
    owned = request.topic_partitions
    return ConsumerHeartbeat(
        group=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=None if request.rebalance_timeout < 0 else request.rebalance_timeout,
        topics=None if request.subscribed_topic_names is None else tuple(request.subscribed_topic_names),
        regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=None if owned is None else partition_set((one.topic_id, one.partitions) for one in owned),
        client_id=context.client_id,
        client_host=context.client_host,
    )


def _assignment(partitions: PartitionSet) -> dict[str, object]:
    return {
        "topic_partitions": [
            {"topic_id": topic_id, "partitions": numbers} for topic_id, numbers in by_topic(partitions)
        ]
    }

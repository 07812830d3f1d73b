"""ConsumerGroupDescribe (KIP-848): groups of the new protocol, what members own and are to own."""

from __future__ import annotations

import asyncio

from goqueue.errors import GoQueueError, GroupNotFound, TopicIdNotFound
from goqueue.groups.commands import ConsumerDescription, ConsumerMemberDescription, GroupType
from goqueue.groups.partitions import PartitionSet, by_topic
from goqueue.servers.kafka.api import NONE, Api, Context, Message, Reply, failed

API = Api(
    key=69,
    name="ConsumerGroupDescribe",
    versions=(0, 1),
    gaps=("authorized operations are not told, since nothing is restricted yet",),
)

# A member of the new protocol, not one of the classic protocol in a group of the new one.
_CONSUMER_MEMBER = 1


async def handle(context: Context, request: Message) -> Reply:
    """One answer for each group asked for."""
    return {"groups": await asyncio.gather(*(_described(context, group) for group in request.group_ids))}


async def _described(context: Context, group: str) -> dict[str, object]:
    try:
        found = await context.services.groups.describe(group)
        if not isinstance(found, ConsumerDescription) or found.type is not GroupType.CONSUMER:
            raise GroupNotFound(group)
    except GoQueueError as error:
        empty = {"group_state": "", "group_epoch": 0, "assignment_epoch": 0, "assignor_name": "", "members": []}
        return {"group_id": group, **empty, **failed(error)}
    return {
        "error_code": NONE,
        "group_id": group,
        "group_state": found.state.value,
        "group_epoch": found.epoch,
        # Targets are computed together with the epoch that asks for them.
        "assignment_epoch": found.epoch,
        "assignor_name": found.assignor,
        "members": [_member(context, one) for one in found.members],
    }


def _member(context: Context, member: ConsumerMemberDescription) -> dict[str, object]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "member_epoch": member.member_epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": list(member.topics),
        "subscribed_topic_regex": member.regex or None,
        "assignment": assignment(context, member.assigned),
        "target_assignment": assignment(context, member.target),
        "member_type": _CONSUMER_MEMBER,
    }


def assignment(context: Context, partitions: PartitionSet) -> dict[str, object]:
    """Partitions with their topics' names; share groups are described in the same way."""
    topics = []
    for topic_id, numbers in by_topic(partitions):
        try:
            name = context.services.topics.by_id(topic_id).name
        except TopicIdNotFound:
            # Deleted since; members are told at their next heartbeat.
            continue
        topics.append({"topic_id": topic_id, "topic_name": name, "partitions": numbers})
    return {"topic_partitions": topics}

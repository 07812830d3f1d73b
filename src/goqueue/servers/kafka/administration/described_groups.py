"""Groups as the new protocols' describe requests tell them: alike, but for what is said of a member."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from goqueue.errors import GoQueueError, GroupNotFound, TopicIdNotFound
from goqueue.groups.descriptions import ConsumerDescription, ConsumerMemberDescription, GroupType
from goqueue.groups.subscription.topic_partitions import PartitionSet, by_topic
from goqueue.security.model import Operation, Resource
from goqueue.servers.kafka.api import NONE, Context, Message, Reply, failed

DescribeMember = Callable[[Context, ConsumerMemberDescription], dict[str, object]]


async def described_groups(context: Context, request: Message, kind: GroupType, member: DescribeMember) -> Reply:
    """One answer for each group asked for; a group of another kind is not there."""
    rows = (_described(context, group, request, kind, member) for group in request.group_ids)
    return {"groups": await asyncio.gather(*rows)}


def operations_of(context: Context, group: str, request: Message) -> dict[str, object]:
    """What the caller may do with the group, if it asked."""
    if not request.include_authorized_operations:
        return {}
    return {"authorized_operations": context.services.access.operations(Resource.GROUP, group)}


async def _described(
    context: Context, group: str, request: Message, kind: GroupType, member: DescribeMember
) -> dict[str, object]:
    try:
        found = await context.services.groups.describe(group)
        if not isinstance(found, ConsumerDescription) or found.type is not kind:
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
        "members": [member(context, one) for one in found.members],
        **operations_of(context, group, request),
    }


def visible_topics(context: Context, names: Iterable[str]) -> list[str]:
    """Those of the topics that the caller may describe."""
    may = context.services.access.may
    return [name for name in names if may(Operation.DESCRIBE, Resource.TOPIC, name)]


def named_partitions(context: Context, partitions: PartitionSet) -> dict[str, object]:
    """A member's partitions with their topics' names."""
    topics = []
    for topic_id, numbers in by_topic(partitions):
        try:
            name = context.services.topics.by_id(topic_id).name
        except TopicIdNotFound:
            # Deleted since; members are told at their next heartbeat.
            continue
        topics.append({"topic_id": topic_id, "topic_name": name, "partitions": numbers})
    return {"topic_partitions": topics}

"""Groups as the new protocols' describe requests tell them: alike, but for what is said of a member."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from goqueue.errors import GoQueueError, GroupNotFound, TopicIdNotFound
from goqueue.groups.descriptions import ConsumerDescription, ConsumerMemberDescription, GroupType
from goqueue.groups.subscription.topic_partitions import PartitionSet, by_topic
from goqueue.servers.kafka.api import NONE, Context, Reply, failed

DescribeMember = Callable[[Context, ConsumerMemberDescription], dict[str, object]]


async def described_groups(context: Context, groups: Iterable[str], kind: GroupType, member: DescribeMember) -> Reply:
    """One answer for each group asked for; a group of another kind is not there."""
    return {"groups": await asyncio.gather(*(_described(context, group, kind, member) for group in groups))}


async def _described(context: Context, group: str, kind: GroupType, member: DescribeMember) -> dict[str, object]:
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
    }


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

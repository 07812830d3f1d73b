"""ShareGroupDescribe (KIP-932): groups whose members share partitions, and who is in them."""

from __future__ import annotations

import asyncio

from goqueue.errors import GoQueueError, GroupNotFound
from goqueue.groups.commands import ConsumerDescription, ConsumerMemberDescription, GroupType
from goqueue.servers.kafka.api import NONE, Api, Context, Message, Reply, failed
from goqueue.servers.kafka.handlers.consumer_group_describe import assignment

API = Api(
    key=77,
    name="ShareGroupDescribe",
    versions=(1, 1),
    gaps=("authorized operations are not told, since nothing is restricted yet",),
)


async def handle(context: Context, request: Message) -> Reply:
    """One answer for each group asked for."""
    return {"groups": await asyncio.gather(*(_described(context, group) for group in request.group_ids))}


async def _described(context: Context, group: str) -> dict[str, object]:
    try:
        found = await context.services.groups.describe(group)
        if not isinstance(found, ConsumerDescription) or found.type is not GroupType.SHARE:
            raise GroupNotFound(group)
    except GoQueueError as error:
        empty = {"group_state": "", "group_epoch": 0, "assignment_epoch": 0, "assignor_name": "", "members": []}
        return {"group_id": group, **empty, **failed(error)}
    return {
        "error_code": NONE,
        "group_id": group,
        "group_state": found.state.value,
        "group_epoch": found.epoch,
        "assignment_epoch": found.epoch,
        "assignor_name": found.assignor,
        "members": [_member(context, one) for one in found.members],
    }


def _member(context: Context, member: ConsumerMemberDescription) -> dict[str, object]:
    return {
        "member_id": member.member_id,
        "rack_id": member.rack_id,
        "member_epoch": member.member_epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": list(member.topics),
        "assignment": assignment(context, member.assigned),
    }

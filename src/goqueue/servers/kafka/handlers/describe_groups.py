"""DescribeGroups: classic groups and their members."""

from __future__ import annotations

import asyncio

from goqueue.errors import GoQueueError, GroupNotFound
from goqueue.groups.descriptions import ClassicDescription, GroupState
from goqueue.servers.kafka.administration.described_groups import operations_of
from goqueue.servers.kafka.api import NONE, Api, Context, Message, Reply, failed

API = Api(
    key=15,
    name="DescribeGroups",
    versions=(0, 6),
)

_NOT_FOUND_FROM = 6


async def handle(context: Context, request: Message) -> Reply:
    """One answer for each group asked for."""
    return {"groups": await asyncio.gather(*(_described(context, group, request) for group in request.groups))}


async def _described(context: Context, group: str, request: Message) -> dict[str, object]:
    try:
        found = await context.services.groups.describe(group)
        if not isinstance(found, ClassicDescription):
            # Groups of the consumer protocol have an API of their own.
            raise GroupNotFound(group)
    except GroupNotFound as error:
        # Older clients are told of a dead group instead of an error.
        told = failed(error) if context.api_version >= _NOT_FOUND_FROM else {"error_code": NONE}
        return {**_empty(group, GroupState.DEAD.value), **told}
    except GoQueueError as error:
        return {**_empty(group, ""), **failed(error)}
    return {
        "error_code": NONE,
        "group_id": group,
        "group_state": found.state.value,
        "protocol_type": found.protocol_type,
        "protocol_data": found.protocol,
        "members": [
            {
                "member_id": one.member_id,
                "group_instance_id": one.instance_id,
                "client_id": one.client_id,
                "client_host": one.client_host,
                "member_metadata": one.metadata,
                "member_assignment": one.assignment,
            }
            for one in found.members
        ],
        **operations_of(context, group, request),
    }


def _empty(group: str, state: str) -> dict[str, object]:
    return {"group_id": group, "group_state": state, "protocol_type": "", "protocol_data": "", "members": []}

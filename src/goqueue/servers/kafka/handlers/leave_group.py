"""LeaveGroup: one member (up to version 2) or many leave a group of either protocol."""

from __future__ import annotations

from goqueue.errors import GoQueueError, UnknownMember
from goqueue.groups.commands import LeaveGroup, Leaver
from goqueue.servers.kafka.api import NONE, Api, Context, Message, Order, Reply, error_code

API = Api(key=13, name="LeaveGroup", versions=(0, 5), order=Order.CHANGE)

_MANY_FROM = 3


async def handle(context: Context, request: Message) -> Reply:
    """From version 3 on each member has its own outcome."""
    if context.api_version >= _MANY_FROM:
        leavers = tuple(Leaver(one.member_id, one.group_instance_id) for one in request.members)
    else:
        leavers = (Leaver(request.member_id),)
    try:
        outcomes = await context.services.groups.leave(LeaveGroup(request.group_id, leavers))
    except UnknownMember as error:
        # There is no such group, so nobody is in it.
        outcomes = (error,) * len(leavers)
    except GoQueueError as error:
        return {"error_code": error_code(error), "members": []}
    if context.api_version < _MANY_FROM:
        return {"error_code": error_code(outcomes[0])}
    return {
        "error_code": NONE,
        "members": [
            {
                "member_id": leaver.member_id,
                "group_instance_id": leaver.instance_id,
                "error_code": error_code(outcome),
            }
            for leaver, outcome in zip(leavers, outcomes, strict=True)
        ],
    }

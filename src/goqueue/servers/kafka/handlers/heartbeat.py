"""Heartbeat: a member of a classic group is still there."""

from __future__ import annotations

from goqueue.errors import GoQueueError
from goqueue.groups.commands import Heartbeat
from goqueue.servers.kafka.api import NONE, Api, Context, Message, Reply, error_code

API = Api(key=12, name="Heartbeat", versions=(0, 4))


async def handle(context: Context, request: Message) -> Reply:
    """The error code is what tells the member to join again."""
    command = Heartbeat(request.group_id, request.member_id, request.generation_id, request.group_instance_id)
    try:
        await context.services.groups.heartbeat(command)
    except GoQueueError as error:
        return {"error_code": error_code(error)}
    return {"error_code": NONE}

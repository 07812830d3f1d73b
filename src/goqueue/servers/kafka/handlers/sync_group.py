"""SyncGroup: the leader hands in the assignment, everybody gets theirs."""

from __future__ import annotations

from goqueue.errors import GoQueueError
from goqueue.groups.commands import SyncGroup
from goqueue.servers.kafka.api import NONE, Api, Context, Message, Order, Reply, error_code

API = Api(key=14, name="SyncGroup", versions=(0, 5), order=Order.POLL)


async def handle(context: Context, request: Message) -> Reply:
    """Answered when the leader has assigned and that is durable."""
    command = SyncGroup(
        group=request.group_id,
        member_id=request.member_id,
        generation=request.generation_id,
        assignments={one.member_id: bytes(one.assignment) for one in request.assignments},
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
    )
    try:
        synced = await context.services.groups.sync(command)
    except GoQueueError as error:
        return {"error_code": error_code(error), "assignment": b""}
    return {
        "error_code": NONE,
        "protocol_type": synced.protocol_type,
        "protocol_name": synced.protocol,
        "assignment": synced.assignment,
    }

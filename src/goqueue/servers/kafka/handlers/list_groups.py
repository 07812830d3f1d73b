"""ListGroups: all groups, or those in certain states and of certain types."""

from __future__ import annotations

from goqueue.errors import GoQueueError
from goqueue.servers.kafka.api import NONE, Api, Context, Message, Reply, error_code

API = Api(key=16, name="ListGroups", versions=(0, 5))


async def handle(context: Context, request: Message) -> Reply:
    """An empty filter lets everything through; letter case does not count."""
    try:
        groups = await context.services.groups.list()
    except GoQueueError as error:
        return {"error_code": error_code(error), "groups": []}
    states = {one.lower() for one in request.states_filter}
    types = {one.lower() for one in request.types_filter}
    return {
        "error_code": NONE,
        "groups": [
            {
                "group_id": one.group,
                "protocol_type": one.protocol_type,
                "group_state": one.state.value,
                "group_type": one.type.value,
            }
            for one in groups
            if (not states or one.state.value.lower() in states) and (not types or one.type.value in types)
        ],
    }

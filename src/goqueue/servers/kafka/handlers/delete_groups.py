"""DeleteGroups: forget empty groups with their offsets."""

from __future__ import annotations

import asyncio

from goqueue.errors import GoQueueError
from goqueue.servers.kafka.api import NONE, Api, Context, Message, Order, Reply, error_code

API = Api(key=42, name="DeleteGroups", versions=(0, 2), order=Order.CHANGE)


async def handle(context: Context, request: Message) -> Reply:
    """One outcome for each group."""
    return {"results": await asyncio.gather(*(_deleted(context, group) for group in request.groups_names))}


async def _deleted(context: Context, group: str) -> dict[str, object]:
    try:
        await context.services.groups.delete(group)
    except GoQueueError as error:
        return {"group_id": group, "error_code": error_code(error)}
    return {"group_id": group, "error_code": NONE}

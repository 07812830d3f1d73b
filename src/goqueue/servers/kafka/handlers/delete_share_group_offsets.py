"""DeleteShareGroupOffsets (KIP-932): a queue group that nobody is in begins topics anew, as if it never read them."""

from __future__ import annotations

from goqueue.errors import GoQueueError, TopicNotFound
from goqueue.servers.kafka.api import NONE, Api, Context, Message, Order, Reply, failed
from goqueue.servers.kafka.handlers.alter_share_group_offsets import check_empty_queue

API = Api(
    key=92,
    name="DeleteShareGroupOffsets",
    versions=(0, 0),
    gaps=("refused while messages of the topic are in flight, also with receivers that are no members",),
    order=Order.CHANGE,
)


async def handle(context: Context, request: Message) -> Reply:
    """One result for each topic."""
    try:
        await check_empty_queue(context, request.group_id)
    except GoQueueError as error:
        return {**failed(error), "responses": []}
    responses = [await _deleted(context, request.group_id, one.topic_name) for one in request.topics]
    return {"error_code": NONE, "responses": responses}


async def _deleted(context: Context, group: str, name: str) -> dict[str, object]:
    topic = context.services.topics.find(name)
    row: dict[str, object] = {"topic_name": name, "topic_id": topic.topic_id if topic else None, "error_code": NONE}
    try:
        if not await context.services.groups.forget_topic(group, name):
            # Kafka has no code of its own for this, and says the difference in words.
            return row | failed(TopicNotFound(name)) | {"error_message": f"group {group!r} has no offsets of {name!r}"}
    except GoQueueError as error:
        return row | failed(error)
    return row

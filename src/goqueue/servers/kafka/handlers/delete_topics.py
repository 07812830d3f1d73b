"""DeleteTopics: by name, and from version 6 by topic id. Versions 1-6."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from goqueue.errors import GoQueueError, InvalidRequest
from goqueue.servers.kafka.api import Api, Context, Message, Order, Reply, failed

API = Api(key=20, name="DeleteTopics", versions=(1, 6), order=Order.CHANGE)

Row = dict[str, object]


async def handle(context: Context, request: Message) -> Reply:
    """Delete the topics one after the other; each has its own result."""
    asked: Sequence[tuple[str | None, UUID | None]] = [
        *((name, None) for name in request.topic_names),
        *((one.name, one.topic_id) for one in request.topics),
    ]
    return {"responses": [await _delete(context, name, topic_id) for name, topic_id in dict.fromkeys(asked)]}


async def _delete(context: Context, name: str | None, topic_id: UUID | None) -> Row:
    topics = context.services.topics
    try:
        if name is not None and topic_id is not None:
            raise InvalidRequest("give either the topic's name or its id", field="topics")
        if topic_id is not None:
            name = topics.by_id(topic_id).name
        topic = await topics.delete(name or "")
    except GoQueueError as error:
        return {"name": name, "topic_id": topic_id, **failed(error)}
    return {"name": topic.name, "topic_id": topic.topic_id}

"""CreatePartitions: more partitions for topics that are there. Versions 0-3."""

from __future__ import annotations

from collections import Counter

from goqueue.errors import GoQueueError, InvalidRequest
from goqueue.servers.kafka.api import Api, Context, Message, Order, Reply, failed

API = Api(key=37, name="CreatePartitions", versions=(0, 3), order=Order.CHANGE)


async def handle(context: Context, request: Message) -> Reply:
    """Grow the topics one after the other; each has its own result."""
    times = Counter(topic.name for topic in request.topics)
    rows = []
    for name, count in times.items():
        asked = next(topic for topic in request.topics if topic.name == name)
        rows.append(await _grow(context, request, asked, is_repeated=count > 1))
    return {"results": rows}


async def _grow(context: Context, request: Message, asked: Message, *, is_repeated: bool) -> dict[str, object]:
    try:
        if is_repeated:
            raise InvalidRequest(f"topic {asked.name!r} is named more than once", field="name")
        await context.services.topics.add_partitions(
            asked.name,
            asked.count,
            validate_only=request.validate_only,
            assignments=None if asked.assignments is None else [one.broker_ids for one in asked.assignments],
        )
    except GoQueueError as error:
        return {"name": asked.name, **failed(error)}
    return {"name": asked.name}

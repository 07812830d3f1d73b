"""DeleteRecords: moves the start of partitions forward. Versions 0-2."""

from __future__ import annotations

from goqueue.errors import GoQueueError
from goqueue.servers.kafka.api import Api, Context, Message, Order, Reply, error_code

API = Api(key=21, name="DeleteRecords", versions=(0, 2), order=Order.CHANGE)


async def handle(context: Context, request: Message) -> Reply:
    """One result per partition."""
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    await _delete(context, topic.name, one.partition_index, one.offset) for one in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }


async def _delete(context: Context, topic: str, partition: int, offset: int) -> dict[str, object]:
    try:
        start = await context.services.queries.delete_records(topic, partition, offset)
    except (GoQueueError, OSError) as error:
        return {"partition_index": partition, "low_watermark": -1, "error_code": error_code(error)}
    return {"partition_index": partition, "low_watermark": start}

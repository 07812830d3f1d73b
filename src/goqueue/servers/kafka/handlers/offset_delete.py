"""OffsetDelete: forget how far a group has read topics that it reads no more."""

from __future__ import annotations

from goqueue.errors import GoQueueError
from goqueue.records import TopicPartition
from goqueue.servers.kafka.api import NONE, Api, Context, Message, Order, Reply, error_code

API = Api(key=47, name="OffsetDelete", versions=(0, 0), order=Order.CHANGE)


async def handle(context: Context, request: Message) -> Reply:
    """Each partition has its own outcome; an offset that is not there is deleted all the same."""
    partitions = [
        TopicPartition(topic.name, one.partition_index) for topic in request.topics for one in topic.partitions
    ]
    try:
        outcomes = iter(await context.services.groups.delete_offsets(request.group_id, partitions))
    except GoQueueError as error:
        return {"error_code": error_code(error), "topics": []}
    return {
        "error_code": NONE,
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {"partition_index": one.partition_index, "error_code": error_code(next(outcomes))}
                    for one in topic.partitions
                ],
            }
            for topic in request.topics
        ],
    }

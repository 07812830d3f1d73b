"""AlterPartitionReassignments: other nodes for partitions, or an end to such a change. Versions 0-1."""

from __future__ import annotations

from goqueue.errors import GoQueueError
from goqueue.records import TopicPartition
from goqueue.servers.kafka.api import Api, Context, Message, Order, Reply, failed

API = Api(
    key=45,
    name="AlterPartitionReassignments",
    versions=(0, 1),
    gaps=(
        "a change of the replication factor is always allowed",
        "new replicas come behind those that stay; the same request again, when they are in sync, puts all in order",
        "there are no throttles",
    ),
    order=Order.CHANGE,
)


async def handle(context: Context, request: Message) -> Reply:
    """One result per partition."""
    return {
        "responses": [
            {
                "name": topic.name,
                "partitions": [await _row(context, topic.name, one) for one in topic.partitions],
            }
            for topic in request.topics
        ]
    }


async def _row(context: Context, topic: str, asked: Message) -> dict[str, object]:
    place = TopicPartition(topic, asked.partition_index)
    try:
        if asked.replicas is None:
            await context.services.replicas.cancel_reassignment(place)
        else:
            await context.services.replicas.reassign(place, asked.replicas)
    except GoQueueError as error:
        return {"partition_index": asked.partition_index, **failed(error)}
    return {"partition_index": asked.partition_index}

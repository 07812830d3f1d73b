"""AddPartitionsToTxn: partitions become part of the producer's transaction. Versions 0-3, which clients speak."""

from __future__ import annotations

from goqueue.errors import GoQueueError
from goqueue.records import TopicPartition
from goqueue.servers.kafka.api import Api, Context, Message, Reply
from goqueue.servers.kafka.fencing import transaction_error_code
from goqueue.transactions.commands import Producer

API = Api(
    key=24,
    name="AddPartitionsToTxn",
    versions=(0, 3),
    gaps=("versions 4 and 5, which only Kafka's brokers send to each other, are not served",),
)

_FENCING_FROM = 2


async def handle(context: Context, request: Message) -> Reply:
    """All partitions or none; an error of the producer is every partition's."""
    topics = request.v3_and_below_topics
    places = [TopicPartition(topic.name, partition) for topic in topics for partition in topic.partitions]
    producer = Producer(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
    refused: dict[TopicPartition, GoQueueError]
    try:
        refused = await context.services.transactions.add_partitions(
            request.v3_and_below_transactional_id, producer, places
        )
    except GoQueueError as error:
        refused = dict.fromkeys(places, error)
    knows_fencing = context.api_version >= _FENCING_FROM
    return {
        "results_by_topic_v3_and_below": [
            {
                "name": topic.name,
                "results_by_partition": [
                    {
                        "partition_index": partition,
                        "partition_error_code": transaction_error_code(
                            refused.get(TopicPartition(topic.name, partition)), knows_fencing=knows_fencing
                        ),
                    }
                    for partition in topic.partitions
                ],
            }
            for topic in topics
        ]
    }

"""WriteTxnMarkers: abort transactions that hang in a partition, as Kafka's admin clients do.

A marker that tells a partition how a transaction ended is the coordinator's to write, and here
the coordinator writes it itself. What is left for this API is a transaction that no coordinator
knows of, and would therefore stay open for ever.
"""

from __future__ import annotations

from goqueue.errors import GoQueueError, InvalidTransactionState
from goqueue.records import TopicPartition
from goqueue.servers.kafka.api import NONE, Api, Context, Message, Order, Reply, error_code
from goqueue.transactions.commands import Producer

API = Api(
    key=27,
    name="WriteTxnMarkers",
    versions=(1, 2),
    gaps=("Aborts transactions that hang; commits, and transactions that their coordinator knows, are refused.",),
    order=Order.CHANGE,
)


async def handle(context: Context, request: Message) -> Reply:
    """Each partition has its own outcome."""
    return {
        "markers": [
            {
                "producer_id": marker.producer_id,
                "topics": [
                    {
                        "name": topic.name,
                        "partitions": [
                            {
                                "partition_index": partition,
                                "error_code": await _write(context, marker, TopicPartition(topic.name, partition)),
                            }
                            for partition in topic.partition_indexes
                        ],
                    }
                    for topic in marker.topics
                ],
            }
            for marker in request.markers
        ]
    }


async def _write(context: Context, marker: Message, place: TopicPartition) -> int:
    try:
        if marker.transaction_result:
            raise InvalidTransactionState("only its coordinator may say that a transaction is committed")
        producer = Producer(marker.producer_id, marker.producer_epoch)
        await context.services.transactions.abort_hanging(producer, place)
    except (GoQueueError, OSError) as error:
        return error_code(error)
    return NONE

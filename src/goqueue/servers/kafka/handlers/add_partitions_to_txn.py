"""AddPartitionsToTxn: partitions become part of a producer's transaction.

Versions 0-3 are what clients speak. From 4 on a request has many transactions and may only ask
whether partitions are part of them, as Kafka's brokers ask each other.
"""

from __future__ import annotations

from collections.abc import Mapping

from goqueue.errors import GoQueueError, InvalidTransactionState
from goqueue.records import TopicPartition
from goqueue.servers.kafka.api import NONE, Api, Context, Message, Order, Reply
from goqueue.servers.kafka.fencing import transaction_error_code
from goqueue.transactions.commands import Producer

API = Api(key=24, name="AddPartitionsToTxn", versions=(0, 5), order=Order.CHANGE)

_FENCING_FROM = 2
_BATCHED_FROM = 4

Refusals = Mapping[TopicPartition, GoQueueError]


async def handle(context: Context, request: Message) -> Reply:
    """All partitions of a transaction or none; an error of the producer is every partition's."""
    knows_fencing = context.api_version >= _FENCING_FROM
    if context.api_version >= _BATCHED_FROM:
        return {
            "error_code": NONE,
            "results_by_transaction": [
                {
                    "transactional_id": one.transactional_id,
                    "topic_results": _rows(one.topics, await _refused_of(context, one), knows_fencing=knows_fencing),
                }
                for one in request.transactions
            ],
        }
    topics = request.v3_and_below_topics
    producer = Producer(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
    refused = await _add(context, request.v3_and_below_transactional_id, producer, _places(topics))
    return {"results_by_topic_v3_and_below": _rows(topics, refused, knows_fencing=knows_fencing)}


async def _refused_of(context: Context, one: Message) -> Refusals:
    producer, places = Producer(one.producer_id, one.producer_epoch), _places(one.topics)
    if not one.verify_only:
        return await _add(context, one.transactional_id, producer, places)
    try:
        known = await context.services.transactions.describe(one.transactional_id)
        context.services.transactions.check_is(known, producer)
    except GoQueueError as error:
        return dict.fromkeys(places, error)
    missing = InvalidTransactionState("the partition is not part of the transaction")
    return {place: missing for place in places if place not in known.partitions}


async def _add(context: Context, name: str, producer: Producer, places: list[TopicPartition]) -> Refusals:
    try:
        return await context.services.transactions.add_partitions(name, producer, places)
    except GoQueueError as error:
        return dict.fromkeys(places, error)


def _places(topics: list[Message]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, partition) for topic in topics for partition in topic.partitions]


def _rows(topics: list[Message], refused: Refusals, *, knows_fencing: bool) -> list[dict[str, object]]:
    return [
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

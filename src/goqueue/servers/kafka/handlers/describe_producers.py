"""DescribeProducers: who has written to partitions lately, and whether a transaction is open. Version 0."""

from __future__ import annotations

from collections.abc import Awaitable

from goqueue.errors import GoQueueError
from goqueue.servers.kafka.api import Api, Context, Message, Reply, failed, when_open

API = Api(key=61, name="DescribeProducers", versions=(0, 0))


def handle(context: Context, request: Message) -> Reply | Awaitable[Reply]:
    """One row per partition asked for, once all of them are open."""
    places = [(topic.name, one) for topic in request.topics for one in topic.partition_indexes]
    opening = context.services.queries.opening(places)
    return when_open(opening, lambda: _reply(context, request))


def _reply(context: Context, request: Message) -> Reply:
    return {
        "topics": [
            {"name": topic.name, "partitions": [_row(context, topic.name, one) for one in topic.partition_indexes]}
            for topic in request.topics
        ]
    }


def _row(context: Context, topic: str, partition: int) -> dict[str, object]:
    try:
        producers = context.services.queries.producers(topic, partition)
    except (GoQueueError, OSError) as error:
        return {"partition_index": partition, **failed(error)}
    return {
        "partition_index": partition,
        "active_producers": [
            {
                "producer_id": one.producer_id,
                "producer_epoch": one.epoch,
                "last_sequence": one.last_sequence,
                "last_timestamp": one.last_timestamp_ms,
                "coordinator_epoch": one.coordinator_epoch,
                "current_txn_start_offset": one.open_first_offset,
            }
            for one in producers
        ],
    }

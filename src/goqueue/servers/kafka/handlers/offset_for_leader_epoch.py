"""OffsetForLeaderEpoch: where a leader's time ended, so that a reader can see what was cut off. Versions 2-4."""

from __future__ import annotations

from collections.abc import Awaitable

from goqueue.errors import GoQueueError
from goqueue.servers.kafka.api import Api, Context, Message, Reply, error_code, when_open

API = Api(key=23, name="OffsetForLeaderEpoch", versions=(2, 4))


def handle(context: Context, request: Message) -> Reply | Awaitable[Reply]:
    """One row per partition asked for, once all of them are open."""
    places = [(topic.topic, one.partition) for topic in request.topics for one in topic.partitions]
    opening = context.services.queries.opening(places)
    return when_open(opening, lambda: _reply(context, request))


def _reply(context: Context, request: Message) -> Reply:
    return {
        "topics": [
            {"topic": topic.topic, "partitions": [_row(context, topic.topic, one) for one in topic.partitions]}
            for topic in request.topics
        ]
    }


def _row(context: Context, topic: str, asked: Message) -> dict[str, object]:
    try:
        epoch, end = context.services.queries.epoch_end(
            topic, asked.partition, asked.leader_epoch, leader_epoch=asked.current_leader_epoch
        )
    except (GoQueueError, OSError) as error:
        return {"partition": asked.partition, "error_code": error_code(error)}
    return {"partition": asked.partition, "leader_epoch": epoch, "end_offset": end}

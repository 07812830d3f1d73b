"""DescribeTransactions: what is known of transactional ids."""

from __future__ import annotations

from itertools import groupby

from goqueue.errors import GoQueueError
from goqueue.security.model import Operation, Resource
from goqueue.servers.kafka.api import NONE, Api, Context, Message, Reply, error_code
from goqueue.transactions.commands import Described

API = Api(key=65, name="DescribeTransactions", versions=(0, 0))


async def handle(context: Context, request: Message) -> Reply:
    """Each id has its own outcome."""
    return {"transaction_states": [await _state(context, one) for one in request.transactional_ids]}


async def _state(context: Context, transactional_id: str) -> dict[str, object]:
    try:
        return _row(context, await context.services.transactions.describe(transactional_id))
    except GoQueueError as error:
        return {
            "error_code": error_code(error),
            "transactional_id": transactional_id,
            "transaction_state": "",
            "transaction_timeout": 0,
            "transaction_start_time": 0,
            "producer_id": -1,
            "producer_epoch": -1,
            "topics": [],
        }


def _row(context: Context, one: Described) -> dict[str, object]:
    # As in Kafka: an id that may be described does not reveal the names of topics that may not be.
    access = context.services.access
    shown = [place for place in one.partitions if access.may(Operation.DESCRIBE, Resource.TOPIC, place.topic)]
    return {
        "error_code": NONE,
        "transactional_id": one.transactional_id,
        "transaction_state": one.state.kafka_name,
        "transaction_timeout": one.timeout_ms,
        "transaction_start_time": one.started_ms,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "topics": [
            {"topic": topic, "partitions": [place.partition for place in places]}
            for topic, places in groupby(shown, key=lambda place: place.topic)
        ],
    }

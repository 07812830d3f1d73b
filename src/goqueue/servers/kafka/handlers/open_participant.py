"""OpenParticipant: a task of an external coordinator begins to stage records. Our own API, version 0."""

from __future__ import annotations

from goqueue.errors import GoQueueError
from goqueue.servers.kafka.api import Api, Context, Message, Order, Reply, failed

API = Api(key=10100, name="OpenParticipant", versions=(0, 0), order=Order.CHANGE)


async def handle(context: Context, request: Message) -> Reply:
    """A producer of its own, unless the epoch is committed already."""
    try:
        producer = await context.services.transactions.open_participant(request.writer, request.epoch, request.task)
    except GoQueueError as error:
        return failed(error)
    if producer is None:
        return {"already_committed": True}
    return {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}

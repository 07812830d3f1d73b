"""AddOffsetsToTxn: a group's offsets become part of the producer's transaction."""

from __future__ import annotations

from goqueue.errors import GoQueueError
from goqueue.servers.kafka.api import NONE, Api, Context, Message, Order, Reply
from goqueue.servers.kafka.fencing import transaction_error_code
from goqueue.transactions.commands import Producer

API = Api(key=25, name="AddOffsetsToTxn", versions=(0, 4), order=Order.CHANGE)

_FENCING_FROM = 2


async def handle(context: Context, request: Message) -> Reply:
    """The partition in which the group's offsets lie is added like any other."""
    producer = Producer(request.producer_id, request.producer_epoch)
    try:
        await context.services.transactions.add_group(request.transactional_id, producer, request.group_id)
    except GoQueueError as error:
        return {"error_code": transaction_error_code(error, knows_fencing=context.api_version >= _FENCING_FROM)}
    return {"error_code": NONE}

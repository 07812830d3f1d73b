"""DecidePrepared: an external coordinator commits or aborts an epoch of its writer. Our own API, version 0."""

from __future__ import annotations

from goqueue.errors import GoQueueError
from goqueue.servers.kafka.api import Api, Context, Message, Order, Reply, failed
from goqueue.transactions.commands import Claim, Producer

API = Api(key=10101, name="DecidePrepared", versions=(0, 0), order=Order.CHANGE)


async def handle(context: Context, request: Message) -> Reply:
    """Answered when that is decided for good; asking again is answered as done."""
    claims = [
        Claim(one.task, Producer(one.producer_id, one.producer_epoch) if one.producer_id >= 0 else None)
        for one in request.participants
    ]
    try:
        decided = await context.services.transactions.decide_epoch(
            request.writer, request.epoch, commit=request.commit, claims=claims
        )
    except GoQueueError as error:
        return failed(error)
    return {"already_decided": decided.already, "committed": decided.committed, "aborted": decided.aborted}

"""EndTxn: commit or abort. Answered when that is decided for good; readers see it as the markers are written.

Version 5 belongs to transaction.version 2 (KIP-890): the producer goes on under the next epoch.
"""

from __future__ import annotations

from goqueue.errors import GoQueueError
from goqueue.servers.kafka.api import NONE, Api, Context, Message, Order, Reply
from goqueue.servers.kafka.fencing import transaction_error_code
from goqueue.transactions.commands import Producer

API = Api(
    key=26,
    name="EndTxn",
    versions=(0, 5),
    gaps=("Below version 5, as in Kafka, a produce request delayed into the next transaction may become part of it.",),
    order=Order.CHANGE,
)

_FENCING_FROM = 2
_EPOCH_FROM = 5


async def handle(context: Context, request: Message) -> Reply:
    """Asking again for the same end is answered the same."""
    producer = Producer(request.producer_id, request.producer_epoch)
    try:
        following = await context.services.transactions.end(
            request.transactional_id,
            producer,
            commit=request.committed,
            raises_epoch=context.api_version >= _EPOCH_FROM,
            # As in Kafka: the next transaction of this producer waits for the markers, and nobody else has to.
            until_applied=False,
        )
    except GoQueueError as error:
        return {"error_code": transaction_error_code(error, knows_fencing=context.api_version >= _FENCING_FROM)}
    return {"error_code": NONE, "producer_id": following.producer_id, "producer_epoch": following.epoch}

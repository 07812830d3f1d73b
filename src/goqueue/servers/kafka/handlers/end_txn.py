"""EndTxn: commit or abort. Answered when that is decided for good; readers see it as the markers are written."""

from __future__ import annotations

from goqueue.errors import GoQueueError
from goqueue.servers.kafka.api import NONE, Api, Context, Message, Reply
from goqueue.servers.kafka.fencing import transaction_error_code
from goqueue.transactions.commands import Producer

API = Api(
    key=26,
    name="EndTxn",
    versions=(0, 4),
    gaps=(
        "Version 5 and transaction.version 2 (KIP-890, an epoch per transaction) are not there.",
        "As in Kafka before 4.0, a produce request that is delayed into the next transaction may become part of it.",
    ),
)

_FENCING_FROM = 2


async def handle(context: Context, request: Message) -> Reply:
    """Asking again for the same end is answered the same."""
    producer = Producer(request.producer_id, request.producer_epoch)
    try:
        await context.services.transactions.end(request.transactional_id, producer, commit=request.committed)
    except GoQueueError as error:
        return {"error_code": transaction_error_code(error, knows_fencing=context.api_version >= _FENCING_FROM)}
    return {"error_code": NONE}

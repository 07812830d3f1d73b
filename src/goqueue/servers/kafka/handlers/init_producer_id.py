"""InitProducerId: an id for an idempotent producer, or the next epoch of a transactional id. Versions 0-6.

Without a transactional id, an id and epoch that the producer had before are not looked at:
nobody could claim them back, so Kafka too gives out a new one (KIP-360).
"""

from __future__ import annotations

from goqueue.errors import GoQueueError, TransactionsUnsupported
from goqueue.servers.kafka.api import Api, Context, Message, Order, Reply
from goqueue.servers.kafka.fencing import transaction_error_code
from goqueue.transactions.commands import Producer

API = Api(
    key=22,
    name="InitProducerId",
    versions=(0, 6),
    gaps=("Two-phase commit (KIP-939, version 6) is answered TRANSACTIONAL_ID_AUTHORIZATION_FAILED.",),
    order=Order.CHANGE,
)

_FENCING_FROM = 4


async def handle(context: Context, request: Message) -> Reply:
    """A transactional id's last transaction is ended first; until that is done the client asks again."""
    services = context.services
    if request.transactional_id is None:
        return {"producer_id": await services.producer_ids.allocate(), "producer_epoch": 0}
    try:
        if request.enable2_pc or request.keep_prepared_txn:
            raise TransactionsUnsupported("two-phase commit is not supported")
        producer = await services.transactions.init_producer(
            request.transactional_id,
            timeout_ms=request.transaction_timeout,
            current=Producer(request.producer_id, request.producer_epoch) if request.producer_id >= 0 else None,
        )
    except GoQueueError as error:
        code = transaction_error_code(error, knows_fencing=context.api_version >= _FENCING_FROM)
        return {"error_code": code, "producer_id": -1, "producer_epoch": -1}
    return {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}

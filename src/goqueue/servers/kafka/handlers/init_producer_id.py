"""InitProducerId: a new id for an idempotent producer. Versions 0-6.

An id and epoch that the producer had before are not looked at: without a transactional
id nobody could claim them back, so Kafka too gives out a new one (KIP-360).
"""

from __future__ import annotations

from goqueue.errors import TransactionsUnsupported
from goqueue.servers.kafka.api import Api, Context, Message, Reply

API = Api(
    key=22,
    name="InitProducerId",
    versions=(0, 6),
    gaps=("A transactional id is answered TRANSACTIONAL_ID_AUTHORIZATION_FAILED until there are transactions.",),
)


async def handle(context: Context, request: Message) -> Reply:
    """Give out an id that was never given out before."""
    if request.transactional_id is not None:
        raise TransactionsUnsupported("there are no transactions yet")
    return {"producer_id": await context.services.producer_ids.allocate(), "producer_epoch": 0}

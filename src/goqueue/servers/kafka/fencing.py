"""How a fenced producer is told: newer clients know a code of its own, older ones an older (KIP-588)."""

from __future__ import annotations

from goqueue.errors import GoQueueError, ProducerFenced, TransactionFenced
from goqueue.servers.kafka.api import error_code


def transaction_error_code(error: GoQueueError | None, *, knows_fencing: bool) -> int:
    """The number of this error for a client that knows PRODUCER_FENCED, or does not."""
    if isinstance(error, TransactionFenced) and not knows_fencing:
        return error_code(ProducerFenced(str(error)))
    return error_code(error)

"""ListTransactions: all transactional ids, or those in certain states, of certain producers, or open for long."""

from __future__ import annotations

from goqueue.errors import GoQueueError
from goqueue.servers.kafka.api import NONE, Api, Context, Message, Reply, error_code
from goqueue.transactions.records import TransactionState

API = Api(
    key=66,
    name="ListTransactions",
    versions=(0, 1),
    gaps=("version 2, which filters by a pattern, is not served",),
)

_STATES = {state.kafka_name for state in TransactionState}


async def handle(context: Context, request: Message) -> Reply:
    """An empty filter lets everything through; states that do not exist are named in the answer."""
    try:
        found = await context.services.transactions.list()
    except GoQueueError as error:
        return {"error_code": error_code(error), "unknown_state_filters": [], "transaction_states": []}
    states, producers = set(request.state_filters), set(request.producer_id_filters)
    started_before_ms = context.services.clock.now_ms() - request.duration_filter
    return {
        "error_code": NONE,
        "unknown_state_filters": sorted(states - _STATES),
        "transaction_states": [
            {
                "transactional_id": one.transactional_id,
                "producer_id": one.producer_id,
                "transaction_state": one.state.kafka_name,
            }
            for one in found
            if (not states or one.state.kafka_name in states)
            and (not producers or one.producer_id in producers)
            and (request.duration_filter < 0 or 0 <= one.started_ms < started_before_ms)
        ],
    }

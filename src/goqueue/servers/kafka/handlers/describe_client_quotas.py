"""DescribeClientQuotas: there are no quotas of clients, and `kafka-configs --describe --entity-type users` asks.

Versions 0-1.
"""

from __future__ import annotations

from goqueue.errors import GoQueueError
from goqueue.security.model import Operation, Resource
from goqueue.servers.kafka.api import Api, Context, Message, Reply, failed

API = Api(
    key=48, name="DescribeClientQuotas", versions=(0, 1), gaps=("There are no quotas of clients: the list is empty.",)
)


def handle(context: Context, request: Message) -> Reply:  # noqa: ARG001 - whatever is asked for, there is none
    """No entries, for those who may see settings of the cluster."""
    try:
        context.services.access.require(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER)
    except GoQueueError as error:
        return {**failed(error), "entries": None}
    return {"error_code": 0, "error_message": None, "entries": []}

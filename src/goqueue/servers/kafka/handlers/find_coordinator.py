"""FindCoordinator: who leads the partition of the internal topic in which a group or a transactional id is kept."""

from __future__ import annotations

from goqueue.errors import CoordinatorUnavailable, GoQueueError, InvalidRequest
from goqueue.groups.service import CONSUMER_OFFSETS
from goqueue.ids import parse_group_id, parse_transactional_id
from goqueue.security.model import Operation, Resource
from goqueue.servers.kafka.api import NONE, Api, Context, Message, Reply, failed
from goqueue.transactions.service import TRANSACTION_STATE

API = Api(
    key=10,
    name="FindCoordinator",
    versions=(0, 6),
    gaps=("coordinators of groups (share groups too) and transactions; those that only brokers ask for are refused",),
)

_NAMES = {0: parse_group_id, 1: parse_transactional_id}
_RESOURCES = {0: Resource.GROUP, 1: Resource.TRANSACTIONAL_ID}
_TOPICS = {0: CONSUMER_OFFSETS, 1: TRANSACTION_STATE}
_NOWHERE = {"node_id": -1, "host": "", "port": -1}


def handle(context: Context, request: Message) -> Reply:
    """One key up to version 3, many after that."""
    if context.api_version >= 4:
        keys = request.coordinator_keys
        return {"coordinators": [{"key": key, **_locate(context, request.key_type, key)} for key in keys]}
    return _locate(context, request.key_type, request.key)


def _locate(context: Context, key_type: int, key: str) -> dict[str, object]:
    try:
        parse = _NAMES.get(key_type)
        if parse is None:
            raise InvalidRequest("this broker coordinates groups and transactions only", field="key_type")
        parse(key)
        context.services.access.require(Operation.DESCRIBE, _RESOURCES[key_type], key)
        node = context.services.cluster.coordinator(_TOPICS[key_type], key)
        if node is None:
            raise CoordinatorUnavailable(f"no node coordinates {key[:80]!r} at present")
    except GoQueueError as error:
        return {**failed(error), **_NOWHERE}
    return {"error_code": NONE, "error_message": None, "node_id": node.node_id, "host": node.host, "port": node.port}

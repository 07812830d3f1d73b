"""FindCoordinator: every group and every transactional id is coordinated by this node."""

from __future__ import annotations

from goqueue.errors import GoQueueError, InvalidRequest
from goqueue.ids import parse_group_id, parse_transactional_id
from goqueue.security.model import Operation, Resource
from goqueue.servers.kafka.api import NONE, Api, Context, Message, Reply, failed

API = Api(
    key=10,
    name="FindCoordinator",
    versions=(0, 6),
    gaps=("coordinators of groups (share groups too) and transactions; those that only brokers ask for are refused",),
)

_NAMES = {0: parse_group_id, 1: parse_transactional_id}
_RESOURCES = {0: Resource.GROUP, 1: Resource.TRANSACTIONAL_ID}
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
    except GoQueueError as error:
        return {**failed(error), **_NOWHERE}
    node = context.services.identity
    return {
        "error_code": NONE,
        "error_message": None,
        "node_id": node.node_id,
        "host": node.kafka_host,
        "port": node.kafka_port,
    }

"""ListConfigResources: what has settings (KIP-1142). Version 0 asks for client metrics alone, which we have none of.

Version 1 names types, or none for all of them: topics, this node, and groups.
"""

from __future__ import annotations

from goqueue.errors import GoQueueError
from goqueue.security.model import Operation, Resource
from goqueue.servers.kafka.administration.config_resources import ResourceType
from goqueue.servers.kafka.api import NONE, UNSUPPORTED_VERSION, Api, Context, Message, Reply, error_code

API = Api(
    key=74,
    name="ListConfigResources",
    versions=(0, 1),
    gaps=("Topics, this node and all groups; loggers and client metrics have no settings, so none are listed.",),
)

_TYPES_FROM = 1
# Kafka's numbers of what can have settings there and has none here.
_BROKER_LOGGER, _CLIENT_METRICS = 8, 16
_KNOWN = frozenset({*ResourceType, _BROKER_LOGGER, _CLIENT_METRICS})


async def handle(context: Context, request: Message) -> Reply:
    """A type that nobody knows is answered as Kafka does, with an error for all."""
    if context.api_version < _TYPES_FROM:
        return {"error_code": NONE, "config_resources": []}
    types = set(request.resource_types) or set(_KNOWN)
    if types - _KNOWN:
        return {"error_code": UNSUPPORTED_VERSION, "config_resources": []}
    try:
        named = await _named(context, types)
    except GoQueueError as error:
        return {"error_code": error_code(error), "config_resources": []}
    return {
        "error_code": NONE,
        "config_resources": [{"resource_name": name, "resource_type": kind} for kind, name in named],
    }


async def _named(context: Context, types: set[int]) -> list[tuple[int, str]]:
    services = context.services
    named: list[tuple[int, str]] = []
    if ResourceType.TOPIC in types:
        named += [(ResourceType.TOPIC, topic.name) for topic in services.topics.list()]
    if ResourceType.BROKER in types and services.access.may(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER):
        named.append((ResourceType.BROKER, str(services.identity.node_id)))
    if ResourceType.GROUP in types:
        named += [(ResourceType.GROUP, one.group) for one in await services.groups.list()]
    return named

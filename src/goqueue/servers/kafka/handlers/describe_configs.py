"""DescribeConfigs: settings of topics, of this node and of groups, with where they come from. Versions 1-4."""

from __future__ import annotations

from goqueue.errors import GoQueueError
from goqueue.metadata.settings.topic_config import ConfigEntry
from goqueue.servers.kafka.administration.config_resources import entries_of, result
from goqueue.servers.kafka.api import Api, Context, Message, Reply

API = Api(
    key=32,
    name="DescribeConfigs",
    versions=(1, 4),
    gaps=("Topics, this node and groups; loggers and client metrics have no settings.",),
)

Row = dict[str, object]


async def handle(context: Context, request: Message) -> Reply:
    """One result per resource asked for."""
    return {"results": [await _describe(context, request, one) for one in request.resources]}


async def _describe(context: Context, request: Message, resource: Message) -> Row:
    try:
        entries = await entries_of(context, resource.resource_type, resource.resource_name)
    except GoQueueError as error:
        return result(resource, error)
    wanted = resource.configuration_keys
    return {
        **result(resource, None),
        "configs": [_row(request, one) for one in entries if wanted is None or one.name in wanted],
    }


def _row(request: Message, entry: ConfigEntry) -> Row:
    return {
        "name": entry.name,
        "value": None if entry.sensitive else entry.value,
        "read_only": entry.read_only,
        "config_source": entry.source,
        "is_sensitive": entry.sensitive,
        "synonyms": [
            {"name": one.name, "value": None if entry.sensitive else one.value, "source": one.source}
            for one in (entry.synonyms if request.include_synonyms else ())
        ],
        "config_type": entry.type,
        "documentation": entry.doc if request.include_documentation else None,
    }

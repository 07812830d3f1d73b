"""IncrementalAlterConfigs: sets, deletes, appends to and subtracts from single settings. Versions 0-1."""

from __future__ import annotations

from goqueue.errors import GoQueueError, InvalidRequest
from goqueue.servers.kafka.administration.config_resources import ResourceType, change, changes_of, is_repeated, result
from goqueue.servers.kafka.api import Api, Context, Message, Order, Reply

API = Api(
    key=44,
    name="IncrementalAlterConfigs",
    versions=(0, 1),
    gaps=(
        "Of the broker's settings, the defaults of topic settings can be altered; the others need a restart.",
        "A group's `share.isolation.level` is stored and shown; `read_uncommitted` has no effect.",
    ),
    order=Order.CHANGE,
)


async def handle(context: Context, request: Message) -> Reply:
    """What is not named stays as it is."""
    return {"responses": [await _change(context, request, one) for one in request.resources]}


async def _change(context: Context, request: Message, resource: Message) -> dict[str, object]:
    try:
        if is_repeated(resource, request.resources):
            raise InvalidRequest(f"{resource.resource_name!r} is named more than once", field="resource_name")
        has_settings = resource.resource_type in {ResourceType.TOPIC, ResourceType.GROUP, ResourceType.BROKER}
        changes = changes_of(context, resource) if has_settings else {}
        await change(context, resource, changes, replace=False, validate_only=request.validate_only)
    except GoQueueError as error:
        return result(resource, error)
    return result(resource, None)

"""AlterConfigs: replaces all settings of a resource; the older way. Versions 0-2."""

from __future__ import annotations

from goqueue.errors import GoQueueError, InvalidRequest
from goqueue.servers.kafka.administration.config_resources import change, is_repeated, result
from goqueue.servers.kafka.api import Api, Context, Message, Order, Reply

API = Api(
    key=33,
    name="AlterConfigs",
    versions=(0, 2),
    gaps=("Topics and brokers. Of the broker's settings, the defaults of topic settings can be altered.",),
    order=Order.CHANGE,
)


async def handle(context: Context, request: Message) -> Reply:
    """What is not named goes back to its default."""
    return {"responses": [await _replace(context, request, one) for one in request.resources]}


async def _replace(context: Context, request: Message, resource: Message) -> dict[str, object]:
    try:
        if is_repeated(resource, request.resources):
            raise InvalidRequest(f"{resource.resource_name!r} is named more than once", field="resource_name")
        changes = {one.name: one.value for one in resource.configs}
        await change(context, resource, changes, replace=True, validate_only=request.validate_only)
    except GoQueueError as error:
        return result(resource, error)
    return result(resource, None)

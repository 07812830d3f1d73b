"""CreateAcls: add access rules. Versions 1-3."""

from __future__ import annotations

from goqueue.errors import GoQueueError
from goqueue.security.model import Operation, Resource
from goqueue.servers.kafka.administration.acl_rows import SECURITY_DISABLED, SecurityDisabled, admin_of, new_acl
from goqueue.servers.kafka.api import Api, Context, Message, Order, Reply, failed

API = Api(key=30, name="CreateAcls", versions=(1, 3), order=Order.CHANGE)


async def handle(context: Context, request: Message) -> Reply:
    """Each rule has its own result."""
    return {"results": [await _create(context, one) for one in request.creations]}


async def _create(context: Context, row: Message) -> dict[str, object]:
    try:
        admin = admin_of(context)
        context.services.access.require(Operation.ALTER, Resource.CLUSTER)
        await admin.add_acls([new_acl(row)])
    except SecurityDisabled as error:
        return {**failed(error), "error_code": SECURITY_DISABLED}
    except GoQueueError as error:
        return failed(error)
    return {"error_code": 0, "error_message": None}

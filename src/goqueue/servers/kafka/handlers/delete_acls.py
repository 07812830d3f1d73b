"""DeleteAcls: remove the access rules that filters mean. Versions 1-3."""

from __future__ import annotations

from goqueue.errors import GoQueueError
from goqueue.security.store import matching_acls
from goqueue.servers.kafka.administration.acl_rows import SECURITY_DISABLED, SecurityDisabled, admin_of, filter_of
from goqueue.servers.kafka.api import Api, Context, Message, Order, Reply, failed

API = Api(key=31, name="DeleteAcls", versions=(1, 3), order=Order.CHANGE)


async def handle(context: Context, request: Message) -> Reply:
    """Each filter has its own result, with the rules that it removed."""
    return {"filter_results": [await _delete(context, one) for one in request.filters]}


async def _delete(context: Context, row: Message) -> dict[str, object]:
    try:
        admin = admin_of(context)
        found = matching_acls(admin.acls(), **filter_of(row))
        await admin.delete_acls(found)
    except SecurityDisabled as error:
        return {**failed(error), "error_code": SECURITY_DISABLED}
    except GoQueueError as error:
        return failed(error)
    return {
        "error_code": 0,
        "error_message": None,
        "matching_acls": [
            {
                "error_code": 0,
                "resource_type": one.resource,
                "resource_name": one.name,
                "pattern_type": one.pattern,
                "principal": one.principal,
                "host": one.host,
                "operation": one.operation,
                "permission_type": one.permission,
            }
            for one in found
        ],
    }

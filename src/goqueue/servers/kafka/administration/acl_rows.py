"""Access rules between Kafka's numbers and ours."""

from __future__ import annotations

from typing import Any

from goqueue.errors import Conflict, InvalidRequest
from goqueue.security.admin import SecurityAdmin
from goqueue.security.model import CLUSTER_NAME, OPERATIONS, Acl, Operation, Pattern, Permission, Resource
from goqueue.servers.kafka.api import Context, Message

SECURITY_DISABLED = 54


class SecurityDisabled(Conflict):
    """There are no rules where clients are not authenticated."""


def admin_of(context: Context) -> SecurityAdmin:
    """The service for users and rules; raises if security is off."""
    admin = context.services.security
    if admin is None:
        raise SecurityDisabled("security is not enabled on this broker")
    return admin


def new_acl(row: Message) -> Acl:
    """A rule that is to be added; only what names one thing, and makes sense for it."""
    acl = Acl(
        _number(Resource, row.resource_type, "resource_type"),
        row.resource_name,
        _number(Pattern, row.resource_pattern_type, "resource_pattern_type"),
        row.principal,
        row.host,
        _number(Operation, row.operation, "operation"),
        _number(Permission, row.permission_type, "permission_type"),
    )
    if acl.resource is Resource.ANY or acl.operation is Operation.ANY or acl.permission is Permission.ANY:
        raise InvalidRequest("a rule cannot use ANY or UNKNOWN: name the resource, operation and permission")
    if acl.pattern not in (Pattern.LITERAL, Pattern.PREFIXED):
        raise InvalidRequest("the pattern type of a rule must be LITERAL or PREFIXED", field="resource_pattern_type")
    if acl.operation is not Operation.ALL and acl.operation not in OPERATIONS[acl.resource]:
        raise InvalidRequest(f"{acl.resource.name.lower()} has no operation {acl.operation.name.lower()}")
    if not acl.name or (acl.resource is Resource.CLUSTER and acl.name != CLUSTER_NAME):
        raise InvalidRequest(f"the name of the cluster is {CLUSTER_NAME}", field="resource_name")
    return acl


def filter_of(row: Message) -> dict[str, Any]:
    """The arguments of `matching_acls` that a filter means."""
    return {
        "resource": _number(Resource, row.resource_type_filter, "resource_type"),
        "name": row.resource_name_filter,
        "pattern": _number(Pattern, row.pattern_type_filter, "pattern_type"),
        "principal": row.principal_filter,
        "host": row.host_filter,
        "operation": _number(Operation, row.operation, "operation"),
        "permission": _number(Permission, row.permission_type, "permission_type"),
    }


def _number(kind: Any, number: int, field: str) -> Any:
    try:
        return kind(number)
    except ValueError:
        raise InvalidRequest(f"{number} is not a known {field}", field=field) from None

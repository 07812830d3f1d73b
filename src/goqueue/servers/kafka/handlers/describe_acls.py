"""DescribeAcls: the access rules that a filter means. Versions 1-3."""

from __future__ import annotations

from itertools import groupby

from goqueue.errors import GoQueueError
from goqueue.security.store import matching_acls
from goqueue.servers.kafka.administration.acl_rows import SECURITY_DISABLED, SecurityDisabled, admin_of, filter_of
from goqueue.servers.kafka.api import Api, Context, Message, Reply, failed

API = Api(key=29, name="DescribeAcls", versions=(1, 3), gaps=("There are no delegation tokens and no user resources.",))


def handle(context: Context, request: Message) -> Reply:
    """Rules, by resource."""
    try:
        found = matching_acls(admin_of(context).acls(), **filter_of(request))
    except SecurityDisabled as error:
        return {**failed(error), "error_code": SECURITY_DISABLED}
    except GoQueueError as error:
        return failed(error)
    return {
        "error_code": 0,
        "resources": [
            {
                "resource_type": resource,
                "resource_name": name,
                "pattern_type": pattern,
                "acls": [
                    {
                        "principal": one.principal,
                        "host": one.host,
                        "operation": one.operation,
                        "permission_type": one.permission,
                    }
                    for one in rows
                ],
            }
            for (resource, name, pattern), rows in groupby(found, key=lambda one: one[:3])
        ],
    }

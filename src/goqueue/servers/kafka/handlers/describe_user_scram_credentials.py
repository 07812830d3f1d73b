"""DescribeUserScramCredentials: who has a password, for which mechanisms. Nothing of the password. Version 0."""

from __future__ import annotations

from goqueue.errors import GoQueueError
from goqueue.servers.kafka.administration.acl_rows import SECURITY_DISABLED, SecurityDisabled, admin_of
from goqueue.servers.kafka.api import Api, Context, Message, Reply, failed

API = Api(key=50, name="DescribeUserScramCredentials", versions=(0, 0))

# Kafka's numbers.
MECHANISMS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE = 91, 92


def handle(context: Context, request: Message) -> Reply:
    """The users that were named, or all."""
    try:
        users = {one.name: one for one in admin_of(context).users()}
    except SecurityDisabled as error:
        return {**failed(error), "error_code": SECURITY_DISABLED}
    except GoQueueError as error:
        return failed(error)
    names = sorted(users) if not request.users else [one.name for one in request.users]
    results: list[dict[str, object]] = []
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            results.append({"user": name, "error_code": DUPLICATE_RESOURCE, "error_message": "named more than once"})
        elif name not in users:
            results.append({"user": name, "error_code": RESOURCE_NOT_FOUND, "error_message": "there is no such user"})
        else:
            infos = [
                {"mechanism": MECHANISMS[mechanism], "iterations": one.iterations}
                for mechanism, one in sorted(users[name].scram.items())
            ]
            results.append({"user": name, "error_code": 0, "credential_infos": infos})
    return {"error_code": 0, "results": results}

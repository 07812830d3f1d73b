"""AlterUserScramCredentials: create users, change and delete their passwords. Version 0.

The client salts the password and sends the result, as Kafka's tools do; the password itself does not travel.
"""

from __future__ import annotations

from collections import defaultdict

from goqueue.errors import GoQueueError, InvalidRequest, NotFound
from goqueue.security.model import Operation, Resource, ScramCredential
from goqueue.security.scram import ITERATIONS_MAX, ITERATIONS_MIN, credential_of_salted
from goqueue.servers.kafka.administration.acl_rows import SECURITY_DISABLED, SecurityDisabled, admin_of
from goqueue.servers.kafka.api import Api, Context, Message, Order, Reply, failed
from goqueue.servers.kafka.handlers.describe_user_scram_credentials import (
    DUPLICATE_RESOURCE,
    MECHANISMS,
    RESOURCE_NOT_FOUND,
)

API = Api(key=51, name="AlterUserScramCredentials", versions=(0, 0), order=Order.CHANGE)

_NAMES = {number: name for name, number in MECHANISMS.items()}
_UNACCEPTABLE, _UNSUPPORTED_MECHANISM = 93, 33


async def handle(context: Context, request: Message) -> Reply:
    """Each user has its own result; what is named twice is not done."""
    puts: dict[str, list[Message]] = defaultdict(list)
    deletes: dict[str, list[Message]] = defaultdict(list)
    for one in request.upsertions:
        puts[one.name].append(one)
    for one in request.deletions:
        deletes[one.name].append(one)
    users = dict.fromkeys([*puts, *deletes])
    return {"results": [{"user": name, **await _alter(context, name, puts[name], deletes[name])} for name in users]}


async def _alter(context: Context, name: str, puts: list[Message], deletes: list[Message]) -> dict[str, object]:
    try:
        admin = admin_of(context)
        context.services.access.require(Operation.ALTER, Resource.CLUSTER)
    except SecurityDisabled as error:
        return {**failed(error), "error_code": SECURITY_DISABLED}
    except GoQueueError as error:
        return failed(error)
    mechanisms = [one.mechanism for one in (*puts, *deletes)]
    if len(set(mechanisms)) != len(mechanisms):
        return {"error_code": DUPLICATE_RESOURCE, "error_message": "a mechanism is named more than once"}
    if any(one not in _NAMES for one in mechanisms):
        return {"error_code": _UNSUPPORTED_MECHANISM, "error_message": "use SCRAM-SHA-256 or SCRAM-SHA-512"}
    try:
        made = {_NAMES[one.mechanism]: _credential(one) for one in puts}
        await admin.alter_scram(name, put=made, delete=[_NAMES[one.mechanism] for one in deletes])
    except NotFound as error:
        return {"error_code": RESOURCE_NOT_FOUND, "error_message": str(error)}
    except InvalidRequest as error:
        return {"error_code": _UNACCEPTABLE, "error_message": str(error)}
    except GoQueueError as error:
        return failed(error)
    return {"error_code": 0, "error_message": None}


def _credential(one: Message) -> ScramCredential:
    if not ITERATIONS_MIN <= one.iterations <= ITERATIONS_MAX:
        raise InvalidRequest(f"iterations is {one.iterations}: use {ITERATIONS_MIN} to {ITERATIONS_MAX}")
    if not one.salt or not one.salted_password:
        raise InvalidRequest("salt and salted password may not be empty")
    return credential_of_salted(_NAMES[one.mechanism], bytes(one.salted_password), bytes(one.salt), one.iterations)

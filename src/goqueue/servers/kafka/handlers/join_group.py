"""JoinGroup: become a member of the next generation of a classic group."""

from __future__ import annotations

from goqueue.errors import GoQueueError, MemberIdRequired
from goqueue.groups.commands import Joined, JoinGroup
from goqueue.servers.kafka.api import NONE, Api, Context, Message, Order, Reply, error_code

API = Api(
    key=11,
    name="JoinGroup",
    versions=(0, 9),
    gaps=("a group whose members use the consumer protocol is not joined by classic members while it has any",),
    order=Order.POLL,
)

_ID_REQUIRED_FROM = 4
_SKIP_ASSIGNMENT_FROM = 9
_RESPONSE_WITHOUT_NULL_BELOW = 7


async def handle(context: Context, request: Message) -> Reply:
    """Answered when the generation is formed."""
    try:
        joined = await context.services.groups.join(_command(context, request))
    except GoQueueError as error:
        member_id = error.member_id if isinstance(error, MemberIdRequired) else request.member_id
        return _refused(context, member_id, error)
    return _accepted(joined)


def _command(context: Context, request: Message) -> JoinGroup:
    session_timeout_ms = request.session_timeout
    # Before version 1 there was one timeout for both.
    rebalance_timeout_ms = request.rebalance_timeout if context.api_version >= 1 else session_timeout_ms
    return JoinGroup(
        group=request.group_id,
        member_id=request.member_id,
        new_member_id="",
        protocol_type=request.protocol_type,
        protocols=tuple((one.name, bytes(one.metadata)) for one in request.protocols),
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        instance_id=request.group_instance_id,
        client_id=context.client_id,
        client_host=context.client_host,
        id_required=context.api_version >= _ID_REQUIRED_FROM,
        can_skip_assignment=context.api_version >= _SKIP_ASSIGNMENT_FROM,
    )


def _accepted(joined: Joined) -> Reply:
    return {
        "error_code": NONE,
        "generation_id": joined.generation,
        "protocol_type": joined.protocol_type,
        "protocol_name": joined.protocol or "",
        "leader": joined.leader,
        "skip_assignment": joined.skip_assignment,
        "member_id": joined.member_id,
        "members": [
            {"member_id": one.member_id, "group_instance_id": one.instance_id, "metadata": one.metadata}
            for one in joined.members
        ],
    }


def _refused(context: Context, member_id: str, error: GoQueueError) -> Reply:
    return {
        "error_code": error_code(error),
        "generation_id": -1,
        "protocol_name": "" if context.api_version < _RESPONSE_WITHOUT_NULL_BELOW else None,
        "leader": "",
        "member_id": member_id,
        "members": [],
    }

"""ShareGroupDescribe (KIP-932): groups whose members share partitions, and who is in them."""

from __future__ import annotations

from goqueue.groups.descriptions import ConsumerMemberDescription, GroupType
from goqueue.servers.kafka.api import Api, Context, Message, Reply
from goqueue.servers.kafka.described_groups import described_groups, named_partitions

API = Api(
    key=77,
    name="ShareGroupDescribe",
    versions=(1, 1),
    gaps=("authorized operations are not told, since nothing is restricted yet",),
)


async def handle(context: Context, request: Message) -> Reply:
    """One answer for each group asked for."""
    return await described_groups(context, request.group_ids, GroupType.SHARE, _member)


def _member(context: Context, member: ConsumerMemberDescription) -> dict[str, object]:
    return {
        "member_id": member.member_id,
        "rack_id": member.rack_id,
        "member_epoch": member.member_epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": list(member.topics),
        "assignment": named_partitions(context, member.assigned),
    }

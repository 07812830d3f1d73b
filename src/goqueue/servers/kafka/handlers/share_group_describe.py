"""ShareGroupDescribe (KIP-932): groups whose members share partitions, and who is in them."""

from __future__ import annotations

from goqueue.groups.descriptions import ConsumerMemberDescription, GroupType
from goqueue.servers.kafka.administration.described_groups import described_groups, named_partitions, visible_topics
from goqueue.servers.kafka.api import Api, Context, Message, Reply

API = Api(
    key=77,
    name="ShareGroupDescribe",
    versions=(1, 1),
)


async def handle(context: Context, request: Message) -> Reply:
    """One answer for each group asked for."""
    return await described_groups(context, request, GroupType.SHARE, _member)


def _member(context: Context, member: ConsumerMemberDescription) -> dict[str, object]:
    return {
        "member_id": member.member_id,
        "rack_id": member.rack_id,
        "member_epoch": member.member_epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": visible_topics(context, member.topics),
        "assignment": named_partitions(context, member.assigned),
    }

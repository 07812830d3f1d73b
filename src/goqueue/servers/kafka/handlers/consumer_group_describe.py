"""ConsumerGroupDescribe (KIP-848): groups of the new protocol, what members own and are to own."""

from __future__ import annotations

from goqueue.groups.descriptions import ConsumerMemberDescription, GroupType
from goqueue.servers.kafka.administration.described_groups import described_groups, named_partitions, visible_topics
from goqueue.servers.kafka.api import Api, Context, Message, Reply

API = Api(
    key=69,
    name="ConsumerGroupDescribe",
    versions=(0, 1),
)

# A member of the new protocol, not one of the classic protocol in a group of the new one.
_CONSUMER_MEMBER = 1


async def handle(context: Context, request: Message) -> Reply:
    """One answer for each group asked for."""
    return await described_groups(context, request, GroupType.CONSUMER, _member)


def _member(context: Context, member: ConsumerMemberDescription) -> dict[str, object]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "member_epoch": member.member_epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": visible_topics(context, member.topics),
        "subscribed_topic_regex": member.regex or None,
        "assignment": named_partitions(context, member.assigned),
        "target_assignment": named_partitions(context, member.target),
        "member_type": _CONSUMER_MEMBER,
    }

"""A shared queue group: who is in it. Every member may take messages of every partition of its topics.

Messages are shared one by one, by whoever delivers them, so there is nothing to hand over between
members: no revocation, no targets, and a member's assignment follows from its subscription alone.
What is durable changes only by `apply_*`.
"""

from __future__ import annotations

from goqueue.errors import UnknownMember
from goqueue.groups.descriptions import ConsumerDescription, ConsumerMemberDescription, GroupState, GroupType
from goqueue.groups.outbox import Outbox
from goqueue.groups.records import (
    MemberRecord,
    ShareGroupKey,
    ShareGroupRecord,
    ShareMemberKey,
)
from goqueue.groups.subscription.subscriptions import Subscriptions
from goqueue.groups.subscription.topic_partitions import NO_PARTITIONS, PartitionSet, TopicIdPartition

# The name of the only assignor: all partitions to all who want them.
SHARE_ASSIGNOR = "all"


class ShareGroup:
    """The durable state of one group, and what its members were told."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.changed_ms = 0
        self.members: dict[str, MemberRecord] = {}
        # Not durable: the assignment that each member was last told, and the topics it was made from.
        self.told: dict[str, PartitionSet] = {}
        self.topics_version = -1

    @property
    def is_gone(self) -> bool:
        """Whether nothing is left of the group."""
        # Who was told something is about to be written down.
        return not (self.epoch or self.members or self.told)

    @property
    def state(self) -> GroupState:
        """Where the group stands: it never has to rebalance."""
        return GroupState.STABLE if self.members else GroupState.EMPTY

    def member(self, member_id: str) -> MemberRecord:
        """The member of that id."""
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMember(f"{member_id!r} is not a member of group {self.group_id!r}")
        return member

    # --- records ----------------------------------------------------------------------

    def apply_group(self, record: ShareGroupRecord | None) -> None:
        """Take in the epoch, or the end, of the group."""
        self.epoch = record.epoch if record else 0
        self.changed_ms = record.changed_ms if record else 0

    def apply_member(self, member_id: str, record: MemberRecord | None) -> None:
        """Take in who a member is, or that it is gone."""
        if record is None:
            self.members.pop(member_id, None)
            self.told.pop(member_id, None)
        else:
            self.members[member_id] = record

    def write_all(self, out: Outbox) -> None:
        """Every record that the group is made of."""
        if self.epoch:
            out.write(ShareGroupKey(self.group_id), ShareGroupRecord(self.epoch, self.changed_ms))
        for member_id, record in self.members.items():
            out.write(ShareMemberKey(self.group_id, member_id), record)

    def write_tombstones(self, out: Outbox) -> None:
        """The group is to be forgotten."""
        for member_id in self.members:
            out.write(ShareMemberKey(self.group_id, member_id), None)
        out.write(ShareGroupKey(self.group_id), None)

    # --- what can be read off ---------------------------------------------------------

    def description(self, subscriptions: Subscriptions) -> ConsumerDescription:
        """The group as it stands."""
        return ConsumerDescription(
            group=self.group_id,
            state=self.state,
            epoch=self.epoch,
            assignor=SHARE_ASSIGNOR,
            members=tuple(
                ConsumerMemberDescription(
                    member_id=member_id,
                    instance_id=None,
                    rack_id=member.rack_id,
                    member_epoch=self.epoch,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    topics=member.topics,
                    regex=member.regex,
                    assigned=(assigned := assign_all(member, subscriptions)),
                    revoking=NO_PARTITIONS,
                    target=assigned,
                    tags=member.tags,
                )
                for member_id, member in self.members.items()
            ),
            type=GroupType.SHARE,
        )


def assign_all(member: MemberRecord, subscriptions: Subscriptions) -> PartitionSet:
    """Every partition of every topic that the member wants and that exists."""
    return frozenset(
        TopicIdPartition(topic_id, partition)
        for topic_id, count in subscriptions.topics_of(member).items()
        for partition in range(count)
    )

"""A group of the new protocol: its members, what each owns, and what each is to own.

Everything here is durable and changes only by `apply_*`. A decision is worked out on a
`Draft`, and what the draft changed is what gets written.
"""

from __future__ import annotations

from collections import Counter
from enum import IntEnum

import msgspec

from goqueue.errors import FencedInstance, UnknownMember
from goqueue.groups.descriptions import ConsumerDescription, ConsumerMemberDescription, GroupState
from goqueue.groups.outbox import Outbox
from goqueue.groups.records import (
    ConsumerGroupKey,
    ConsumerGroupRecord,
    CurrentKey,
    CurrentRecord,
    MemberKey,
    MemberRecord,
    TargetKey,
    TargetRecord,
)
from goqueue.groups.subscription.assignors import ASSIGNORS, DEFAULT_ASSIGNOR
from goqueue.groups.subscription.topic_partitions import (
    NO_PARTITIONS,
    PartitionSet,
    TopicIdPartition,
    by_topic,
    partition_set,
)


class MemberState(IntEnum):
    """How far a member has come towards its target. Numbers are on disk."""

    # It owns what it is to own.
    STABLE = 0
    # It was asked to give partitions up and has not confirmed it.
    UNREVOKED = 1
    # It waits for partitions that others still own.
    UNRELEASED = 2


class Current(msgspec.Struct, frozen=True):
    """What a member owns, and at which epoch."""

    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: PartitionSet = NO_PARTITIONS
    revoking: PartitionSet = NO_PARTITIONS

    @property
    def held(self) -> PartitionSet:
        """What nobody else may own yet."""
        return self.assigned | self.revoking if self.revoking else self.assigned


class Member(msgspec.Struct, frozen=True):
    """Who a member is and what it owns."""

    member_id: str
    subscription: MemberRecord
    current: Current = Current()


class ConsumerGroup:
    """The durable state of one group."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.changed_ms = 0
        self.members: dict[str, Member] = {}
        self.targets: dict[str, PartitionSet] = {}
        self.static: dict[str, str] = {}
        self.owners: dict[TopicIdPartition, str] = {}
        # Compaction keeps the last record of each key, so in a replay a member's
        # assignment may come before the member itself.
        self._early: dict[str, Current] = {}
        # Not durable: the version of the topics that the targets were last compared with.
        self.topics_version = -1

    @property
    def is_gone(self) -> bool:
        """Whether nothing is left of the group."""
        return not (self.epoch or self.members or self.targets or self._early)

    @property
    def state(self) -> GroupState:
        """Where the group stands."""
        if not self.members:
            return GroupState.EMPTY
        return GroupState.STABLE if all(map(self.is_settled, self.members.values())) else GroupState.RECONCILING

    def is_settled(self, member: Member) -> bool:
        """Whether a member owns exactly what it is to own."""
        return member.current.state is MemberState.STABLE and member.current.epoch == self.epoch

    def member(self, member_id: str) -> Member:
        """The member of that id."""
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMember(f"{member_id!r} is not a member of group {self.group_id!r}")
        return member

    def static_member(self, instance_id: str, member_id: str) -> Member:
        """The static member that speaks, unless another process has taken its place."""
        current_id = self.static.get(instance_id)
        if current_id is None:
            raise UnknownMember(f"group {self.group_id!r} has no static member {instance_id!r}")
        if current_id != member_id:
            raise FencedInstance(f"static member {instance_id!r} is now {current_id!r}")
        return self.member(current_id)

    def assignor(self) -> str:
        """The assignor that most members ask for."""
        return preferred_assignor(self.members)

    # --- records ----------------------------------------------------------------------

    def apply_group(self, record: ConsumerGroupRecord | None) -> None:
        """Take in the epoch, or the end, of the group."""
        self.epoch = record.epoch if record else 0
        self.changed_ms = record.changed_ms if record else 0

    def apply_member(self, member_id: str, record: MemberRecord | None) -> None:
        """Take in who a member is."""
        before = self.members.get(member_id)
        instance_id = before.subscription.instance_id if before is not None else None
        # Unless the instance already belongs to the id that replaced this one.
        if instance_id is not None and self.static.get(instance_id) == member_id:
            del self.static[instance_id]
        current = before.current if before is not None else self._early.pop(member_id, Current())
        if record is not None:
            self.members[member_id] = Member(member_id, record, current)
            if record.instance_id is not None:
                self.static[record.instance_id] = member_id
            return
        self.members.pop(member_id, None)
        if current != Current():
            self._early[member_id] = current

    def apply_target(self, member_id: str, record: TargetRecord | None) -> None:
        """Take in what a member is to own."""
        if record is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = partition_set(record.partitions)

    def apply_current(self, member_id: str, record: CurrentRecord | None) -> None:
        """Take in what a member owns."""
        current = Current() if record is None else _current_from(record)
        member = self.members.get(member_id)
        before = member.current if member else self._early.pop(member_id, Current())
        for partition in before.held - current.held:
            # While records are replayed the new owner's may come before the old owner's.
            if self.owners.get(partition) == member_id:
                del self.owners[partition]
        for partition in current.held - before.held:
            self.owners[partition] = member_id
        if member is not None:
            self.members[member_id] = Member(member_id, member.subscription, current)
        elif current != Current():
            self._early[member_id] = current

    def write_all(self, out: Outbox) -> None:
        """All records that this group is made of."""
        out.write(ConsumerGroupKey(self.group_id), ConsumerGroupRecord(self.epoch, self.changed_ms))
        for member in self.members.values():
            out.write(MemberKey(self.group_id, member.member_id), member.subscription)
            if member.current != Current():
                out.write(CurrentKey(self.group_id, member.member_id), _current_record(member.current))
        for member_id, target in self.targets.items():
            out.write(TargetKey(self.group_id, member_id), TargetRecord(by_topic(target)))

    def write_tombstones(self, out: Outbox) -> None:
        """Everything about this group is to be forgotten."""
        for member_id in self.members:
            out.write(CurrentKey(self.group_id, member_id), None)
            out.write(MemberKey(self.group_id, member_id), None)
        for member_id in self.targets:
            out.write(TargetKey(self.group_id, member_id), None)
        out.write(ConsumerGroupKey(self.group_id), None)

    def description(self) -> ConsumerDescription:
        """The group as it stands."""
        return ConsumerDescription(
            group=self.group_id,
            state=self.state,
            epoch=self.epoch,
            assignor=self.assignor(),
            members=tuple(
                ConsumerMemberDescription(
                    member_id=member.member_id,
                    instance_id=member.subscription.instance_id,
                    rack_id=member.subscription.rack_id,
                    member_epoch=member.current.epoch,
                    client_id=member.subscription.client_id,
                    client_host=member.subscription.client_host,
                    topics=member.subscription.topics,
                    regex=member.subscription.regex,
                    assigned=member.current.assigned,
                    revoking=member.current.revoking,
                    target=self.targets.get(member.member_id, NO_PARTITIONS),
                    tags=member.subscription.tags,
                )
                for member in self.members.values()
            ),
        )


class Draft:
    """A group as it is to be. Nothing is changed until what differs has been written."""

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group
        self.epoch = group.epoch
        self.members = dict(group.members)
        self.targets = dict(group.targets)

    @property
    def is_settled(self) -> bool:
        """Whether every member owns exactly what it is to own."""
        return all(
            member.current.state is MemberState.STABLE and member.current.epoch == self.epoch
            for member in self.members.values()
        )

    def is_free(self, partition: TopicIdPartition, member_id: str) -> bool:
        """Whether nobody but this member holds the partition."""
        owner_id = self.group.owners.get(partition)
        if owner_id is None or owner_id == member_id:
            return True
        owner = self.members.get(owner_id)
        return owner is None or partition not in owner.current.held

    def remove(self, member_id: str) -> None:
        """Take a member out; what it held is free."""
        del self.members[member_id]
        self.targets.pop(member_id, None)

    def write(self, out: Outbox, now_ms: int) -> None:
        """Write down what differs from the group, removals first."""
        group = self.group
        group_id = group.group_id
        for member_id in group.members.keys() - self.members.keys():
            out.write(CurrentKey(group_id, member_id), None)
            out.write(TargetKey(group_id, member_id), None)
            out.write(MemberKey(group_id, member_id), None)
        for member_id, member in self.members.items():
            before = group.members.get(member_id)
            if before is member:
                continue
            if before is None or before.subscription != member.subscription:
                out.write(MemberKey(group_id, member_id), member.subscription)
            if before is None or before.current != member.current:
                out.write(CurrentKey(group_id, member_id), _current_record(member.current))
        for member_id, target in self.targets.items():
            if group.targets.get(member_id) != target:
                out.write(TargetKey(group_id, member_id), TargetRecord(by_topic(target)))
        if self.epoch != group.epoch:
            out.write(ConsumerGroupKey(group_id), ConsumerGroupRecord(self.epoch, now_ms))


def preferred_assignor(members: dict[str, Member]) -> str:
    """The assignor that most ask for. A tie is decided by name: the same after every restart."""
    votes = Counter(one.subscription.assignor for one in members.values() if one.subscription.assignor in ASSIGNORS)
    return max(votes, key=lambda name: (votes[name], name), default=DEFAULT_ASSIGNOR)


def _current_from(record: CurrentRecord) -> Current:
    return Current(
        record.epoch,
        record.previous_epoch,
        MemberState(record.state),
        partition_set(record.assigned),
        partition_set(record.revoking),
    )


def _current_record(current: Current) -> CurrentRecord:
    return CurrentRecord(
        current.epoch,
        current.previous_epoch,
        int(current.state),
        by_topic(current.assigned),
        by_topic(current.revoking),
    )

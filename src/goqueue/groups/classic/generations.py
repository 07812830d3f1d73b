"""Generations of a classic group: how one is formed, completed, and how it ends.

A rebalance begins with `begin`; it is over when `complete` writes the generation down, or
when nobody is left. Requests and deadlines, in `classic.py`, decide which comes when.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from goqueue.config import GroupsConfig
from goqueue.errors import RebalanceInProgress, UnknownMember
from goqueue.groups.classic.client_metadata import assigned_partitions
from goqueue.groups.classic.group import ClassicGroup, ClassicMember
from goqueue.groups.commands import Joined, Synced
from goqueue.groups.descriptions import GroupState
from goqueue.groups.outbox import Alarm, AlarmKey, Alarms, Outbox
from goqueue.groups.records import ClassicGroupKey, ClassicMemberRecord
from goqueue.groups.statistics import Reason, Rebalances
from goqueue.records import TopicPartition


@dataclass(frozen=True, slots=True)
class Generations:
    """Carries a group from one generation to the next."""

    config: GroupsConfig
    alarms: Alarms
    rebalances: Rebalances

    def begin_or_form(self, group: ClassicGroup, reason: Reason, now_ms: int, out: Outbox) -> None:
        """Begin a rebalance, or see whether the one under way can go on."""
        if group.state is GroupState.PREPARING_REBALANCE:
            self.form_if_all_joined(group, now_ms, out)
        else:
            self.begin(group, reason, now_ms, out)

    def begin(self, group: ClassicGroup, reason: Reason, now_ms: int, out: Outbox) -> None:
        """Begin a rebalance: from now on members are told to join again."""
        self.rebalances.start(group.group_id, reason, now_ms)
        for member in group.members.values():
            if member.sync_ticket is not None:
                self.arm_session(group, member.member_id, member.session_timeout_ms, now_ms)
                answer_sync(member, RebalanceInProgress("the generation ended before its assignment came"), out)
        group.unsynced.clear()
        self.alarms.cancel(AlarmKey(Alarm.SYNC, group.group_id))
        is_initial = group.state is GroupState.EMPTY
        group.state = GroupState.PREPARING_REBALANCE
        if is_initial and self.config.initial_rebalance_delay_ms:
            group.initial_until_ms = now_ms + group.rebalance_timeout_ms
            group.joined_meanwhile = False
            self.alarms.set(AlarmKey(Alarm.JOIN, group.group_id), now_ms + self.config.initial_rebalance_delay_ms)
        elif is_initial or group.all_joined:
            self.form(group, now_ms, out)
        else:
            self.alarms.set(AlarmKey(Alarm.JOIN, group.group_id), now_ms + group.rebalance_timeout_ms)

    def form_if_all_joined(self, group: ClassicGroup, now_ms: int, out: Outbox) -> None:
        """Form the generation if there is nobody left to wait for."""
        if group.state is GroupState.PREPARING_REBALANCE and group.initial_until_ms is None and group.all_joined:
            self.form(group, now_ms, out)

    def form(self, group: ClassicGroup, now_ms: int, out: Outbox) -> None:
        """Answer all who joined with a new generation; dynamic members that did not are out."""
        self.alarms.cancel(AlarmKey(Alarm.JOIN, group.group_id))
        for member in [one for one in group.members.values() if not one.awaits_join and one.instance_id is None]:
            self.remove(group, member, out)
        if group.members and not self._elect_leader(group):
            # Only static members are left and none is back: they have until their sessions end.
            self.alarms.set(AlarmKey(Alarm.JOIN, group.group_id), now_ms + group.rebalance_timeout_ms)
            return
        group.generation += 1
        group.initial_until_ms = None
        group.changed_ms = now_ms
        if not group.members:
            group.state = GroupState.EMPTY
            group.protocol = group.leader = None
            out.write(ClassicGroupKey(group.group_id), group.record())
            self.rebalances.abandon(group.group_id)
            return
        group.state = GroupState.COMPLETING_REBALANCE
        group.protocol = group.select_protocol()
        group.unsynced = set(group.members)
        for member in group.members.values():
            member.is_new = False
            self.arm_session(group, member.member_id, member.session_timeout_ms, now_ms)
            answer_join(member, joined(group, member), out)
        self.alarms.set(AlarmKey(Alarm.SYNC, group.group_id), now_ms + group.rebalance_timeout_ms)

    def complete(self, group: ClassicGroup, assignments: Mapping[str, bytes], now_ms: int, out: Outbox) -> None:
        """The leader has assigned: the generation is complete, and is written down."""
        for member in group.members.values():
            member.assignment = bytes(assignments.get(member.member_id, b""))
        group.state = GroupState.STABLE
        group.changed_ms = now_ms
        before = _owners(group.stored.members if group.stored else ())
        record = group.record()
        after = _owners(record.members)
        moved = sum(after.get(partition) != owner for partition, owner in before.items())
        out.write(ClassicGroupKey(group.group_id), record)
        for member in group.members.values():
            if member.sync_ticket is not None:
                self.arm_session(group, member.member_id, member.session_timeout_ms, now_ms)
                answer_sync(member, Synced(group.protocol_type, group.protocol, member.assignment), out)
        self.rebalances.move(group.group_id, moved)
        self.rebalances.complete(group.group_id, now_ms)

    def remove(self, group: ClassicGroup, member: ClassicMember, out: Outbox) -> None:
        """Take a member out, answering whatever it waits for."""
        gone = UnknownMember(f"{member.member_id!r} is no longer a member of group {group.group_id!r}")
        answer_join(member, gone, out)
        answer_sync(member, gone, out)
        self.alarms.cancel(AlarmKey(Alarm.SESSION, group.group_id, member.member_id))
        group.remove(member.member_id)
        out.depart(group.group_id, member.member_id)

    def arm_session(self, group: ClassicGroup, member_id: str, timeout_ms: int, now_ms: int) -> None:
        """The member was heard of, or is answered, now."""
        self.alarms.set(AlarmKey(Alarm.SESSION, group.group_id, member_id), now_ms + timeout_ms)

    def _elect_leader(self, group: ClassicGroup) -> bool:
        """The leader must be somebody who is there; the old one if it is."""
        leader = group.members.get(group.leader or "")
        if leader is None or not leader.awaits_join:
            leader = next((one for one in group.members.values() if one.awaits_join), None)
        if leader is None:
            return False
        group.leader = leader.member_id
        return True


def joined(group: ClassicGroup, member: ClassicMember, *, skip_assignment: bool = False) -> Joined:
    """The generation as this member is told of it."""
    leads = member.member_id == group.leader
    return Joined(
        member_id=member.member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader or "",
        members=group.joined_members() if leads else (),
        skip_assignment=skip_assignment,
    )


def answer_join(member: ClassicMember, answer: object, out: Outbox) -> None:
    """Answer the JoinGroup that the member waits for, if it does."""
    if member.join_ticket is not None:
        out.reply(member.join_ticket, answer)
        member.join_ticket = None


def answer_sync(member: ClassicMember, answer: object, out: Outbox) -> None:
    """Answer the SyncGroup that the member waits for, if it does."""
    if member.sync_ticket is not None:
        out.reply(member.sync_ticket, answer)
        member.sync_ticket = None


def _owners(members: tuple[ClassicMemberRecord, ...]) -> dict[TopicPartition, str]:
    return {partition: member.member_id for member in members for partition in assigned_partitions(member.assignment)}

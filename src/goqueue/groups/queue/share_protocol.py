"""The share protocol (KIP-932): members of a shared queue group join, stay and leave.

One heartbeat does everything. A member's epoch is the group's: since nothing is handed over from
one member to another, an older epoch is only an answer that was lost, and is accepted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from goqueue.config import GroupsConfig
from goqueue.errors import FencedMemberEpoch, GoQueueError, GroupFull, InvalidRequest, UnknownMember
from goqueue.groups.commands import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    ConsumerBeat,
    ConsumerHeartbeat,
    Leaver,
    Outcomes,
    RebalanceState,
)
from goqueue.groups.consumer.heartbeats import SUBSCRIPTION_CHARS_MAX, described
from goqueue.groups.outbox import Alarm, AlarmKey, Alarms, Outbox
from goqueue.groups.queue.share_group import ShareGroup, assign_all
from goqueue.groups.records import MemberRecord, ShareGroupKey, ShareGroupRecord, ShareMemberKey
from goqueue.groups.subscription.subscriptions import Subscriptions

_NOBODY = MemberRecord(None, None, "", "", 0, (), "", "")


@dataclass(frozen=True, slots=True)
class ShareProtocol:
    """Decides what becomes of a shared queue group's members."""

    config: GroupsConfig
    alarms: Alarms
    subscriptions: Subscriptions

    def heartbeat(self, group: ShareGroup, command: ConsumerHeartbeat, now_ms: int, out: Outbox) -> ConsumerBeat:
        """Join, stay or leave."""
        if command.member_epoch == LEAVE_EPOCH:
            group.member(command.member_id)
            self._remove(group, [command.member_id], now_ms, out)
            return ConsumerBeat(command.member_id, LEAVE_EPOCH, self.config.heartbeat_interval_ms)
        before = self._speaker(group, command)
        after = described(before, command)
        if after.regex != before.regex:
            self.subscriptions.check_pattern(after.regex)
        epoch = group.epoch
        if after != before:
            out.write(ShareMemberKey(group.group_id, command.member_id), after)
        if after != before or group.topics_version != self.subscriptions.version:
            epoch = self._raise_epoch(group, now_ms, out)
        self.arm(group.group_id, command.member_id, now_ms)
        assigned = assign_all(after, self.subscriptions)
        told = command.member_epoch == JOIN_EPOCH or group.told.get(command.member_id) != assigned
        group.told[command.member_id] = assigned
        return ConsumerBeat(
            member_id=command.member_id,
            member_epoch=epoch,
            heartbeat_interval_ms=self.config.heartbeat_interval_ms,
            assignment=assigned if told else None,
            state=RebalanceState.COMPLETE if told else RebalanceState.NONE,
        )

    def stay(self, group: ShareGroup, member_id: str, now_ms: int) -> None:
        """A member was heard of, in whatever protocol it speaks."""
        group.member(member_id)
        self.arm(group.group_id, member_id, now_ms)

    def leave(self, group: ShareGroup, leavers: tuple[Leaver, ...], now_ms: int, out: Outbox) -> Outcomes:
        """Take members out."""
        outcomes: list[GoQueueError | None] = []
        leaving: list[str] = []
        for leaver in leavers:
            try:
                group.member(leaver.member_id)
            except UnknownMember as refusal:
                outcomes.append(refusal)
            else:
                leaving.append(leaver.member_id)
                outcomes.append(None)
        if leaving:
            self._remove(group, leaving, now_ms, out)
        return tuple(outcomes)

    def members_ended(self, group: ShareGroup, ended: Iterable[str], now_ms: int, out: Outbox) -> None:
        """Members that were not heard of are out."""
        gone = [member_id for member_id in ended if member_id in group.members]
        if gone:
            self._remove(group, gone, now_ms, out)

    def arm_loaded(self, group: ShareGroup, now_ms: int) -> None:
        """Sessions of members that were found in the log begin now."""
        for member_id in group.members:
            if AlarmKey(Alarm.SESSION, group.group_id, member_id) not in self.alarms:
                self.arm(group.group_id, member_id, now_ms)

    def arm(self, group_id: str, member_id: str, now_ms: int) -> None:
        """The member has one session from now on."""
        self.alarms.set(AlarmKey(Alarm.SESSION, group_id, member_id), now_ms + self.config.session_timeout_ms)

    def _speaker(self, group: ShareGroup, command: ConsumerHeartbeat) -> MemberRecord:
        known = group.members.get(command.member_id)
        if command.member_epoch == JOIN_EPOCH:
            if known is None and len(group.members) >= self.config.members_max:
                raise GroupFull(
                    f"group {group.group_id!r} has {len(group.members)} members, as many as groups.members_max allows"
                )
            return known or _NOBODY
        if known is None:
            raise UnknownMember(f"{command.member_id!r} is not a member of group {group.group_id!r}")
        if command.member_epoch > group.epoch:
            raise FencedMemberEpoch(f"group {group.group_id!r} is at epoch {group.epoch}, not {command.member_epoch}")
        return known

    def _remove(self, group: ShareGroup, member_ids: Iterable[str], now_ms: int, out: Outbox) -> None:
        for member_id in dict.fromkeys(member_ids):
            out.write(ShareMemberKey(group.group_id, member_id), None)
            self.alarms.cancel(AlarmKey(Alarm.SESSION, group.group_id, member_id))
            out.depart(group.group_id, member_id)
        self._raise_epoch(group, now_ms, out)

    def _raise_epoch(self, group: ShareGroup, now_ms: int, out: Outbox) -> int:
        out.write(ShareGroupKey(group.group_id), ShareGroupRecord(group.epoch + 1, now_ms))
        group.topics_version = self.subscriptions.version
        return group.epoch + 1


def check_share_heartbeat(command: ConsumerHeartbeat) -> None:
    """Raise unless a heartbeat says what it must, whatever the group looks like."""
    if command.member_epoch < LEAVE_EPOCH:
        raise InvalidRequest(f"{command.member_epoch} is not a member epoch", field="member_epoch")
    if not command.member_id:
        raise InvalidRequest("member_id is empty: a member must have an id", field="member_id")
    if sum(map(len, command.topics or ())) > SUBSCRIPTION_CHARS_MAX:
        raise InvalidRequest(f"the subscribed topic names are longer than {SUBSCRIPTION_CHARS_MAX} characters in all")
    if command.member_epoch == JOIN_EPOCH and not command.topics and not command.regex:
        raise InvalidRequest("a member that joins must subscribe to topics", field="topics")


def without_instance(command: ConsumerHeartbeat) -> ConsumerHeartbeat:
    """Shared groups have no static members: there is nothing to keep for one that returns."""
    return msgspec.structs.replace(command, instance_id=None, owned=None)

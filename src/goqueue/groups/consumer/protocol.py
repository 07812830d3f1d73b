"""The new protocol (KIP-848): one heartbeat does everything, and the broker assigns.

Each change of members, subscriptions or topics raises the group's epoch and gives every
member a new target. Members walk to it one heartbeat at a time, revoking before anybody
else is assigned; what does not move is never interrupted. Who does not revoke in time is
out, and fenced by its epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import structs

from goqueue.config import GroupsConfig
from goqueue.errors import (
    GoQueueError,
    GroupError,
    GroupFull,
    UnknownMember,
    UnreleasedInstance,
)
from goqueue.groups.commands import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    CommitOffsets,
    ConsumerBeat,
    ConsumerHeartbeat,
    FetchOffsets,
    Leaver,
    Outcomes,
    RebalanceState,
)
from goqueue.groups.consumer.group import ConsumerGroup, Current, Draft, Member, MemberState
from goqueue.groups.consumer.heartbeats import check_epoch_can_go_on, check_epoch_is_current, described
from goqueue.groups.consumer.reconciliation import reconcile
from goqueue.groups.consumer.targets import Targets
from goqueue.groups.outbox import Alarm, AlarmKey, Alarms, Outbox
from goqueue.groups.records import MemberRecord
from goqueue.groups.settings.own_settings import Timing
from goqueue.groups.statistics import Reason, Rebalances
from goqueue.groups.subscription.topic_partitions import NO_PARTITIONS

_NOBODY = MemberRecord(None, None, "", "", 0, (), "", "")


@dataclass(frozen=True, slots=True)
class ConsumerProtocol:
    """Decides what becomes of a group of the new protocol."""

    config: GroupsConfig
    timing: Timing
    alarms: Alarms
    rebalances: Rebalances
    targets: Targets

    # --- requests ---------------------------------------------------------------------

    def heartbeat(self, group: ConsumerGroup, command: ConsumerHeartbeat, now_ms: int, out: Outbox) -> ConsumerBeat:
        """Join, stay or leave, and take the next step towards the target."""
        if command.member_epoch in {LEAVE_EPOCH, STATIC_LEAVE_EPOCH}:
            return self._leave(group, command, now_ms, out)
        known = group.members.get(command.member_id)
        if known is not None and self._is_quiet(group, known, command):
            self._arm(group.group_id, known, now_ms)
            return self._beat(group, known, known, command)
        draft = Draft(group)
        before = self._speaker(draft, command)
        subscription = described(before.subscription, command)
        self._raise_epoch(draft, before, subscription, now_ms)
        current = reconcile(
            before.current,
            target=draft.targets.get(before.member_id, NO_PARTITIONS),
            target_epoch=draft.epoch,
            owned=command.owned,
            is_free=lambda partition: draft.is_free(partition, before.member_id),
            exists=self.targets.exists,
        )
        member = Member(before.member_id, subscription, current)
        draft.members[member.member_id] = member
        self._finish(draft, now_ms, out)
        self._arm(group.group_id, member, now_ms)
        return self._beat(group, before, member, command)

    def leave(self, group: ConsumerGroup, leavers: tuple[Leaver, ...], now_ms: int, out: Outbox) -> Outcomes:
        """An administrator takes members out."""
        outcomes: list[GoQueueError | None] = []
        leaving: list[str] = []
        for leaver in leavers:
            try:
                member_id = leaver.member_id
                if leaver.instance_id is not None:
                    member_id = member_id or group.static.get(leaver.instance_id, "")
                    group.static_member(leaver.instance_id, member_id)
                leaving.append(group.member(member_id).member_id)
                outcomes.append(None)
            except GroupError as refusal:
                outcomes.append(refusal)
        if leaving:
            self._fence(group, leaving, {Reason.MEMBER_LEFT}, now_ms, out)
        return tuple(outcomes)

    def check_commit(self, group: ConsumerGroup, command: CommitOffsets) -> None:
        """Refuse a commit from anybody but a member at its current epoch."""
        if command.generation < 0 and not group.members:
            return
        check_epoch_is_current(group.member(command.member_id), command.generation)

    def check_fetch(self, group: ConsumerGroup, command: FetchOffsets) -> None:
        """A member reads offsets at its current epoch; who claims no membership may always read."""
        if command.member_id is None and command.member_epoch < 0:
            return
        check_epoch_is_current(group.member(command.member_id or ""), command.member_epoch)

    # --- deadlines --------------------------------------------------------------------

    def members_ended(self, group: ConsumerGroup, ended: Mapping[str, Reason], now_ms: int, out: Outbox) -> None:
        """Members that were not heard of, or kept what they were asked to give up: they are out."""
        gone = {member_id: reason for member_id, reason in ended.items() if member_id in group.members}
        if gone:
            self._fence(group, list(gone), set(gone.values()), now_ms, out)

    def arm_loaded(self, group: ConsumerGroup, now_ms: int) -> None:
        """Sessions and revocations of members that were found in the log begin now."""
        for member in group.members.values():
            if AlarmKey(Alarm.SESSION, group.group_id, member.member_id) not in self.alarms:
                self._arm(group.group_id, member, now_ms)

    # --- one heartbeat ----------------------------------------------------------------

    def _is_quiet(self, group: ConsumerGroup, member: Member, command: ConsumerHeartbeat) -> bool:
        """Whether there is nothing to do: by far the most heartbeats are like that."""
        return (
            group.is_settled(member)
            and command.member_epoch == member.current.epoch
            and group.topics_version == self.targets.version
            and described(member.subscription, command) == member.subscription
        )

    def _speaker(self, draft: Draft, command: ConsumerHeartbeat) -> Member:
        """The member as it was until now; a new one is in the draft only when it is complete."""
        group, instance_id = draft.group, command.instance_id
        known = draft.members.get(command.member_id)
        if command.member_epoch != JOIN_EPOCH:
            if instance_id is not None:
                known = group.static_member(instance_id, command.member_id)
            if known is None:
                raise UnknownMember(f"{command.member_id!r} is not a member of group {group.group_id!r}")
            if command.owned and command.member_epoch != known.current.epoch:
                # What it still calls its own of a deleted topic tells nothing about which answer it missed.
                command = structs.replace(command, owned=frozenset(filter(self.targets.exists, command.owned)))
            check_epoch_can_go_on(known, command)
            return known
        holder_id = group.static.get(instance_id) if instance_id is not None else None
        if holder_id is not None and holder_id != command.member_id:
            return self._take_over(draft, holder_id, command)
        if known is None and len(group.members) >= self.config.members_max:
            raise GroupFull(
                f"group {group.group_id!r} has {len(group.members)} members, as many as groups.members_max allows"
            )
        return known or Member(command.member_id, _NOBODY)

    def _take_over(self, draft: Draft, holder_id: str, command: ConsumerHeartbeat) -> Member:
        """A static member returns as another process: it gets what it had, under its new id."""
        holder = draft.members[holder_id]
        if holder.current.epoch != STATIC_LEAVE_EPOCH:
            raise UnreleasedInstance(f"static member {command.instance_id!r} is still {holder_id!r}")
        target = draft.targets.get(holder_id, NO_PARTITIONS)
        draft.remove(holder_id)
        member = Member(
            command.member_id,
            holder.subscription,
            structs.replace(holder.current, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH),
        )
        draft.members[member.member_id] = member
        draft.targets[member.member_id] = target
        return member

    def _raise_epoch(self, draft: Draft, before: Member, subscription: MemberRecord, now_ms: int) -> None:
        """A new epoch and new targets, if anything has changed that they depend on."""
        group = draft.group
        if subscription.regex != before.subscription.regex:
            self.targets.check_pattern(subscription.regex)
        reason = None
        if before.member_id not in draft.members:
            reason = Reason.MEMBER_JOINED
        elif (subscription.topics, subscription.regex) != (before.subscription.topics, before.subscription.regex):
            reason = Reason.SUBSCRIPTION_CHANGED
        draft.members[before.member_id] = structs.replace(before, subscription=subscription)
        if reason is None and group.topics_version != self.targets.version and self.targets.are_outdated(draft):
            reason = Reason.TOPICS_CHANGED
        if reason is not None:
            self.targets.renew(draft, {reason}, now_ms)
        group.topics_version = self.targets.version

    def _beat(self, group: ConsumerGroup, before: Member, member: Member, command: ConsumerHeartbeat) -> ConsumerBeat:
        current = member.current
        is_full = command.rebalance_timeout_ms is not None and command.owned is not None
        is_full = is_full and (command.topics is not None or command.regex is not None)
        changed = current.assigned != before.current.assigned
        # A member that owns what it should not has perhaps not heard of it.
        strays = command.owned is not None and not command.owned <= current.assigned
        told = command.member_epoch == JOIN_EPOCH or is_full or changed or strays
        return ConsumerBeat(
            member_id=member.member_id,
            member_epoch=current.epoch,
            heartbeat_interval_ms=self.timing.heartbeat_ms(group.group_id),
            assignment=current.assigned if told else None,
            state=_rebalance_state(current, changed=changed),
            revoking=current.revoking,
            revoke_before_ms=self.alarms.at_ms(AlarmKey(Alarm.REVOKE, group.group_id, member.member_id)),
        )

    # --- leaving ----------------------------------------------------------------------

    def _leave(self, group: ConsumerGroup, command: ConsumerHeartbeat, now_ms: int, out: Outbox) -> ConsumerBeat:
        if command.instance_id is None:
            member = group.member(command.member_id)
        else:
            member = group.static_member(command.instance_id, command.member_id)
        if command.member_epoch == STATIC_LEAVE_EPOCH:
            draft = Draft(group)
            current = Current(epoch=STATIC_LEAVE_EPOCH, assigned=member.current.assigned)
            draft.members[member.member_id] = structs.replace(member, current=current)
            self._finish(draft, now_ms, out)
            # It has one session to come back in.
            self._arm(group.group_id, draft.members[member.member_id], now_ms)
        else:
            self._fence(group, [member.member_id], {Reason.MEMBER_LEFT}, now_ms, out)
        return ConsumerBeat(command.member_id, command.member_epoch, self.timing.heartbeat_ms(group.group_id))

    def _fence(
        self, group: ConsumerGroup, member_ids: list[str], reasons: set[Reason], now_ms: int, out: Outbox
    ) -> None:
        draft = Draft(group)
        for member_id in member_ids:
            draft.remove(member_id)
        self.targets.renew(draft, reasons, now_ms)
        group.topics_version = self.targets.version
        self._finish(draft, now_ms, out)

    # --- alarms -----------------------------------------------------------------------

    def _arm(self, group_id: str, member: Member, now_ms: int) -> None:
        self.alarms.set(AlarmKey(Alarm.SESSION, group_id, member.member_id), now_ms + self.timing.session_ms(group_id))
        revoke = AlarmKey(Alarm.REVOKE, group_id, member.member_id)
        if member.current.state is not MemberState.UNREVOKED:
            self.alarms.cancel(revoke)
        elif revoke not in self.alarms:
            patience_ms = min(member.subscription.rebalance_timeout_ms, self.config.revocation_timeout_ms)
            self.alarms.set(revoke, now_ms + patience_ms)

    def _finish(self, draft: Draft, now_ms: int, out: Outbox) -> None:
        """Write the draft down, forget the alarms of whoever is out, and see whether all is settled."""
        group_id = draft.group.group_id
        draft.write(out, now_ms)
        for member_id in draft.group.members.keys() - draft.members.keys():
            self.alarms.cancel(AlarmKey(Alarm.SESSION, group_id, member_id))
            self.alarms.cancel(AlarmKey(Alarm.REVOKE, group_id, member_id))
            out.depart(group_id, member_id)
        if not draft.members:
            self.rebalances.abandon(group_id)
        elif self.rebalances.is_open(group_id) and draft.is_settled:
            self.rebalances.complete(group_id, now_ms)


def _rebalance_state(current: Current, *, changed: bool) -> RebalanceState:
    if current.state is MemberState.UNREVOKED:
        return RebalanceState.PENDING_REVOKE
    if current.state is MemberState.UNRELEASED:
        return RebalanceState.PENDING_ASSIGN
    return RebalanceState.COMPLETE if changed else RebalanceState.NONE

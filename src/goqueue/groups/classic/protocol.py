"""The classic protocol: members join, their leader assigns, all sync, and then it begins again.

    Empty -> PreparingRebalance -> CompletingRebalance -> Stable -> PreparingRebalance ...

A rebalance waits for the members' JoinGroups, then answers them all with a new generation;
the assignment that the leader hands in answers the SyncGroups. The generation is what
fences whoever missed it. Answers follow Kafka's GroupMetadataManager; KIP-345
(static members), KIP-394 (ids before membership) and KIP-814 (a static leader returns).
"""

from __future__ import annotations

from dataclasses import dataclass

from goqueue.config import GroupsConfig
from goqueue.errors import (
    FencedInstance,
    GoQueueError,
    GroupError,
    GroupFull,
    IllegalGeneration,
    InconsistentProtocol,
    InvalidRequest,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
)
from goqueue.groups.classic.client_metadata import EAGER_PROTOCOL_TYPE, subscribed_topics
from goqueue.groups.classic.coverage import covers_topics
from goqueue.groups.classic.generations import Generations, answer_join, answer_sync, joined
from goqueue.groups.classic.group import ClassicGroup, ClassicMember
from goqueue.groups.commands import CommitOffsets, Heartbeat, Joined, JoinGroup, Leaver, Outcomes, Synced
from goqueue.groups.commands import SyncGroup as Sync
from goqueue.groups.descriptions import GroupState
from goqueue.groups.outbox import Alarm, AlarmKey, Alarms, Outbox
from goqueue.groups.records import ClassicGroupKey
from goqueue.groups.statistics import Reason
from goqueue.groups.subscription.topic_partitions import TopicCatalog

# A newcomer sends no heartbeats while it waits for its first generation, and its
# connection may be gone: it is given this long. Kafka's number.
NEW_MEMBER_TIMEOUT_MS = 300_000

# What a client puts into its metadata is its own affair, but it must fit into one record.
MEMBER_BYTES_MAX = 1024 * 1024
GROUP_BYTES_MAX = 8 * 1024 * 1024

_SETTLED = frozenset({GroupState.STABLE, GroupState.COMPLETING_REBALANCE})


@dataclass(frozen=True, slots=True)
class ClassicProtocol:
    """Decides what becomes of a classic group. It has no state but the groups' own."""

    config: GroupsConfig
    alarms: Alarms
    generations: Generations
    catalog: TopicCatalog

    # --- requests ---------------------------------------------------------------------

    def join(self, group: ClassicGroup, ticket: int, command: JoinGroup, now_ms: int, out: Outbox) -> None:
        """Answer at once, or keep the ticket until the generation is formed."""
        if sum(len(metadata) for _, metadata in command.protocols) > MEMBER_BYTES_MAX:
            raise InvalidRequest(f"the member's metadata is longer than {MEMBER_BYTES_MAX} bytes", field="protocols")
        known_id = command.member_id or group.static.get(command.instance_id or "", "")
        if not self._has_room(group, known_id):
            raise GroupFull(
                f"group {group.group_id!r} has {len(group.members)} members, as many as groups.members_max allows"
            )
        if not group.supports(command.protocol_type, command.protocols):
            raise InconsistentProtocol(f"group {group.group_id!r} has no protocol in common with the member")
        if command.member_id:
            self._join_known(group, ticket, command, now_ms, out)
        elif command.instance_id is not None and command.instance_id in group.static:
            self._replace_static(group, ticket, command, now_ms, out)
        elif command.instance_id is None and command.id_required:
            group.pending.add(command.new_member_id)
            self.generations.arm_session(group, command.new_member_id, command.session_timeout_ms, now_ms)
            out.reply(ticket, MemberIdRequired(command.new_member_id))
        else:
            self._add(group, command.new_member_id, ticket, command, now_ms, out)

    def sync(self, group: ClassicGroup, ticket: int, command: Sync, now_ms: int, out: Outbox) -> None:
        """Answer with the assignment, now or when the leader has handed it in."""
        member = group.member(command.member_id, command.instance_id)
        _check_generation(group, command.generation)
        if (command.protocol_type or group.protocol_type) != group.protocol_type or (
            command.protocol or group.protocol
        ) != group.protocol:
            raise InconsistentProtocol(f"group {group.group_id!r} speaks {group.protocol_type}/{group.protocol}")
        if group.state not in _SETTLED:
            raise RebalanceInProgress("the group is forming a new generation")
        if command.member_id == group.leader:
            _check_size(group, command)
        self._synced(group, member)
        if group.state is GroupState.STABLE:
            out.reply(ticket, Synced(group.protocol_type, group.protocol, member.assignment))
            return
        self._await_sync(member, ticket, out)
        if command.member_id == group.leader:
            self.generations.complete(group, command.assignments, now_ms, out)

    def heartbeat(self, group: ClassicGroup, ticket: int, command: Heartbeat, now_ms: int, out: Outbox) -> None:
        """Keep the session alive, and tell the member when it must join again."""
        member = group.member(command.member_id, command.instance_id)
        _check_generation(group, command.generation)
        self.generations.arm_session(group, member.member_id, member.session_timeout_ms, now_ms)
        self._compare_topics(group, now_ms, out)
        rejoin = group.state is GroupState.PREPARING_REBALANCE
        out.reply(ticket, RebalanceInProgress("join again") if rejoin else None)

    def leave(self, group: ClassicGroup, leavers: tuple[Leaver, ...], now_ms: int, out: Outbox) -> Outcomes:
        """Take members out, then rebalance once for all of them."""
        outcomes: list[GoQueueError | None] = []
        members_before = len(group.members)
        for leaver in leavers:
            try:
                self._leave_one(group, leaver, out)
                outcomes.append(None)
            except GroupError as refusal:
                outcomes.append(refusal)
        if len(group.members) < members_before:
            self._after_removal(group, Reason.MEMBER_LEFT, now_ms, out)
        else:
            self.generations.form_if_all_joined(group, now_ms, out)
        return tuple(outcomes)

    def check_commit(self, group: ClassicGroup, command: CommitOffsets, now_ms: int) -> None:
        """Refuse a commit from anybody but a member of the current generation."""
        claims_membership = command.generation >= 0 or command.member_id or command.instance_id is not None
        if not claims_membership:
            if group.members:
                raise UnknownMember(f"group {group.group_id!r} has active members: only they may commit offsets")
            return
        if command.generation < 0 and not group.members:
            return
        member = group.member(command.member_id, command.instance_id)
        _check_generation(group, command.generation)
        if group.state is GroupState.COMPLETING_REBALANCE:
            raise RebalanceInProgress("the generation has no assignment yet")
        self.generations.arm_session(group, member.member_id, member.session_timeout_ms, now_ms)

    # --- deadlines --------------------------------------------------------------------

    def session_ended(self, group: ClassicGroup, member_id: str, now_ms: int, out: Outbox) -> None:
        """Nothing was heard of a member, or of a newcomer that was sent for its id."""
        if member_id in group.pending:
            group.pending.discard(member_id)
            self.generations.form_if_all_joined(group, now_ms, out)
            return
        member = group.members.get(member_id)
        # Whoever waits for our own answer cannot send heartbeats; the answer sets the alarm again.
        if member is None or (not member.is_new and (member.awaits_join or member.sync_ticket is not None)):
            return
        self.generations.remove(group, member, out)
        self._after_removal(group, Reason.MEMBER_EXPIRED, now_ms, out)

    def join_ended(self, group: ClassicGroup, now_ms: int, out: Outbox) -> None:
        """The time to join is over; the very first generation may wait for more members."""
        until_ms = group.initial_until_ms
        if group.joined_meanwhile and until_ms is not None and now_ms < until_ms:
            group.joined_meanwhile = False
            delay_ms = min(self.config.initial_rebalance_delay_ms, until_ms - now_ms)
            self.alarms.set(AlarmKey(Alarm.JOIN, group.group_id), now_ms + delay_ms)
            return
        self.generations.form(group, now_ms, out)

    def sync_ended(self, group: ClassicGroup, now_ms: int, out: Outbox) -> None:
        """Members that did not ask for their assignment in time are not in the group."""
        for member_id in list(group.unsynced):
            self.generations.remove(group, group.members[member_id], out)
        if group.state in _SETTLED:
            self.generations.begin(group, Reason.SYNC_TIMEOUT, now_ms, out)

    def arm_loaded(self, group: ClassicGroup, now_ms: int) -> None:
        """Sessions of members that were found in the log begin now."""
        for member in group.members.values():
            if AlarmKey(Alarm.SESSION, group.group_id, member.member_id) not in self.alarms:
                self.generations.arm_session(group, member.member_id, member.session_timeout_ms, now_ms)

    def _compare_topics(self, group: ClassicGroup, now_ms: int, out: Outbox) -> None:
        """Rebalance a group that is assigned on this side when its topics have changed; once per change."""
        if group.protocol_type != EAGER_PROTOCOL_TYPE or group.state is not GroupState.STABLE:
            return
        if group.topics_version != (version := self.catalog.version):
            group.topics_version = version
            if not covers_topics(group, self.catalog):
                self.generations.begin(group, Reason.TOPICS_CHANGED, now_ms, out)

    # --- joining ----------------------------------------------------------------------

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        if group.state is GroupState.PREPARING_REBALANCE:
            # Those who wait count, so that after the limit was lowered the last to come back stay out.
            member = group.members.get(member_id)
            waiting = sum(one.awaits_join for one in group.members.values())
            return (member is not None and member.awaits_join) or waiting < self.config.members_max
        expected = len(group.members) + len(group.pending - {member_id})
        return member_id in group.members or expected < self.config.members_max

    def _join_known(self, group: ClassicGroup, ticket: int, command: JoinGroup, now_ms: int, out: Outbox) -> None:
        if command.member_id in group.pending and command.instance_id is None:
            self._add(group, command.member_id, ticket, command, now_ms, out)
            return
        member = group.member(command.member_id, command.instance_id)
        unchanged = member.protocols == command.protocols
        leads = command.member_id == group.leader
        if group.state is GroupState.EMPTY:
            raise UnknownMember("the group is empty")
        if unchanged and (
            group.state is GroupState.COMPLETING_REBALANCE or (group.state is GroupState.STABLE and not leads)
        ):
            # It missed our answer: the generation stands, so it gets the same again.
            self.generations.arm_session(group, member.member_id, member.session_timeout_ms, now_ms)
            out.reply(ticket, joined(group, member))
            return
        # A leader that joins again has seen something its members have not: new partitions, say.
        self._update(member, ticket, command, out)
        reason = Reason.MEMBER_REJOINED if unchanged else Reason.SUBSCRIPTION_CHANGED
        self.generations.begin_or_form(group, reason, now_ms, out)

    def _add(
        self, group: ClassicGroup, member_id: str, ticket: int, command: JoinGroup, now_ms: int, out: Outbox
    ) -> None:
        member = ClassicMember(
            member_id,
            command.instance_id,
            command.client_id,
            command.client_host,
            command.session_timeout_ms,
            command.rebalance_timeout_ms,
            command.protocols,
            join_ticket=ticket,
            is_new=True,
        )
        group.add(member, command.protocol_type)
        group.joined_meanwhile = group.initial_until_ms is not None
        self.generations.arm_session(group, member_id, NEW_MEMBER_TIMEOUT_MS, now_ms)
        self.generations.begin_or_form(group, Reason.MEMBER_JOINED, now_ms, out)

    def _replace_static(self, group: ClassicGroup, ticket: int, command: JoinGroup, now_ms: int, out: Outbox) -> None:
        """A static member is back under a new id: it takes its place, and its assignment, at once."""
        instance_id = command.instance_id or ""
        old_id = group.static[instance_id]
        led_before = group.leader
        before = subscribed_topics(group.members[old_id].metadata(group.protocol))
        fenced = FencedInstance(f"static member {instance_id!r} is now {command.new_member_id!r}")
        answer_join(group.members[old_id], fenced, out)
        answer_sync(group.members[old_id], fenced, out)
        self.alarms.cancel(AlarmKey(Alarm.SESSION, group.group_id, old_id))
        member = group.rename(old_id, command.new_member_id)
        out.depart(group.group_id, old_id)
        self._update(member, ticket, command, out)
        self.generations.arm_session(group, member.member_id, member.session_timeout_ms, now_ms)
        if group.state is GroupState.COMPLETING_REBALANCE:
            # The leader may be assigning to the id that is no more.
            self.generations.begin(group, Reason.MEMBER_REJOINED, now_ms, out)
        elif group.state is GroupState.PREPARING_REBALANCE:
            self.generations.form_if_all_joined(group, now_ms, out)
        elif group.select_protocol() != group.protocol or subscribed_topics(member.metadata(group.protocol)) != before:
            self.generations.begin(group, Reason.SUBSCRIPTION_CHANGED, now_ms, out)
        else:
            out.write(ClassicGroupKey(group.group_id), group.record())
            leads = group.leader == member.member_id
            if command.can_skip_assignment:
                answer = joined(group, member, skip_assignment=leads)
            else:
                # An older client that hears it leads would assign anew: it is told of its former self.
                answer = Joined(
                    member.member_id, group.generation, group.protocol_type, group.protocol, led_before or ""
                )
            answer_join(member, answer, out)

    def _update(self, member: ClassicMember, ticket: int, command: JoinGroup, out: Outbox) -> None:
        answer_join(member, RebalanceInProgress("the member has asked again"), out)
        member.join_ticket = ticket
        member.protocols = command.protocols
        member.session_timeout_ms = command.session_timeout_ms
        member.rebalance_timeout_ms = command.rebalance_timeout_ms
        member.client_id = command.client_id
        member.client_host = command.client_host

    # --- leaving ----------------------------------------------------------------------

    def _leave_one(self, group: ClassicGroup, leaver: Leaver, out: Outbox) -> None:
        member_id = leaver.member_id
        if member_id in group.pending:
            group.pending.discard(member_id)
            self.alarms.cancel(AlarmKey(Alarm.SESSION, group.group_id, member_id))
            return
        if not member_id and leaver.instance_id is not None:
            member_id = group.static.get(leaver.instance_id, "")
        self.generations.remove(group, group.member(member_id, leaver.instance_id), out)

    def _after_removal(self, group: ClassicGroup, reason: Reason, now_ms: int, out: Outbox) -> None:
        if group.state in _SETTLED:
            self.generations.begin(group, reason, now_ms, out)
        else:
            self.generations.form_if_all_joined(group, now_ms, out)

    # --- syncing ----------------------------------------------------------------------

    def _await_sync(self, member: ClassicMember, ticket: int, out: Outbox) -> None:
        answer_sync(member, RebalanceInProgress("the member has asked again"), out)
        member.sync_ticket = ticket

    def _synced(self, group: ClassicGroup, member: ClassicMember) -> None:
        group.unsynced.discard(member.member_id)
        if not group.unsynced:
            self.alarms.cancel(AlarmKey(Alarm.SYNC, group.group_id))


def _check_size(group: ClassicGroup, command: Sync) -> None:
    metadata_bytes = sum(len(metadata) for one in group.members.values() for _, metadata in one.protocols)
    if metadata_bytes + sum(map(len, command.assignments.values())) > GROUP_BYTES_MAX:
        raise InvalidRequest(
            f"the assignments of the group are longer than {GROUP_BYTES_MAX} bytes", field="assignments"
        )


def _check_generation(group: ClassicGroup, generation: int) -> None:
    if generation != group.generation:
        raise IllegalGeneration(f"group {group.group_id!r} is in generation {group.generation}, not {generation}")

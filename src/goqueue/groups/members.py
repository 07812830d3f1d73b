"""What members ask of their group, led to the protocol that the group speaks.

A group that is empty may change its protocol; one with members keeps to it.
"""

from __future__ import annotations

from collections.abc import Mapping

from goqueue.config import GroupsConfig
from goqueue.errors import GroupNotFound, InconsistentProtocol, InvalidSessionTimeout, UnknownMember
from goqueue.groups.classic.group import ClassicGroup
from goqueue.groups.classic.protocol import ClassicProtocol
from goqueue.groups.commands import (
    JOIN_EPOCH,
    ConsumerBeat,
    ConsumerHeartbeat,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    SyncGroup,
)
from goqueue.groups.consumer.group import ConsumerGroup
from goqueue.groups.consumer.heartbeats import check_heartbeat
from goqueue.groups.consumer.protocol import ConsumerProtocol
from goqueue.groups.descriptions import GroupState
from goqueue.groups.group_entry import GroupEntry
from goqueue.groups.group_table import GroupTable
from goqueue.groups.outbox import Alarm, AlarmKey, Alarms, Outbox
from goqueue.groups.queue.requests import QueueRequests
from goqueue.groups.queue.share_group import ShareGroup
from goqueue.groups.queue.share_protocol import ShareProtocol, check_share_heartbeat, without_instance
from goqueue.groups.statistics import Reason


class Members:
    """The members of one shard's groups. It has no state but the table's own."""

    def __init__(
        self,
        config: GroupsConfig,
        table: GroupTable,
        queues: QueueRequests,
        alarms: Alarms,
        classic: ClassicProtocol,
        consumer: ConsumerProtocol,
        share: ShareProtocol,
    ) -> None:
        self._config = config
        self._table = table
        self._queues = queues
        self._alarms = alarms
        self._classic = classic
        self._consumer = consumer
        self._share = share

    # --- the classic protocol ---------------------------------------------------------

    def join(self, ticket: int, command: JoinGroup, now_ms: int, out: Outbox) -> None:
        """Become, or stay, a member of a classic group's next generation."""
        config = self._config
        if not config.session_timeout_ms_min <= command.session_timeout_ms <= config.session_timeout_ms_max:
            raise InvalidSessionTimeout(
                f"session timeout {command.session_timeout_ms} ms is not from {config.session_timeout_ms_min} to "
                f"{config.session_timeout_ms_max} ms",
                field="session_timeout_ms",
            )
        entry = self._table.of(command.group)
        if self._queues.enter(entry, command.as_queue, out, is_classic=True):
            raise InconsistentProtocol(
                f"the members of queue group {command.group!r} share partitions: the classic protocol cannot join it"
            )
        if entry.share is not None and not command.member_id:
            entry.write_group_tombstones(out)
        if entry.consumer is not None:
            if entry.consumer.members:
                raise InconsistentProtocol(f"group {command.group!r} uses the consumer protocol")
            if not command.member_id:
                entry.write_group_tombstones(out)
        if entry.classic is None:
            if command.member_id:
                raise UnknownMember(f"there is no group {command.group!r}")
            entry.classic = ClassicGroup(command.group)
        self._classic.join(entry.classic, ticket, command, now_ms, out)

    def sync(self, ticket: int, command: SyncGroup, now_ms: int, out: Outbox) -> None:
        """Hand in and fetch assignments of a classic generation."""
        self._classic.sync(self._table.classic(command.group), ticket, command, now_ms, out)

    def heartbeat(self, ticket: int, command: Heartbeat, now_ms: int, out: Outbox) -> None:
        """A member without epochs is still here."""
        entry = self._table.get(command.group)
        if entry is not None and entry.share is not None:
            self._share.stay(entry.share, command.member_id, now_ms)
            out.reply(ticket, None)
        else:
            self._classic.heartbeat(self._table.classic(command.group), ticket, command, now_ms, out)

    def leave(self, ticket: int, command: LeaveGroup, now_ms: int, out: Outbox) -> None:
        """Take members out of a group of any protocol."""
        entry = self._table.get(command.group)
        if entry is not None and entry.consumer is not None:
            out.reply(ticket, self._consumer.leave(entry.consumer, command.members, now_ms, out))
        elif entry is not None and entry.share is not None:
            out.reply(ticket, self._share.leave(entry.share, command.members, now_ms, out))
        else:
            group = self._table.classic(command.group)
            out.reply(ticket, self._classic.leave(group, command.members, now_ms, out))

    # --- the new protocol -------------------------------------------------------------

    def consumer_heartbeat(self, ticket: int, command: ConsumerHeartbeat, now_ms: int, out: Outbox) -> None:
        """Join, stay in or leave a group of the new protocol."""
        entry = self._table.of(command.group)
        is_shared = entry.share is not None and bool(entry.share.members)
        if command.member_epoch == JOIN_EPOCH:
            is_shared = self._queues.enter(entry, command.as_queue, out)
        if is_shared or command.is_share:
            out.reply(ticket, self._share_heartbeat(entry, command, now_ms, out))
            return
        check_heartbeat(command)
        if entry.consumer is not None:
            out.reply(ticket, self._consumer.heartbeat(entry.consumer, command, now_ms, out))
            return
        if command.member_epoch != JOIN_EPOCH or entry.state is not GroupState.EMPTY:
            raise GroupNotFound(command.group)
        # An empty group may change its protocol; should the heartbeat be refused, it has not.
        group = ConsumerGroup(command.group)
        entry.write_group_tombstones(out)
        beat = self._consumer.heartbeat(group, command, now_ms, out)
        if entry.classic is not None:
            for member_id in entry.classic.pending:
                self._alarms.cancel(AlarmKey(Alarm.SESSION, command.group, member_id))
        entry.classic, entry.consumer = None, group
        out.reply(ticket, beat)

    def _share_heartbeat(self, entry: GroupEntry, command: ConsumerHeartbeat, now_ms: int, out: Outbox) -> ConsumerBeat:
        check_share_heartbeat(command)
        if entry.share is None:
            if command.member_epoch != JOIN_EPOCH:
                raise UnknownMember(f"{command.member_id!r} is not a member of group {command.group!r}")
            # What is left of a time when partitions were not shared.
            entry.write_group_tombstones(out)
            entry.share = ShareGroup(command.group)
        return self._share.heartbeat(entry.share, without_instance(command), now_ms, out)

    # --- deadlines --------------------------------------------------------------------

    def arm_loaded(self, now_ms: int) -> None:
        """The log has been read: sessions of the members found in it begin."""
        for entry in self._table.values():
            if entry.classic is not None:
                self._classic.arm_loaded(entry.classic, now_ms)
            if entry.consumer is not None:
                self._consumer.arm_loaded(entry.consumer, now_ms)
            if entry.share is not None:
                self._share.arm_loaded(entry.share, now_ms)

    def sessions_ended(self, group_id: str, members: Mapping[str, Reason], now_ms: int, out: Outbox) -> None:
        """Members of a group of the new protocol were not heard of, or did not give up partitions in time."""
        entry = self._table[group_id]
        if entry.consumer is not None:
            self._consumer.members_ended(entry.consumer, members, now_ms, out)
        if entry.share is not None:
            self._share.members_ended(entry.share, members, now_ms, out)

    def ring(self, group: ClassicGroup, key: AlarmKey, now_ms: int, out: Outbox) -> None:
        """A deadline of a classic group has come."""
        match key.alarm:
            case Alarm.SESSION:
                self._classic.session_ended(group, key.member_id, now_ms, out)
            case Alarm.JOIN:
                self._classic.join_ended(group, now_ms, out)
            case Alarm.SYNC:
                self._classic.sync_ended(group, now_ms, out)

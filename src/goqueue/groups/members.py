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
from goqueue.groups.outbox import Alarm, AlarmKey, Alarms, Outbox
from goqueue.groups.queue.requests import QueueRequests
from goqueue.groups.queue.share_group import ShareGroup
from goqueue.groups.queue.share_protocol import ShareProtocol, check_share_heartbeat, without_instance
from goqueue.groups.slot import Slot
from goqueue.groups.slots import Slots
from goqueue.groups.statistics import Reason


class Members:
    """The members of one shard's groups. It has no state but the slots' own."""

    def __init__(
        self,
        config: GroupsConfig,
        slots: Slots,
        queues: QueueRequests,
        alarms: Alarms,
        classic: ClassicProtocol,
        consumer: ConsumerProtocol,
        share: ShareProtocol,
    ) -> None:
        self._config = config
        self._slots = slots
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
                f"a session lasts {config.session_timeout_ms_min} to {config.session_timeout_ms_max} ms",
                field="session_timeout_ms",
            )
        slot = self._slots.of(command.group)
        if self._queues.enter(slot, command.as_queue, out, is_classic=True):
            raise InconsistentProtocol(f"the members of group {command.group!r} share partitions: there are no turns")
        if slot.share is not None and not command.member_id:
            slot.write_group_tombstones(out)
        if slot.consumer is not None:
            if slot.consumer.members:
                raise InconsistentProtocol(f"group {command.group!r} speaks the consumer protocol")
            if not command.member_id:
                slot.write_group_tombstones(out)
        if slot.classic is None:
            if command.member_id:
                raise UnknownMember(f"there is no group {command.group!r}")
            slot.classic = ClassicGroup(command.group)
        self._classic.join(slot.classic, ticket, command, now_ms, out)

    def sync(self, ticket: int, command: SyncGroup, now_ms: int, out: Outbox) -> None:
        """Hand in and fetch assignments of a classic generation."""
        self._classic.sync(self._slots.classic(command.group), ticket, command, now_ms, out)

    def heartbeat(self, ticket: int, command: Heartbeat, now_ms: int, out: Outbox) -> None:
        """A member without epochs is still here."""
        slot = self._slots.get(command.group)
        if slot is not None and slot.share is not None:
            self._share.stay(slot.share, command.member_id, now_ms)
            out.reply(ticket, None)
        else:
            self._classic.heartbeat(self._slots.classic(command.group), ticket, command, now_ms, out)

    def leave(self, ticket: int, command: LeaveGroup, now_ms: int, out: Outbox) -> None:
        """Take members out of a group of any protocol."""
        slot = self._slots.get(command.group)
        if slot is not None and slot.consumer is not None:
            out.reply(ticket, self._consumer.leave(slot.consumer, command.members, now_ms, out))
        elif slot is not None and slot.share is not None:
            out.reply(ticket, self._share.leave(slot.share, command.members, now_ms, out))
        else:
            group = self._slots.classic(command.group)
            out.reply(ticket, self._classic.leave(group, command.members, now_ms, out))

    # --- the new protocol -------------------------------------------------------------

    def consumer_heartbeat(self, ticket: int, command: ConsumerHeartbeat, now_ms: int, out: Outbox) -> None:
        """Join, stay in or leave a group of the new protocol."""
        slot = self._slots.of(command.group)
        is_shared = slot.share is not None and bool(slot.share.members)
        if command.member_epoch == JOIN_EPOCH:
            is_shared = self._queues.enter(slot, command.as_queue, out)
        if is_shared or command.is_share:
            out.reply(ticket, self._share_heartbeat(slot, command, now_ms, out))
            return
        check_heartbeat(command)
        if slot.consumer is not None:
            out.reply(ticket, self._consumer.heartbeat(slot.consumer, command, now_ms, out))
            return
        if command.member_epoch != JOIN_EPOCH or slot.state is not GroupState.EMPTY:
            raise GroupNotFound(command.group)
        # An empty group may change its protocol; should the heartbeat be refused, it has not.
        group = ConsumerGroup(command.group)
        slot.write_group_tombstones(out)
        beat = self._consumer.heartbeat(group, command, now_ms, out)
        if slot.classic is not None:
            for member_id in slot.classic.pending:
                self._alarms.cancel(AlarmKey(Alarm.SESSION, command.group, member_id))
        slot.classic, slot.consumer = None, group
        out.reply(ticket, beat)

    def _share_heartbeat(self, slot: Slot, command: ConsumerHeartbeat, now_ms: int, out: Outbox) -> ConsumerBeat:
        check_share_heartbeat(command)
        if slot.share is None:
            if command.member_epoch != JOIN_EPOCH:
                raise UnknownMember(f"{command.member_id!r} is not a member of group {command.group!r}")
            # What is left of a time when partitions were not shared.
            slot.write_group_tombstones(out)
            slot.share = ShareGroup(command.group)
        return self._share.heartbeat(slot.share, without_instance(command), now_ms, out)

    # --- deadlines --------------------------------------------------------------------

    def arm_loaded(self, now_ms: int) -> None:
        """The log has been read: sessions of the members found in it begin."""
        for slot in self._slots.values():
            if slot.classic is not None:
                self._classic.arm_loaded(slot.classic, now_ms)
            if slot.consumer is not None:
                self._consumer.arm_loaded(slot.consumer, now_ms)
            if slot.share is not None:
                self._share.arm_loaded(slot.share, now_ms)

    def sessions_ended(self, group_id: str, members: Mapping[str, Reason], now_ms: int, out: Outbox) -> None:
        """Members of a group of the new protocol were not heard of, or did not give up partitions in time."""
        slot = self._slots[group_id]
        if slot.consumer is not None:
            self._consumer.members_ended(slot.consumer, members, now_ms, out)
        if slot.share is not None:
            self._share.members_ended(slot.share, members, now_ms, out)

    def ring(self, group: ClassicGroup, key: AlarmKey, now_ms: int, out: Outbox) -> None:
        """A deadline of a classic group has come."""
        match key.alarm:
            case Alarm.SESSION:
                self._classic.session_ended(group, key.member_id, now_ms, out)
            case Alarm.JOIN:
                self._classic.join_ended(group, now_ms, out)
            case Alarm.SYNC:
                self._classic.sync_ended(group, now_ms, out)

"""The group machine: one shard's groups. It looks a group up and lets its protocol decide.

`ClassicProtocol`, `ConsumerProtocol` and `OffsetTable` do the work. What is durable changes
only by `apply`; tickets, sessions and groups being formed are notes that a restart forgets:
members found in the log begin a new session when it has been read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import msgspec

from goqueue.config import GroupsConfig
from goqueue.coordinator.shard import Decision, Record, Transaction
from goqueue.errors import (
    GroupNotEmpty,
    GroupNotFound,
    InconsistentProtocol,
    InvalidSessionTimeout,
    InvalidTransactionState,
    UnknownMember,
    UnstableOffset,
)
from goqueue.groups.classic import ClassicProtocol
from goqueue.groups.classic_group import ClassicGroup
from goqueue.groups.commands import (
    JOIN_EPOCH,
    AlterQueue,
    AskMode,
    CheckTransaction,
    CommitInTransaction,
    CommitOffsets,
    ConsumerBeat,
    ConsumerHeartbeat,
    DeleteGroup,
    DeleteOffsets,
    DescribeGroup,
    FetchOffsets,
    FinishDeletion,
    GroupState,
    Heartbeat,
    IsQueue,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    SyncGroup,
    UseQueue,
)
from goqueue.groups.consumer import ConsumerProtocol
from goqueue.groups.consumer_group import ConsumerGroup
from goqueue.groups.deadlines import Deadlines
from goqueue.groups.generations import Generations
from goqueue.groups.heartbeats import check_heartbeat
from goqueue.groups.offsets import OFFSETS_CHECK_MS, Offsets
from goqueue.groups.outbox import Alarm, AlarmKey, Alarms, Departed, Outbox, ignore_departure
from goqueue.groups.partitions import TopicCatalog
from goqueue.groups.pending_offsets import PendingOffsets
from goqueue.groups.queue_settings import Mode
from goqueue.groups.queues import Queues
from goqueue.groups.records import KEYS, VALUES, OffsetKey
from goqueue.groups.share import ShareProtocol, check_share_heartbeat, without_instance
from goqueue.groups.share_group import ShareGroup
from goqueue.groups.slot import Slot
from goqueue.groups.slots import Slots
from goqueue.groups.statistics import Reason, Rebalances
from goqueue.groups.subscriptions import Subscriptions
from goqueue.groups.targets import Targets
from goqueue.records import TopicPartition

# Alarms that ring later than this were not heard because the node was not running, or because its
# clock was set: then it has not heard its members either, and their time is put off by as much.
LATE_MS_MAX = 1_000

_OFFSETS = AlarmKey(Alarm.OFFSETS)
_REASONS = {Alarm.SESSION: Reason.MEMBER_EXPIRED, Alarm.REVOKE: Reason.REVOCATION_TIMEOUT}
_snapshot_decoder = msgspec.msgpack.Decoder(list[tuple[bytes, bytes]])


def refuse_transactions(_transaction: Transaction, _shard: int) -> None:
    """The check of a node without transactions."""
    raise InvalidTransactionState("no transaction was begun for these offsets")


class GroupMachine:
    """A `coordinator.shard.Machine` for groups of both protocols and their offsets."""

    def __init__(
        self,
        config: GroupsConfig,
        catalog: TopicCatalog,
        rebalances: Rebalances,
        check_transaction: CheckTransaction = refuse_transactions,
        departed: Departed = ignore_departure,
    ) -> None:
        self._config = config
        self._departed = departed
        self._check_transaction = check_transaction
        self._pending = PendingOffsets()
        self._queues = Queues(self._pending)
        self._rebalances = rebalances
        self._slots = Slots()
        self._alarms: Alarms = Deadlines()
        self._subscriptions = subscriptions = Subscriptions(catalog)
        self._classic = ClassicProtocol(config, self._alarms, Generations(config, self._alarms, rebalances))
        self._consumer = ConsumerProtocol(config, self._alarms, rebalances, Targets(subscriptions, rebalances))
        self._share = ShareProtocol(config, self._alarms, subscriptions)
        self._offsets = Offsets(config, catalog, subscriptions, self._classic, self._consumer)
        self._is_loaded = False
        self._last_ms = 0

    # --- the machine ------------------------------------------------------------------

    def decide(self, ticket: int, command: Any, now_ms: int) -> Decision:
        """Answer a command, or keep its ticket until the group is ready to."""
        self._begin(now_ms)
        out = Outbox()
        group_id = getattr(command, "group", "")
        try:
            self._HANDLERS[type(command)](self, ticket, command, now_ms, out)
        finally:
            self._slots.tidy(group_id)
        if out.records:
            # What they bring is in no slot yet.
            self._arm_offsets(now_ms)
        self._report_departed(out)
        return out.decision()

    def tick(self, now_ms: int) -> Decision:
        """Do what is due."""
        self._begin(now_ms)
        out = Outbox()
        # A group of the new protocol changes only when its records are applied, which is after
        # this: whatever is due for it must be one step.
        ended: defaultdict[str, dict[str, Reason]] = defaultdict(dict)
        while (key := self._alarms.pop_due(now_ms)) is not None:
            slot = self._slots.get(key.group)
            if key == _OFFSETS:
                self._offsets.expire(self._slots.values(), now_ms, out)
            elif slot is not None and (slot.consumer is not None or slot.share is not None):
                ended[key.group][key.member_id] = _REASONS[key.alarm]
            elif slot is not None and slot.classic is not None:
                self._ring(slot.classic, key, now_ms, out)
                self._slots.tidy(key.group)
        for group_id, members in ended.items():
            slot = self._slots[group_id]
            if slot.consumer is not None:
                self._consumer.members_ended(slot.consumer, members, now_ms, out)
            if slot.share is not None:
                self._share.members_ended(slot.share, members, now_ms, out)
        if self._slots:
            self._arm_offsets(now_ms)
        self._report_departed(out)
        return out.decision()

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Take in one record."""
        decoded = KEYS.decode(key)
        slot = self._slots.of(decoded.group)
        slot.apply(decoded, None if value is None else VALUES.decode(value))
        if slot.is_bare:
            del self._slots[decoded.group]

    def hold(self, producer_id: int, records: Sequence[Record]) -> None:
        """Offsets of an open transaction are stored; they are applied when it is committed."""
        for key, _ in records:
            decoded = KEYS.decode(key)
            if isinstance(decoded, OffsetKey):
                self._pending.add(producer_id, decoded.group, TopicPartition(decoded.topic, decoded.partition))

    def release(self, producer_id: int) -> None:
        """The transaction has ended."""
        self._pending.end(producer_id)

    def wake_at_ms(self) -> int | None:
        """When `tick` must be called: at once if sessions of members from the log have not begun."""
        return self._alarms.next_ms() if self._is_loaded or not self._slots else 0

    def snapshot(self) -> bytes:
        """Every record that this state is made of, in the order of the keys."""
        out = Outbox()
        for slot in self._slots.values():
            slot.write_all(out)
        return msgspec.msgpack.encode(sorted(out.records))

    def restore(self, data: bytes) -> None:
        """Apply the records of a snapshot."""
        for key, value in _snapshot_decoder.decode(data):
            self.apply(key, value)

    # --- the classic protocol ---------------------------------------------------------

    def _join(self, ticket: int, command: JoinGroup, now_ms: int, out: Outbox) -> None:
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

    def _sync(self, ticket: int, command: SyncGroup, now_ms: int, out: Outbox) -> None:
        self._classic.sync(self._slots.classic(command.group), ticket, command, now_ms, out)

    def _heartbeat(self, ticket: int, command: Heartbeat, now_ms: int, out: Outbox) -> None:
        slot = self._slots.get(command.group)
        if slot is not None and slot.share is not None:
            self._share.stay(slot.share, command.member_id, now_ms)
            out.reply(ticket, None)
        else:
            self._classic.heartbeat(self._slots.classic(command.group), ticket, command, now_ms, out)

    def _leave(self, ticket: int, command: LeaveGroup, now_ms: int, out: Outbox) -> None:
        slot = self._slots.get(command.group)
        if slot is not None and slot.consumer is not None:
            out.reply(ticket, self._consumer.leave(slot.consumer, command.members, now_ms, out))
        elif slot is not None and slot.share is not None:
            out.reply(ticket, self._share.leave(slot.share, command.members, now_ms, out))
        else:
            group = self._slots.classic(command.group)
            out.reply(ticket, self._classic.leave(group, command.members, now_ms, out))

    # --- the new protocol -------------------------------------------------------------

    def _consumer_heartbeat(self, ticket: int, command: ConsumerHeartbeat, now_ms: int, out: Outbox) -> None:
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

    # --- offsets ----------------------------------------------------------------------

    def _commit(self, ticket: int, command: CommitOffsets, now_ms: int, out: Outbox) -> None:
        slot = self._slots.of(command.group)
        if slot.queue is not None:
            out.reply(ticket, self._queues.commit(slot, command))
        else:
            out.reply(ticket, self._offsets.commit(slot, command, now_ms, out))

    def _commit_in_transaction(self, ticket: int, command: CommitInTransaction, now_ms: int, out: Outbox) -> None:
        self._check_transaction(command.transaction, command.shard)
        slot, commit = self._slots.of(command.group), command.commit
        self._queues.check_stream(slot)
        # Producers of older clients do not say on which member's behalf they commit.
        claims_membership = commit.generation >= 0 or commit.member_id or commit.instance_id is not None
        outcomes = self._offsets.commit(slot, commit, now_ms, out, checked=not claims_membership)
        out.transaction = command.transaction
        out.reply(ticket, outcomes)

    def _fetch(self, ticket: int, command: FetchOffsets, _now_ms: int, out: Outbox) -> None:
        if command.require_stable and (pending := self._pending.of_group(command.group, command.partitions)):
            raise UnstableOffset(command.group, pending)
        slot = self._slots.of(command.group)
        is_queue = self._queues.mode(slot) is Mode.QUEUE
        out.reply(ticket, IsQueue.IT_IS if is_queue else self._offsets.fetch(slot, command))

    def _delete_offsets(self, ticket: int, command: DeleteOffsets, _now_ms: int, out: Outbox) -> None:
        slot = self._slots.existing(command.group)
        self._queues.check_stream(slot)
        out.reply(ticket, self._offsets.delete(slot, command, out))

    # --- administration ---------------------------------------------------------------

    def _list(self, ticket: int, _command: ListGroups, _now_ms: int, out: Outbox) -> None:
        out.reply(ticket, tuple(slot.listed() for slot in self._slots.values() if not slot.is_deleting))

    def _describe(self, ticket: int, command: DescribeGroup, _now_ms: int, out: Outbox) -> None:
        out.reply(ticket, self._slots.existing(command.group).description(self._subscriptions))

    def _delete(self, ticket: int, command: DeleteGroup, _now_ms: int, out: Outbox) -> None:
        slot = self._slots.get(command.group)
        if slot is None:
            raise GroupNotFound(command.group)
        if slot.state is not GroupState.EMPTY:
            raise GroupNotEmpty(f"group {command.group!r} has members")
        slot.offsets.delete_all(out)
        slot.write_group_tombstones(out)
        self._rebalances.forget(command.group)
        out.reply(ticket, None if slot.queue is None else self._queues.begin_deletion(slot, slot.queue, out))

    # --- queue groups -----------------------------------------------------------------

    def _use_queue(self, ticket: int, command: UseQueue, _now_ms: int, out: Outbox) -> None:
        out.reply(ticket, self._queues.use(self._slots.of(command.group), command.wish, out))

    def _alter_queue(self, ticket: int, command: AlterQueue, _now_ms: int, out: Outbox) -> None:
        out.reply(ticket, self._queues.alter(self._slots.existing(command.group), command, out))

    def _mode(self, ticket: int, command: AskMode, _now_ms: int, out: Outbox) -> None:
        out.reply(ticket, self._queues.mode(self._slots.of(command.group)))

    def _finish_deletion(self, ticket: int, command: FinishDeletion, _now_ms: int, out: Outbox) -> None:
        self._queues.finish_deletion(self._slots.of(command.group), out)
        out.reply(ticket, None)

    def _report_departed(self, out: Outbox) -> None:
        for group_id, member_id in out.departed:
            slot = self._slots.get(group_id)
            if slot is not None and slot.queue is not None:
                self._departed(group_id, member_id)

    # --- deadlines --------------------------------------------------------------------

    def _begin(self, now_ms: int) -> None:
        """Every step begins with this; the first one after the log has been read begins the sessions."""
        due_ms, slept_ms = self._alarms.next_ms(), now_ms - self._last_ms
        self._last_ms = now_ms
        if due_ms is not None and now_ms - due_ms > LATE_MS_MAX:
            self._alarms.shift(slept_ms)
        if self._is_loaded:
            return
        self._is_loaded = True
        for slot in self._slots.values():
            if slot.classic is not None:
                self._classic.arm_loaded(slot.classic, now_ms)
            if slot.consumer is not None:
                self._consumer.arm_loaded(slot.consumer, now_ms)
            if slot.share is not None:
                self._share.arm_loaded(slot.share, now_ms)
        if self._slots:
            self._arm_offsets(now_ms)

    def _arm_offsets(self, now_ms: int) -> None:
        if _OFFSETS not in self._alarms:
            self._alarms.set(_OFFSETS, now_ms + OFFSETS_CHECK_MS)

    def _ring(self, group: ClassicGroup, key: AlarmKey, now_ms: int, out: Outbox) -> None:
        match key.alarm:
            case Alarm.SESSION:
                self._classic.session_ended(group, key.member_id, now_ms, out)
            case Alarm.JOIN:
                self._classic.join_ended(group, now_ms, out)
            case Alarm.SYNC:
                self._classic.sync_ended(group, now_ms, out)

    _HANDLERS: ClassVar[Mapping[type, Callable[..., None]]] = MappingProxyType(
        {
            JoinGroup: _join,
            SyncGroup: _sync,
            Heartbeat: _heartbeat,
            LeaveGroup: _leave,
            ConsumerHeartbeat: _consumer_heartbeat,
            CommitOffsets: _commit,
            CommitInTransaction: _commit_in_transaction,
            FetchOffsets: _fetch,
            DeleteOffsets: _delete_offsets,
            ListGroups: _list,
            DescribeGroup: _describe,
            DeleteGroup: _delete,
            UseQueue: _use_queue,
            AlterQueue: _alter_queue,
            AskMode: _mode,
            FinishDeletion: _finish_deletion,
        }
    )

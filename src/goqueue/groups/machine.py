"""The group machine: one shard's groups. It looks a group up and lets others decide.

`Members` (for the protocols), `Offsets` and `QueueRequests` do the work. What is durable changes
only by `apply`; tickets, sessions and groups being formed are notes that a restart forgets:
members found in the log begin a new session when it has been read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from goqueue.config import GroupsConfig
from goqueue.coordinator.shard import Decision, Record, Transaction
from goqueue.errors import GroupNotEmpty, GroupNotFound, InvalidTransactionState, UnstableOffset
from goqueue.groups.classic.generations import Generations
from goqueue.groups.classic.protocol import ClassicProtocol
from goqueue.groups.commands import (
    AlterQueue,
    AlterSettings,
    AskMode,
    AskSettings,
    CheckTransaction,
    CommitInTransaction,
    CommitOffsets,
    ConsumerHeartbeat,
    DeleteGroup,
    DeleteOffsets,
    DescribeGroup,
    DropSettings,
    FetchOffsets,
    FinishDeletion,
    Heartbeat,
    IsQueue,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    ListSettings,
    OffsetToCommit,
    Outcomes,
    SyncGroup,
    UseQueue,
)
from goqueue.groups.consumer.protocol import ConsumerProtocol
from goqueue.groups.consumer.targets import Targets
from goqueue.groups.deadlines import Deadlines
from goqueue.groups.descriptions import GroupState
from goqueue.groups.group_entry import GroupEntry
from goqueue.groups.group_table import GroupTable
from goqueue.groups.members import Members
from goqueue.groups.offsets.pending_offsets import PendingOffsets
from goqueue.groups.offsets.requests import OFFSETS_CHECK_MS, Offsets
from goqueue.groups.outbox import Alarm, AlarmKey, Alarms, Departed, Outbox, ignore_departure
from goqueue.groups.queue.requests import QueueRequests
from goqueue.groups.queue.settings import Mode
from goqueue.groups.queue.share_protocol import ShareProtocol
from goqueue.groups.records import KEYS, VALUES, OffsetKey, SettingsKey
from goqueue.groups.settings.own_settings import NO_SETTINGS, Timing, altered_settings
from goqueue.groups.settings.stored_settings import NOTHING_SET
from goqueue.groups.statistics import Reason, Rebalances
from goqueue.groups.subscription.subscriptions import Subscriptions
from goqueue.groups.subscription.topic_partitions import TopicCatalog
from goqueue.metadata.events import GroupSettings
from goqueue.records import TopicPartition

# Alarms that ring later than this were not heard because the node was not running, or because its
# clock was set: then it has not heard its members either, and their time is put off by as much.
LATE_MS_MAX = 1_000

_OFFSETS = AlarmKey(Alarm.OFFSETS)
_REASONS = {Alarm.SESSION: Reason.MEMBER_EXPIRED, Alarm.REVOKE: Reason.REVOCATION_TIMEOUT}
_snapshot_decoder = msgspec.msgpack.Decoder(list[tuple[bytes, bytes]])


# Told that a group's offset moves, as it is decided: group, member, the offset, and where it was. It must not raise.
OnMoved = Callable[[str, str, OffsetToCommit, int], None]
Move = tuple[str, str, OffsetToCommit, int]


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
        on_moved: OnMoved | None = None,
        new_incarnation: Callable[[], int] = lambda: 0,
        stored_settings: Callable[[str], GroupSettings | None] = lambda _group: None,
    ) -> None:
        self._on_moved = on_moved
        # By producer, the offsets that its open transaction moves if it is committed.
        self._moves: dict[int, list[Move]] = {}
        self._config = config
        self._departed = departed
        self._check_transaction = check_transaction
        self._pending = PendingOffsets()
        self._queues = QueueRequests(self._pending, new_incarnation)
        self._rebalances = rebalances
        self._table = GroupTable()
        self._alarms: Alarms = Deadlines()
        self._subscriptions = subscriptions = Subscriptions(catalog)
        classic = ClassicProtocol(config, self._alarms, Generations(config, self._alarms, rebalances), catalog)
        timing = Timing(config, self._table, stored_settings)
        consumer = ConsumerProtocol(config, timing, self._alarms, rebalances, Targets(subscriptions, rebalances))
        share = ShareProtocol(config, self._alarms, subscriptions)
        self._members = members = Members(config, self._table, self._queues, self._alarms, classic, consumer, share)
        self._offsets = Offsets(config, catalog, subscriptions, classic, consumer)
        self._is_loaded = False
        self._last_ms = 0
        self._handlers: Mapping[type, Callable[..., None]] = {
            JoinGroup: members.join,
            SyncGroup: members.sync,
            Heartbeat: members.heartbeat,
            LeaveGroup: members.leave,
            ConsumerHeartbeat: members.consumer_heartbeat,
            CommitOffsets: self._commit,
            CommitInTransaction: self._commit_in_transaction,
            FetchOffsets: self._fetch,
            DeleteOffsets: self._delete_offsets,
            ListGroups: self._list,
            DescribeGroup: self._describe,
            DeleteGroup: self._delete,
            UseQueue: self._use_queue,
            AlterQueue: self._alter_queue,
            AlterSettings: self._alter_settings,
            AskSettings: self._settings,
            ListSettings: self._list_settings,
            DropSettings: self._drop_settings,
            AskMode: self._mode,
            FinishDeletion: self._finish_deletion,
        }

    # --- the machine ------------------------------------------------------------------

    def decide(self, ticket: int, command: Any, now_ms: int) -> Decision:
        """Answer a command, or keep its ticket until the group is ready to."""
        self._begin(now_ms)
        out = Outbox()
        group_id = getattr(command, "group", "")
        try:
            self._handlers[type(command)](ticket, command, now_ms, out)
        finally:
            self._table.tidy(group_id)
        if out.records:
            # What they bring is in no entry yet.
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
            entry = self._table.get(key.group)
            if key == _OFFSETS:
                self._offsets.expire(self._table.values(), now_ms, out)
            elif entry is not None and (entry.consumer is not None or entry.share is not None):
                ended[key.group][key.member_id] = _REASONS[key.alarm]
            elif entry is not None and entry.classic is not None:
                self._members.ring(entry.classic, key, now_ms, out)
                self._table.tidy(key.group)
        for group_id, members in ended.items():
            self._members.sessions_ended(group_id, members, now_ms, out)
        if self._table:
            self._arm_offsets(now_ms)
        self._report_departed(out)
        return out.decision()

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Take in one record."""
        decoded = KEYS.decode(key)
        entry = self._table.of(decoded.group)
        entry.apply(decoded, None if value is None else VALUES.decode(value))
        if entry.is_blank:
            del self._table[decoded.group]

    def hold(self, producer_id: int, records: Sequence[Record]) -> None:
        """Offsets of an open transaction are stored; they are applied when it is committed."""
        for key, _ in records:
            decoded = KEYS.decode(key)
            if isinstance(decoded, OffsetKey):
                self._pending.add(producer_id, decoded.group, TopicPartition(decoded.topic, decoded.partition))

    def release(self, producer_id: int) -> None:
        """The transaction has ended."""
        self._pending.end(producer_id)
        for move in self._moves.pop(producer_id, ()):
            group, _, offset, before = move
            # It was committed if the offset is the one that it brought.
            entry = self._table.get(group)
            # Of a group that only an aborted transaction knew nothing is kept.
            is_moved = entry is not None and entry.offsets.offset_of(offset) == offset.offset != before
            if self._on_moved is not None and is_moved:
                self._on_moved(*move)

    def wake_at_ms(self) -> int | None:
        """When `tick` must be called: at once if sessions of members from the log have not begun."""
        return self._alarms.next_ms() if self._is_loaded or not self._table else 0

    def snapshot(self) -> bytes:
        """Every record that this state is made of, in the order of the keys."""
        out = Outbox()
        for entry in self._table.values():
            entry.write_all(out)
        return msgspec.msgpack.encode(sorted(out.records))

    def restore(self, data: bytes) -> None:
        """Apply the records of a snapshot."""
        for key, value in _snapshot_decoder.decode(data):
            self.apply(key, value)

    # --- offsets ----------------------------------------------------------------------

    def _commit(self, ticket: int, command: CommitOffsets, now_ms: int, out: Outbox) -> None:
        entry = self._table.of(command.group)
        if entry.queue is not None:
            out.reply(ticket, self._queues.commit(entry, command))
        else:
            outcomes = self._offsets.commit(entry, command, now_ms, out)
            if self._on_moved is not None:
                for move in _moves(entry, command, outcomes):
                    self._on_moved(*move)
            out.reply(ticket, outcomes)

    def _commit_in_transaction(self, ticket: int, command: CommitInTransaction, now_ms: int, out: Outbox) -> None:
        self._check_transaction(command.transaction, command.shard)
        entry, commit = self._table.of(command.group), command.commit
        self._queues.check_stream(entry)
        # Producers of older clients do not say on which member's behalf they commit.
        claims_membership = commit.generation >= 0 or commit.member_id or commit.instance_id is not None
        outcomes = self._offsets.commit(entry, commit, now_ms, out, checked=not claims_membership)
        if self._on_moved is not None:
            self._moves.setdefault(command.transaction.producer_id, []).extend(_moves(entry, commit, outcomes))
        out.transaction = command.transaction
        out.reply(ticket, outcomes)

    def _fetch(self, ticket: int, command: FetchOffsets, _now_ms: int, out: Outbox) -> None:
        if command.require_stable and (pending := self._pending.of_group(command.group, command.partitions)):
            raise UnstableOffset(command.group, pending)
        entry = self._table.of(command.group)
        is_queue = self._queues.mode(entry) is Mode.QUEUE
        out.reply(ticket, IsQueue.IT_IS if is_queue else self._offsets.fetch(entry, command))

    def _delete_offsets(self, ticket: int, command: DeleteOffsets, _now_ms: int, out: Outbox) -> None:
        entry = self._table.existing(command.group)
        self._queues.check_stream(entry)
        out.reply(ticket, self._offsets.delete(entry, command, out))

    # --- administration ---------------------------------------------------------------

    def _list(self, ticket: int, _command: ListGroups, _now_ms: int, out: Outbox) -> None:
        out.reply(ticket, tuple(entry.listed() for entry in self._table.values() if _is_listed(entry)))

    def _describe(self, ticket: int, command: DescribeGroup, _now_ms: int, out: Outbox) -> None:
        out.reply(ticket, self._table.existing(command.group).description(self._subscriptions))

    def _delete(self, ticket: int, command: DeleteGroup, _now_ms: int, out: Outbox) -> None:
        entry = self._table.get(command.group)
        if entry is None or entry.is_bare:
            raise GroupNotFound(command.group)
        if entry.state is not GroupState.EMPTY:
            raise GroupNotEmpty(f"group {command.group!r} has members")
        entry.offsets.delete_all(out)
        entry.write_group_tombstones(out)
        if entry.settings is not None:
            out.write(SettingsKey(command.group), None)
        self._rebalances.forget(command.group)
        out.reply(ticket, None if entry.queue is None else self._queues.begin_deletion(entry, entry.queue, out))

    def _alter_settings(self, ticket: int, command: AlterSettings, _now_ms: int, out: Outbox) -> None:
        before = self._table.of(command.group).settings
        after = altered_settings(self._config, before, command.changes)
        if not command.validate_only and after != (before or NO_SETTINGS):
            out.write(SettingsKey(command.group), None if after == NO_SETTINGS else after)
        out.reply(ticket, after)

    def _settings(self, ticket: int, command: AskSettings, _now_ms: int, out: Outbox) -> None:
        out.reply(ticket, self._table.of(command.group).former_settings())

    def _list_settings(self, ticket: int, _command: ListSettings, _now_ms: int, out: Outbox) -> None:
        out.reply(ticket, tuple(self.former_settings().items()))

    def _drop_settings(self, ticket: int, command: DropSettings, _now_ms: int, out: Outbox) -> None:
        entry = self._table.of(command.group)
        was_there = entry.former_settings() != NOTHING_SET
        entry.drop_settings(out)
        out.reply(ticket, was_there)

    def former_settings(self) -> dict[str, GroupSettings]:
        """The groups whose settings the log has: those of before settings were metadata."""
        found = {entry.group_id: entry.former_settings() for entry in self._table.values()}
        return {group: settings for group, settings in found.items() if settings != NOTHING_SET}

    # --- queue groups -----------------------------------------------------------------

    def _use_queue(self, ticket: int, command: UseQueue, _now_ms: int, out: Outbox) -> None:
        out.reply(ticket, self._queues.use(self._table.of(command.group), command.wish, out))

    def _alter_queue(self, ticket: int, command: AlterQueue, _now_ms: int, out: Outbox) -> None:
        out.reply(ticket, self._queues.alter(self._table.existing(command.group), command, out))

    def _mode(self, ticket: int, command: AskMode, _now_ms: int, out: Outbox) -> None:
        out.reply(ticket, self._queues.mode(self._table.of(command.group)))

    def _finish_deletion(self, ticket: int, command: FinishDeletion, _now_ms: int, out: Outbox) -> None:
        self._queues.finish_deletion(self._table.of(command.group), out)
        out.reply(ticket, None)

    def _report_departed(self, out: Outbox) -> None:
        for group_id, member_id in out.departed:
            entry = self._table.get(group_id)
            if entry is not None and entry.queue is not None:
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
        self._members.arm_loaded(now_ms)
        if self._table:
            self._arm_offsets(now_ms)

    def _arm_offsets(self, now_ms: int) -> None:
        if _OFFSETS not in self._alarms:
            self._alarms.set(_OFFSETS, now_ms + OFFSETS_CHECK_MS)


def _moves(entry: GroupEntry, command: CommitOffsets, outcomes: Outcomes) -> list[Move]:
    """The offsets of a commit that are taken, each with the one that it replaces."""
    return [
        (command.group, command.member_id, one, entry.offsets.offset_of(one))
        for one, refusal in zip(command.offsets, outcomes, strict=True)
        if refusal is None
    ]


def _is_listed(entry: GroupEntry) -> bool:
    return not (entry.is_bare or entry.is_deleting)

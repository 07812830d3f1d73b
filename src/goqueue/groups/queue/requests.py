"""Requests about queue groups: who may use a group how, and what ends one.

Every first use of a group passes `enter`, so two that contradict each other are decided in the
order in which they came.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from goqueue.errors import GroupBeingDeleted, GroupModeMismatch, GroupModeRefusesJoin
from goqueue.groups.commands import AlterQueue, CommitOffsets, IsQueue
from goqueue.groups.descriptions import GroupState
from goqueue.groups.group_entry import GroupEntry
from goqueue.groups.offsets.pending_offsets import PendingOffsets
from goqueue.groups.outbox import Outbox
from goqueue.groups.queue.settings import AsQueue, Mode, QueueSettings, Sharing, altered, settings_of, settled
from goqueue.groups.records import QueueKey, QueueRecord


@dataclass(frozen=True, slots=True)
class QueueRequests:
    """Keeps streams and queues apart. It has no state but the table's own."""

    pending: PendingOffsets
    # Draws the id that tells a group from an earlier one of its name.
    new_incarnation: Callable[[], int]

    def enter(self, entry: GroupEntry, wish: AsQueue | None, out: Outbox, *, is_classic: bool = False) -> bool:
        """A member comes in: as a queue's, settling what the wish leaves open, or as a stream's (None).

        Returns whether the group's members share partitions.
        """
        if wish is None:
            self.check_stream(entry, is_classic=is_classic)
            return False
        sharing = wish.sharing
        if sharing is None and not (entry.queue is not None and entry.queue.sharing):
            sharing = Sharing.EXCLUSIVE
        settled_now = self._use(entry, AsQueue(sharing, wish.key_ordered), out, is_classic=is_classic)
        return settled_now.sharing == Sharing.SHARED

    def use(self, entry: GroupEntry, wish: AsQueue, out: Outbox) -> QueueSettings:
        """Somebody receives from the group, or means to."""
        return settings_of(self._use(entry, wish, out))

    def alter(self, entry: GroupEntry, command: AlterQueue, out: Outbox) -> QueueSettings:
        """Change what may be changed."""
        before = self._queue(entry)
        after = altered(entry.group_id, before, command.changes, is_empty=entry.state is GroupState.EMPTY)
        return settings_of(self._store(entry, after, out))

    def mode(self, entry: GroupEntry) -> Mode | None:
        """How the group is read. Offsets that an open transaction may bring make it a stream."""
        if entry.is_deleting:
            return None
        if entry.mode is None and self.pending.of_group(entry.group_id, None):
            return Mode.STREAM
        return entry.mode

    def check_stream(self, entry: GroupEntry, *, is_classic: bool = False) -> None:
        """Raise if this is a queue group."""
        _check_not_deleting(entry)
        if entry.queue is not None:
            raise _mismatch(entry.group_id, Mode.QUEUE, is_classic=is_classic)

    def commit(self, entry: GroupEntry, command: CommitOffsets) -> IsQueue:
        """Offsets of a queue are where delivery stands: while nobody is in the group they can be moved."""
        _check_not_deleting(entry)
        claims_membership = command.generation >= 0 or command.member_id or command.instance_id is not None
        if claims_membership or entry.state is not GroupState.EMPTY:
            mismatch = GroupModeMismatch(
                entry.group_id,
                Mode.QUEUE,
                f"group {entry.group_id!r} is a queue group: messages are acknowledged by receipt, and there are "
                "no offsets to commit",
            )
            mismatch.hint = 'acknowledge the receipts, or join another group with "mode": "stream" to commit offsets'
            raise mismatch
        return IsQueue.IT_IS

    def begin_deletion(self, entry: GroupEntry, queue: QueueRecord, out: Outbox) -> IsQueue:
        """From now on nobody may use the group."""
        if not queue.is_deleting:
            self._store(entry, msgspec.structs.replace(queue, is_deleting=True), out)
        return IsQueue.IT_IS

    def finish_deletion(self, entry: GroupEntry, out: Outbox) -> None:
        """Nothing is left of what was delivered: the id is free."""
        if entry.is_deleting:
            out.write(QueueKey(entry.group_id), None)

    def _use(self, entry: GroupEntry, wish: AsQueue, out: Outbox, *, is_classic: bool = False) -> QueueRecord:
        _check_not_deleting(entry)
        if self.mode(entry) is Mode.STREAM:
            raise _mismatch(entry.group_id, Mode.STREAM, is_classic=is_classic)
        return self._store(entry, settled(entry.group_id, entry.queue, wish, self.new_incarnation), out)

    def _queue(self, entry: GroupEntry) -> QueueRecord:
        _check_not_deleting(entry)
        if entry.queue is None:
            raise _mismatch(entry.group_id, Mode.STREAM)
        return entry.queue

    def _store(self, entry: GroupEntry, record: QueueRecord, out: Outbox) -> QueueRecord:
        if record is not entry.queue:
            out.write(QueueKey(entry.group_id), record)
        return record


def _check_not_deleting(entry: GroupEntry) -> None:
    if entry.is_deleting:
        raise GroupBeingDeleted(entry.group_id)


def _mismatch(group: str, mode: Mode, *, is_classic: bool = False) -> GroupModeMismatch:
    return (GroupModeRefusesJoin if is_classic else GroupModeMismatch)(group, mode)

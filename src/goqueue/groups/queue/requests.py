"""Requests about queue groups: who may use a group how, and what ends one.

Every first use of a group passes `enter`, so two that contradict each other are decided in the
order in which they came.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from goqueue.errors import GroupBeingDeleted, GroupModeMismatch, GroupModeRefusesJoin
from goqueue.groups.commands import AlterQueue, CommitOffsets, IsQueue
from goqueue.groups.descriptions import GroupState
from goqueue.groups.offsets.pending_offsets import PendingOffsets
from goqueue.groups.outbox import Outbox
from goqueue.groups.queue.settings import AsQueue, Mode, QueueSettings, Sharing, altered, settings_of, settled
from goqueue.groups.records import QueueKey, QueueRecord
from goqueue.groups.slot import Slot


@dataclass(frozen=True, slots=True)
class QueueRequests:
    """Keeps streams and queues apart. It has no state but the slots' own."""

    pending: PendingOffsets

    def enter(self, slot: Slot, wish: AsQueue | None, out: Outbox, *, is_classic: bool = False) -> bool:
        """A member comes in: as a queue's, settling what the wish leaves open, or as a stream's (None).

        Returns whether the group's members share partitions.
        """
        if wish is None:
            self.check_stream(slot, is_classic=is_classic)
            return False
        sharing = wish.sharing
        if sharing is None and not (slot.queue is not None and slot.queue.sharing):
            sharing = Sharing.EXCLUSIVE
        settled_now = self._use(slot, AsQueue(sharing, wish.key_ordered), out, is_classic=is_classic)
        return settled_now.sharing == Sharing.SHARED

    def use(self, slot: Slot, wish: AsQueue, out: Outbox) -> QueueSettings:
        """Somebody receives from the group, or means to."""
        return settings_of(self._use(slot, wish, out))

    def alter(self, slot: Slot, command: AlterQueue, out: Outbox) -> QueueSettings:
        """Change what may be changed."""
        before = self._queue(slot)
        after = altered(slot.group_id, before, command.changes, is_empty=slot.state is GroupState.EMPTY)
        return settings_of(self._store(slot, after, out))

    def mode(self, slot: Slot) -> Mode | None:
        """How the group is read. Offsets that an open transaction may bring make it a stream."""
        if slot.is_deleting:
            return None
        if slot.mode is None and self.pending.of_group(slot.group_id, None):
            return Mode.STREAM
        return slot.mode

    def check_stream(self, slot: Slot, *, is_classic: bool = False) -> None:
        """Raise if this is a queue group."""
        _check_not_deleting(slot)
        if slot.queue is not None:
            raise _mismatch(slot.group_id, Mode.QUEUE, is_classic=is_classic)

    def commit(self, slot: Slot, command: CommitOffsets) -> IsQueue:
        """Offsets of a queue are where delivery stands: while nobody is in the group they can be moved."""
        _check_not_deleting(slot)
        claims_membership = command.generation >= 0 or command.member_id or command.instance_id is not None
        if claims_membership or slot.state is not GroupState.EMPTY:
            mismatch = GroupModeMismatch(
                slot.group_id,
                Mode.QUEUE,
                f"group {slot.group_id!r} is a queue group: messages are acknowledged by receipt, and there are "
                "no offsets to commit",
            )
            mismatch.hint = 'acknowledge the receipts, or join another group with "mode": "stream" to commit offsets'
            raise mismatch
        return IsQueue.IT_IS

    def begin_deletion(self, slot: Slot, queue: QueueRecord, out: Outbox) -> IsQueue:
        """From now on nobody may use the group."""
        if not queue.is_deleting:
            self._store(slot, msgspec.structs.replace(queue, is_deleting=True), out)
        return IsQueue.IT_IS

    def finish_deletion(self, slot: Slot, out: Outbox) -> None:
        """Nothing is left of what was delivered: the id is free."""
        if slot.is_deleting:
            out.write(QueueKey(slot.group_id), None)

    def _use(self, slot: Slot, wish: AsQueue, out: Outbox, *, is_classic: bool = False) -> QueueRecord:
        _check_not_deleting(slot)
        if self.mode(slot) is Mode.STREAM:
            raise _mismatch(slot.group_id, Mode.STREAM, is_classic=is_classic)
        return self._store(slot, settled(slot.group_id, slot.queue, wish), out)

    def _queue(self, slot: Slot) -> QueueRecord:
        _check_not_deleting(slot)
        if slot.queue is None:
            raise _mismatch(slot.group_id, Mode.STREAM)
        return slot.queue

    def _store(self, slot: Slot, record: QueueRecord, out: Outbox) -> QueueRecord:
        if record is not slot.queue:
            out.write(QueueKey(slot.group_id), record)
        return record


def _check_not_deleting(slot: Slot) -> None:
    if slot.is_deleting:
        raise GroupBeingDeleted(slot.group_id)


def _mismatch(group: str, mode: Mode, *, is_classic: bool = False) -> GroupModeMismatch:
    return (GroupModeRefusesJoin if is_classic else GroupModeMismatch)(group, mode)

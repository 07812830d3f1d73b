"""One shard: a state machine, the log it lives in, and the replies that wait for that log.

decide -> append -> apply at once -> hold the reply. A reply is held until everything that was
written before it was given is as safe as its decision asks: it may rest on any of that. Nothing here
waits; whoever owns the shard says how far the log is replicated and synced, and gets the replies that
this sets free.
An exception out of `submit`, `tick` or `end_transaction` means that memory and log may no longer
agree: the shard must be dropped and replayed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from goqueue.broker.replicas.safety import Safety
from goqueue.errors import GoQueueError

# A null value deletes what the key stands for.
Record = tuple[bytes, bytes | None]
# What a ticket's owner gets: a value, or an error to raise.
Reply = tuple[int, object]
# Replies, and the end of the log that they wait for.
_Waiting = tuple[int, Sequence[Reply]]


class Transaction(msgspec.Struct, frozen=True):
    """Whose transaction decides whether records count."""

    producer_id: int
    producer_epoch: int


class Decision(msgspec.Struct, frozen=True):
    """What a command leads to: records to store as one batch, and replies to tickets, old or new.

    Records of a `transaction` are applied when its commit marker comes, if it comes. Replies are given
    once the records are as safe as `safety` says.
    """

    records: Sequence[Record] = ()
    replies: Sequence[Reply] = ()
    transaction: Transaction | None = None
    safety: Safety = Safety.SYNCED
    # Whether they may rest on what was in the log when the shard was loaded. That is on the disk here, and perhaps not
    # on those of the other replicas: it is waited for once.
    rests_on_loaded: bool = False


class Machine(Protocol):
    """The state of one shard. Only `apply` changes what is durable; the rest may keep notes in memory."""

    def decide(self, ticket: int, command: Any, now_ms: int) -> Decision:
        """Answer a command now, or keep its ticket and answer later.

        A GoQueueError raised instead of returned is the ticket's reply; nothing may have changed then.
        """
        ...

    def tick(self, now_ms: int) -> Decision:
        """Do what is due. Called no earlier than `wake_at_ms` said."""
        ...

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Take in one stored record: right after it was written, and again at every replay."""
        ...

    def wake_at_ms(self) -> int | None:
        """When `tick` must be called next."""
        ...

    def snapshot(self) -> bytes:
        """All that `apply` built, or nothing at all if a replay is cheap enough."""
        ...

    def restore(self, data: bytes) -> None:
        """Become what `snapshot` described. Called on a new machine."""
        ...


@runtime_checkable
class HoldsPending(Protocol):
    """A machine that wants to know what an open transaction may bring."""

    def hold(self, producer_id: int, records: Sequence[Record]) -> None:
        """These records of the producer's transaction are stored, and not applied yet."""
        ...

    def release(self, producer_id: int) -> None:
        """The producer's transaction has ended; what it committed has been applied."""
        ...


class Journal(Protocol):
    """Where decisions are written."""

    def append(self, records: Sequence[Record], transaction: Transaction | None, now_ms: int) -> int:
        """Write the records as one batch and return the offset behind it."""
        ...

    def append_marker(self, transaction: Transaction, *, commit: bool, coordinator_epoch: int, now_ms: int) -> int:
        """Write the end of a transaction and return the offset behind it."""
        ...


class Entry(msgspec.Struct, frozen=True):
    """One batch of the shard's log. `commit` is None unless it is a transaction's marker."""

    end_offset: int
    records: Sequence[Record] = ()
    transaction_of: int | None = None
    commit: bool | None = None


class Shard:
    """A machine and its place in the log: written up to here, replicated and durable up to there."""

    def __init__(self, machine: Machine, journal: Journal, *, end_offset: int) -> None:
        self.machine = machine
        self.written_end = end_offset
        self.durable_end = end_offset
        # Where the log ended when it was loaded, and up to where all in-sync replicas are known to have synced it.
        self.loaded_end = 0
        self._synced_end = 0
        self._journal = journal
        self._held: deque[_Waiting] = deque()
        self._held_for_replicas: deque[_Waiting] = deque()
        # Records of open transactions, per producer, in the order of the log.
        self._open: dict[int, list[Record]] = {}
        self._pending = machine if isinstance(machine, HoldsPending) else None

    @property
    def holds_replies(self) -> bool:
        """Whether anybody waits for the disk."""
        return bool(self._held)

    @property
    def holds_for_replicas(self) -> bool:
        """Whether anybody waits for the in-sync replicas."""
        return bool(self._held_for_replicas)

    def submit(self, ticket: int, command: Any, now_ms: int) -> Sequence[Reply]:
        """Run a command; returns the replies that need not wait."""
        try:
            decision = self.machine.decide(ticket, command, now_ms)
        except GoQueueError as refusal:
            decision = Decision(replies=((ticket, refusal),))
        return self._carry_out(decision, now_ms)

    def tick(self, now_ms: int) -> Sequence[Reply]:
        """Let the machine do what is due; returns the replies that need not wait."""
        return self._carry_out(self.machine.tick(now_ms), now_ms)

    def end_transaction(
        self, ticket: int, transaction: Transaction, *, commit: bool, coordinator_epoch: int, now_ms: int
    ) -> Sequence[Reply]:
        """Write a transaction's marker and do what it says; the ticket's reply is None."""
        end = self._journal.append_marker(
            transaction, commit=commit, coordinator_epoch=coordinator_epoch, now_ms=now_ms
        )
        self.take(Entry(end, transaction_of=transaction.producer_id, commit=commit))
        return self._hold(((ticket, None),))

    def loaded_to(self, end_offset: int) -> None:
        """All of the log below is taken in; it is committed, and on the disk here."""
        # Compaction and deletion leave offsets without records; they are behind us all the same.
        self.written_end = self.durable_end = self.loaded_end = end_offset

    def durable_to(self, end_offset: int) -> list[Reply]:
        """The log is durable up to here; returns the replies that waited for that."""
        self.durable_end = max(self.durable_end, end_offset)
        self._synced_end = max(self._synced_end, end_offset)
        # What every in-sync replica has synced, it has written.
        return self.replicated_to(end_offset) + _set_free(self._held, self.durable_end)

    def replicated_to(self, end_offset: int) -> list[Reply]:
        """The in-sync replicas have the log up to here; returns the replies that waited for that."""
        return _set_free(self._held_for_replicas, end_offset)

    def take(self, entry: Entry) -> None:
        """Take in a batch that lies in the log: the only way to the machine's `apply`."""
        self.written_end = entry.end_offset
        producer_id = entry.transaction_of
        if producer_id is None:
            self._apply(entry.records)
        elif entry.commit is None:
            self._open.setdefault(producer_id, []).extend(entry.records)
            if self._pending is not None:
                self._pending.hold(producer_id, entry.records)
        else:
            records = self._open.pop(producer_id, [])
            if entry.commit:
                self._apply(records)
            if self._pending is not None:
                self._pending.release(producer_id)

    def snapshot(self) -> bytes:
        """The machine as of `written_end`; empty while that cannot be told in one state."""
        # Records of an open transaction lie before the snapshot and are not in the machine.
        return b"" if self._open else self.machine.snapshot()

    def _carry_out(self, decision: Decision, now_ms: int) -> Sequence[Reply]:
        if decision.records:
            transaction = decision.transaction
            end = self._journal.append(decision.records, transaction, now_ms)
            self.take(Entry(end, decision.records, transaction.producer_id if transaction else None))
        if decision.rests_on_loaded and decision.replies and self._synced_end < self.loaded_end:
            self._held.append((self.written_end, decision.replies))
            return ()
        return self._hold(decision.replies, decision.safety)

    def _hold(self, replies: Sequence[Reply], safety: Safety = Safety.SYNCED) -> Sequence[Reply]:
        if not replies or safety is Safety.WRITTEN or self.written_end <= self.durable_end:
            return replies
        held = self._held if safety is Safety.SYNCED else self._held_for_replicas
        held.append((self.written_end, replies))
        return ()

    def _apply(self, records: Sequence[Record]) -> None:
        apply = self.machine.apply
        for key, value in records:
            apply(key, value)


def _set_free(held: deque[_Waiting], end_offset: int) -> list[Reply]:
    free: list[Reply] = []
    while held and held[0][0] <= end_offset:
        free += held.popleft()[1]
    return free

"""What a delay log holds: slots, fires and schedules, one key each, so that compaction keeps the newest.

A slot is named by the offset at which it was first written, for good: when it is changed, the
same key is written again further on. A null value settles its key.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Literal, NamedTuple

import msgspec

from goqueue.coordinator.records import RecordCodec
from goqueue.records import Header, NewRecord

# Runs that were due while the node was down: one late run for all of them, every one of them, or none.
Missed = Literal["once", "all", "skip"]


class SlotState(IntEnum):
    """Where a delayed message stands. Delivered and cancelled ones are no longer stored."""

    PENDING = 0
    DELIVERED = 1
    CANCELLED = 2
    # Due, but its topic does not take it: kept until somebody decides.
    EXPIRED = 3
    # Part of an open transaction: it is nobody's until that is committed.
    STAGED = 4


class Stored(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """Anything that is written as a tuple, so that the same key is always the same bytes."""


class SlotKey(Stored, frozen=True):
    """A delayed message."""

    slot: int


class FireKey(Stored, frozen=True):
    """One batch on its way into its topic, named by its first slot."""

    slot: int


class ScheduleKey(Stored, frozen=True):
    """A recurring message."""

    name: str


class Origin(Stored, frozen=True):
    """The idempotent producer's batch that a slot came with.

    Of a staged slot `last_sequence` is that of its own record: each must be recognised by itself. Of slots that are
    written in several parts it is that of the part's last record, and of the last part that of the whole batch.
    """

    partition: int
    producer_id: int
    producer_epoch: int
    last_sequence: int
    # Of a staged slot: the epoch of the coordinator that said that the transaction is open.
    coordinator_epoch: int = -1


class Slot(Stored, frozen=True):
    """A delayed message, whole. Topic and partition are those in whose delay log it lies."""

    due_ms: int
    topic: str
    topic_id: bytes
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    created_ms: int
    state: int = SlotState.PENDING.value
    reason: str = ""
    # The recurring message whose next run this is.
    schedule: str = ""
    origin: Origin | None = None

    def record(self) -> NewRecord:
        """The message as its topic will hold it, stamped when it is delivered."""
        headers: tuple[Header, ...] = self.headers
        return NewRecord(self.key, self.value, headers)


class Fire(Stored, frozen=True):
    """These slots are about to enter a partition as one batch under this producer's sequence."""

    slots: tuple[int, ...]
    due_ms: int
    topic: str
    topic_id: bytes
    partition: int
    producer_id: int
    sequence: int


class Schedule(Stored, frozen=True):
    """A recurring message: when, in which time zone, and what."""

    cron: str
    timezone: str
    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    missed: Missed
    created_ms: int
    # The slot of the next run, -1 when no run will ever come.
    next_slot: int
    next_due_ms: int
    last_due_ms: int = -1
    runs: int = 0


KEYS: RecordCodec[Stored] = RecordCodec({0: SlotKey, 1: FireKey, 2: ScheduleKey})
VALUES: RecordCodec[Stored] = RecordCodec({0: Slot, 1: Fire, 2: Schedule})


class Change(NamedTuple):
    """One stored record, as the index and the memory take it in. `value` None settles the key."""

    offset: int
    key: Stored
    value: Stored | None


def without_message(change: Change) -> Change:
    """What the index takes in of a change: the message of a slot stays in the log."""
    value = change.value
    if not isinstance(value, Slot):
        return change
    return change._replace(value=msgspec.structs.replace(value, key=None, value=None, headers=()))


def encode(key: Stored, value: Stored | None) -> NewRecord:
    """A record for the log."""
    return NewRecord(KEYS.encode(key), None if value is None else VALUES.encode(value))


def decode(offset: int, key: bytes | None, value: bytes | None) -> Change:
    """A record from the log."""
    return Change(offset, KEYS.decode(key or b""), None if value is None else VALUES.decode(value))

"""What a partition's delivery log holds: deltas and snapshots of the queues that groups have on it.

A queue is one group on one partition of one topic. Every command leaves one delta, with ranges
instead of offsets; its key is the queue and a slot, so compaction keeps the last `SLOTS` of them.
A snapshot of the whole queue is written at least every `SNAPSHOT_DELTAS`, so the deltas behind
the newest snapshot are always all there. `ranges` are flat: first, last, first, last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec

from goqueue.coordinator.records import RecordCodec
from goqueue.delivery.policy import DeliveryPolicy

SLOTS = 512
SNAPSHOT_DELTAS = SLOTS // 2


class QueuePlace(NamedTuple):
    """Which delivery log: that of a partition of a topic. A topic that is created again has others."""

    topic_id: UUID
    partition: int

    def __str__(self) -> str:
        return f"{self.topic_id}-{self.partition}"


class QueueId(NamedTuple):
    """Which queue."""

    group: str
    topic_id: UUID
    partition: int

    @property
    def place(self) -> QueuePlace:
        """Where its state lies: with that of all groups on the partition."""
        return QueuePlace(self.topic_id, self.partition)


class SnapshotKey(msgspec.Struct, array_like=True, frozen=True):
    """The key of a queue's snapshot."""

    group: str
    topic_id: UUID
    partition: int


class DeltaKey(msgspec.Struct, array_like=True, frozen=True):
    """The key of one of a queue's last deltas."""

    group: str
    topic_id: UUID
    partition: int
    slot: int


class Cursors(msgspec.Struct, array_like=True, tag=0):
    """Where each lane goes on: everything of the lane below is settled or outstanding."""

    cursors: list[int]
    # The topic's leader epoch at that moment; -1 where that was not noted yet.
    epoch: int = -1


class Leased(msgspec.Struct, array_like=True, tag=1):
    """Messages were handed to a consumer until a deadline."""

    lane: int
    lease_id: int
    consumer: str
    count: int
    deadline_ms: int
    at_ms: int
    first_ms: int
    # Whether they were never outstanding before.
    fresh: bool
    ranges: list[int]
    # Only where keys are kept in order: a hash for each offset, 0 without a key.
    keys: list[int] = []


class Parked(msgspec.Struct, array_like=True, tag=2):
    """Messages that wait for an earlier one of their key."""

    lane: int
    ranges: list[int]
    keys: list[int]


class Settled(msgspec.Struct, array_like=True, tag=3):
    """Done with."""

    ranges: list[int]


class Requeued(msgspec.Struct, array_like=True, tag=4):
    """Given back: available again from a time on, with this many deliveries behind them."""

    ranges: list[int]
    visible_at_ms: int
    count: int
    reason: str = ""


class Extended(msgspec.Struct, array_like=True, tag=5):
    """Still at work on them."""

    ranges: list[int]
    deadline_ms: int


class Dying(msgspec.Struct, array_like=True, tag=6):
    """On their way to the dead-letter topic."""

    ranges: list[int]
    reason: str
    error: str
    at_ms: int


class Moving(msgspec.Struct, array_like=True, tag=7):
    """The dying messages that are appended next, and as whose batch: the same again after a crash."""

    producer_id: int
    sequence: int
    offsets: list[int]


class Moved(msgspec.Struct, array_like=True, tag=8):
    """They lie in the dead-letter topic; the sequence goes on here."""

    next_sequence: int


class Governed(msgspec.Struct, array_like=True, tag=9):
    """The policy from now on."""

    policy: DeliveryPolicy


class Reset(msgspec.Struct, array_like=True, tag=10):
    """Forget what is outstanding and begin at these offsets."""

    cursors: list[int]
    epoch: int = -1


class Promised(msgspec.Struct, array_like=True, tag=11):
    """A producer's open transaction will settle these: they stay as they are until it ends."""

    producer_id: int
    # Whether they are rejected instead of done with.
    rejected: bool
    reason: str
    ranges: list[int]
    # Whose word it is that the transaction is open: an end that an earlier one decided is not this one's.
    producer_epoch: int = -1
    coordinator_epoch: int = -1


class Withdrawn(msgspec.Struct, array_like=True, tag=12):
    """The producer's transaction has ended: its promises are kept by now, or never will be."""

    producer_id: int


class Cut(msgspec.Struct, array_like=True, tag=13):
    """The log lost what lay from `end` on before `epoch` began: forget it, others have these offsets now."""

    end: int
    epoch: int


class Reopening(msgspec.Struct, array_like=True, tag=14):
    """A producer's open transaction will make these settled messages available again."""

    producer_id: int
    lane: int
    ranges: list[int]
    # As in `Leased`.
    keys: list[int] = []
    # As in `Promised`.
    producer_epoch: int = -1
    coordinator_epoch: int = -1


class Reopened(msgspec.Struct, array_like=True, tag=15):
    """Settled messages are available again, as if they had never been delivered."""

    lane: int
    ranges: list[int]
    at_ms: int
    keys: list[int] = []


class Quarantined(msgspec.Struct, array_like=True, tag=16):
    """Nobody can read what lies from `first` to `last`: nothing of it is delivered any more."""

    lane: int
    # Which message of it stands for all of them on the way to the dead-letter topic, if that is where they go.
    offset: int
    first: int
    last: int
    error: str
    at_ms: int
    dies: bool
    # Whether it is also taken from those who hold messages of it: they were given bytes that they cannot read.
    with_leased: bool


class Incarnated(msgspec.Struct, array_like=True, tag=17):
    """Which group it is that has the queue: one of the same name that was deleted had another number."""

    incarnation: int


Change = (
    Cursors
    | Leased
    | Parked
    | Settled
    | Requeued
    | Extended
    | Dying
    | Moving
    | Moved
    | Governed
    | Reset
    | Promised
    | Withdrawn
    | Cut
    | Reopening
    | Reopened
    | Quarantined
    | Incarnated
)


class Delta(msgspec.Struct, array_like=True):
    """What one command did to a queue."""

    sequence: int
    changes: list[Change]


class HoldState(msgspec.Struct, array_like=True):
    """Messages that are outstanding in one and the same way."""

    state: int
    lane: int
    lease_id: int
    consumer: str
    count: int
    visible_at_ms: int
    first_ms: int
    last_ms: int
    reason: str
    error: str
    ranges: list[int]
    keys: list[int]


class QueueState(msgspec.Struct, array_like=True):
    """A whole queue after the delta of that sequence."""

    sequence: int
    cursors: list[int]
    policy: DeliveryPolicy
    holds: list[HoldState]
    producer_id: int
    next_sequence: int
    moving: list[int]
    promises: list[Promised] = []
    epoch: int = -1
    reopenings: list[Reopening] = []
    incarnation: int = 0


KEYS: RecordCodec[SnapshotKey | DeltaKey] = RecordCodec({0: SnapshotKey, 1: DeltaKey})
VALUES: RecordCodec[QueueState | Delta] = RecordCodec({0: QueueState, 1: Delta})


def ranges_of(offsets: Sequence[int]) -> list[int]:
    """Rising offsets as flat ranges."""
    if not offsets:
        return []
    if offsets[-1] - offsets[0] == len(offsets) - 1:
        return [offsets[0], offsets[-1]]
    ranges = [offsets[0]]
    last = offsets[0]
    for offset in offsets[1:]:
        if offset != last + 1:
            ranges += (last, offset)
        last = offset
    ranges.append(last)
    return ranges


def offsets_of(ranges: list[int]) -> list[int]:
    """The offsets in flat ranges."""
    if len(ranges) == 2:
        return list(range(ranges[0], ranges[1] + 1))
    return [offset for at in range(0, len(ranges), 2) for offset in range(ranges[at], ranges[at + 1] + 1)]

"""A queue as records of the delivery log: its changes, its snapshot, and the tombstones that remove it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from goqueue.coordinator.shard import Record
from goqueue.delivery.state.records import (
    KEYS,
    SLOTS,
    SNAPSHOT_DELTAS,
    VALUES,
    Change,
    Delta,
    DeltaKey,
    Incarnated,
    SnapshotKey,
)
from goqueue.delivery.state.snapshots import snapshot_of

if TYPE_CHECKING:
    from goqueue.delivery.state.queue import Queue


def records_of(changes: Mapping[Queue, list[Change]]) -> list[Record]:
    """One delta per queue, behind its snapshot when one is due."""
    records: list[Record] = []
    for queue, found in changes.items():
        if queue.deltas >= SNAPSHOT_DELTAS:
            records.append(snapshot_record(queue))
        if queue.incarnation != queue.stored_incarnation:
            found.append(Incarnated(queue.incarnation))
        sequence = queue.sequence + 1
        group, topic_id, partition = queue.id
        key = KEYS.encode(DeltaKey(group, topic_id, partition, sequence % SLOTS))
        records.append((key, VALUES.encode(Delta(sequence, found))))
    return records


def snapshot_record(queue: Queue) -> tuple[bytes, bytes]:
    """A queue as one record, which stands for all that were written of it before."""
    group, topic_id, partition = queue.id
    return KEYS.encode(SnapshotKey(group, topic_id, partition)), VALUES.encode(snapshot_of(queue))


def tombstones(queue: Queue) -> list[Record]:
    """What removes every record of a queue from the log."""
    group, topic_id, partition = queue.id
    slots = SLOTS if queue.is_incomplete else min(queue.sequence + 1, SLOTS)
    records: list[Record] = [(KEYS.encode(SnapshotKey(group, topic_id, partition)), None)]
    records += [(KEYS.encode(DeltaKey(group, topic_id, partition, slot)), None) for slot in range(slots)]
    return records

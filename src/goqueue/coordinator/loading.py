"""Loading: from a partition's log, and a snapshot where it agrees, to a shard that can work."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from goqueue.clock import Clock
from goqueue.coordinator.journal import OpenPartition, PartitionJournal, ReadableLog, ShardPartition, read_entries
from goqueue.coordinator.shard import Machine, Shard
from goqueue.coordinator.snapshots import Snapshots
from goqueue.errors import GoQueueError
from goqueue.ports import Offload

# What names a shard: the number of a partition, or whatever else names a log.
ShardId = TypeVar("ShardId", bound=Hashable)
# (shard, machine): a shard has taken in all of its log.
OnLoaded = Callable[[ShardId, Machine], None]


class NotHere(Protocol):
    """Makes the error of requests that wait when this node loses a shard."""

    def __call__(self, message: str, *, leader: int) -> GoQueueError:
        """Says who has it now."""
        ...


@dataclass(frozen=True, slots=True)
class Foundation(Generic[ShardId]):
    """What all shards of one kind stand on."""

    name: str
    machine_factory: Callable[[], Machine]
    open_partition: OpenPartition[ShardId]
    snapshots: Snapshots[ShardId]
    offload: Offload
    clock: Clock
    # Requests that one shard may have outstanding.
    tickets_max: int
    # A snapshot is taken each time the log has grown by so many offsets.
    snapshot_offsets: int
    # At a stop, a shard leaves a snapshot if its log has grown by so many since the last.
    closing_offsets: int
    not_here: NotHere
    # Told, on the loop, before the shard runs its first command.
    on_loaded: OnLoaded[ShardId] | None = None


async def load_shard(foundation: Foundation[ShardId], shard_id: ShardId, opened: ShardPartition) -> tuple[Shard, int]:
    """The shard as its log has it, all of that durable, and the offset of the snapshot that helped."""
    log, writer = opened.log, opened.writer
    end_offset = log.end_offset
    # What an earlier shard wrote may not be durable yet, and replies from here on will rest on it.
    # Asking first also means that a log which can promise nothing any more is not even read.
    unsafe = writer.readable(end_offset)
    if unsafe is not None:
        await unsafe
    machine, snapshot_offset = await _restored(foundation, shard_id, log)
    shard = Shard(machine, PartitionJournal(writer), end_offset=snapshot_offset)
    await _replay(foundation, log, shard, max(snapshot_offset, log.start_offset), end_offset)
    shard.loaded_to(end_offset)
    return shard, snapshot_offset


async def _restored(foundation: Foundation[ShardId], shard_id: ShardId, log: ReadableLog) -> tuple[Machine, int]:
    machine = foundation.machine_factory()
    if log.end_offset == 0:
        return machine, 0
    snapshots, offload = foundation.snapshots, foundation.offload
    snapshot = await offload(lambda: snapshots.load(shard_id, log))
    if snapshot is None:
        return machine, 0
    try:
        machine.restore(snapshot.data)
    except Exception:  # noqa: BLE001 - a snapshot is only ever a shortcut
        await offload(lambda: snapshots.discard(shard_id))
        return foundation.machine_factory(), 0
    return machine, snapshot.offset


async def _replay(
    foundation: Foundation[ShardId], log: ReadableLog, shard: Shard, offset: int, end_offset: int
) -> None:
    # A step at a time: others get their turn on the loop in between.
    while offset < end_offset:
        start = offset
        entries, offset = await foundation.offload(lambda start=start: read_entries(log, start, end_offset))  # type: ignore[misc]
        for entry in entries:
            shard.take(entry)

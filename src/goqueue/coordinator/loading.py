"""Loading: from a partition's log, and a snapshot where it agrees, to a shard that can work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from goqueue.clock import Clock
from goqueue.coordinator.journal import OpenPartition, PartitionJournal, ReadableLog, ShardPartition, read_entries
from goqueue.coordinator.shard import Machine, Shard
from goqueue.coordinator.snapshots import Snapshots
from goqueue.ports import Offload
from goqueue.records import Acks

# (partition, machine): a shard has taken in all of its log.
OnLoaded = Callable[[int, Machine], None]


@dataclass(frozen=True, slots=True)
class Foundation:
    """What all shards of a coordinator stand on."""

    topic: str
    machine_factory: Callable[[], Machine]
    open_partition: OpenPartition
    snapshots: Snapshots
    offload: Offload
    clock: Clock
    # Requests that one shard may have outstanding.
    tickets_max: int
    # A snapshot is taken each time the log has grown by so many offsets.
    snapshot_offsets: int
    # Told, on the loop, before the shard runs its first command.
    on_loaded: OnLoaded | None = None


async def load_shard(foundation: Foundation, partition: int, opened: ShardPartition) -> tuple[Shard, int]:
    """The shard as its log has it, all of that durable, and the offset of the snapshot that helped."""
    log, writer = opened.log, opened.writer
    end_offset = log.end_offset
    # What an earlier shard wrote may not be durable yet, and replies from here on will rest on it.
    # Asking first also means that a log which can promise nothing any more is not even read.
    unsafe = writer.reached(end_offset, Acks.ALL)
    if unsafe is not None:
        await unsafe
    machine, snapshot_offset = await _restored(foundation, partition, log)
    shard = Shard(machine, PartitionJournal(writer), end_offset=snapshot_offset)
    await _replay(foundation, log, shard, max(snapshot_offset, log.start_offset), end_offset)
    # Compaction and deletion leave offsets without records; they are behind us all the same.
    shard.written_end = end_offset
    shard.durable_to(end_offset)
    return shard, snapshot_offset


async def _restored(foundation: Foundation, partition: int, log: ReadableLog) -> tuple[Machine, int]:
    machine = foundation.machine_factory()
    if log.end_offset == 0:
        return machine, 0
    snapshots, offload = foundation.snapshots, foundation.offload
    snapshot = await offload(lambda: snapshots.load(partition, log))
    if snapshot is None:
        return machine, 0
    try:
        machine.restore(snapshot.data)
    except Exception:  # noqa: BLE001 - a snapshot is only ever a shortcut
        await offload(lambda: snapshots.discard(partition))
        return foundation.machine_factory(), 0
    return machine, snapshot.offset


async def _replay(foundation: Foundation, log: ReadableLog, shard: Shard, offset: int, end_offset: int) -> None:
    # A step at a time: others get their turn on the loop in between.
    while offset < end_offset:
        start = offset
        entries, offset = await foundation.offload(lambda start=start: read_entries(log, start, end_offset))  # type: ignore[misc]
        for entry in entries:
            shard.take(entry)

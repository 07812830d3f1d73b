"""Repairs: damaged replicas of this node are made whole from other replicas, while the node runs.

A log that was never compacted is the same on every replica, byte by byte: what is damaged in a segment is asked for by
offset, from any in-sync replica, whoever leads, and the segment is written anew. Only what is below the high watermark
of the replica that is asked is given. A log that was compacted agrees with the others on records and not on bytes: when
it is out of sync, its leader lets it be emptied and copied anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol
from uuid import UUID

import msgspec

from goqueue.broker.replicas.family import FamilyLog
from goqueue.broker.replicas.local_writer import Syncer
from goqueue.broker.replicas.partition import Partition
from goqueue.broker.replicas.partition_files import log_name
from goqueue.broker.replicas.partitions import Partitions
from goqueue.clock import Clock, Timer
from goqueue.cluster.replication.terms import Terms
from goqueue.errors import GoQueueError, NotLeader, OffsetOutOfRange, StorageError
from goqueue.log.repair.segment_repair import Hole, SegmentRepair
from goqueue.metadata.events import Assignment
from goqueue.metadata.store import MetadataStore
from goqueue.ports import Offload
from goqueue.records import LogKind, TopicPartition

_log = logging.getLogger("goqueue.cluster")

READ_FRAMES = "replication.read_frames"
_LOOK_EVERY_MS = 1000
_CALL_TIMEOUT_MS = 10_000
_ANSWER_BYTES_MAX = 1024 * 1024
# Several at once would only compete for the disk.
_REPAIRS_AT_ONCE_MAX = 2


class Calls(Protocol):
    """How one node asks another; see `PeerCalls`."""

    def serve(self, method: str, handler: Callable[[bytes, int], Awaitable[bytes]], /) -> None:
        """Answer calls of that name."""
        ...

    async def call(self, node_id: int, method: str, body: bytes, *, timeout_ms: int) -> bytes:
        """Ask a node; raises what it answers."""
        ...


class FramesWanted(msgspec.Struct, frozen=True, array_like=True):
    """Frames from `offset` on that end at or before `end_offset`."""

    topic_id: UUID
    partition: int
    kind: LogKind
    offset: int
    end_offset: int


class Repairs:
    """Looks for damage once a second, and serves what others need for theirs."""

    def __init__(
        self,
        *,
        node_id: int,
        partitions: Partitions,
        terms: Terms,
        metadata: MetadataStore,
        calls: Calls,
        syncer: Syncer,
        offload: Offload,
        clock: Clock,
        resubscribe: Callable[[TopicPartition], None],
    ) -> None:
        """`resubscribe` tells the leader anew how a partition stands here."""
        self._node_id = node_id
        self._partitions = partitions
        self._terms = terms
        self._metadata = metadata
        self._calls = calls
        self._syncer = syncer
        self._offload = offload
        self._clock = clock
        self._resubscribe = resubscribe
        self._timer: Timer | None = None
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}
        # Damage of which the leader has been told, by log.
        self._told: dict[tuple[TopicPartition, LogKind], int] = {}
        self._stats = partitions.repairs
        calls.serve(READ_FRAMES, self._read_frames)

    def start(self) -> None:
        """Begin to look."""
        self._timer = self._clock.call_later(_LOOK_EVERY_MS, self._look)

    async def close(self) -> None:
        """Repair nothing more."""
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _look(self) -> None:
        self._timer = self._clock.call_later(_LOOK_EVERY_MS, self._look)
        for partition in self._partitions.all_open():
            place = partition.key
            for member in partition.members():
                key, count = (place, member.kind), len(member.log.damage)
                if self._told.get(key, 0) != count:
                    # The leader must know, so that it counts on this replica no more, or again.
                    self._told[key] = count
                    self._resubscribe(place)
            if place in self._tasks or len(self._tasks) >= _REPAIRS_AT_ONCE_MAX:
                continue
            if any(member.log.damage and not member.log.busy_with for member in partition.members()):
                task = self._tasks[place] = asyncio.create_task(self._repair(partition))
                task.add_done_callback(partial(self._forget, place))

    def _forget(self, place: TopicPartition, _task: asyncio.Task[None]) -> None:
        self._tasks.pop(place, None)

    # --- repairing --------------------------------------------------------------------------

    async def _repair(self, partition: Partition) -> None:
        for member in partition.members():
            if not member.log.damage:
                continue
            name = log_name(member.log.directory)
            try:
                if member.log.is_dense:
                    await self._repair_segments(partition, member, name)
                else:
                    self._copy_anew(partition)
            except NotLeader:
                # Its role changed meanwhile, or it has gone.
                return
            except (GoQueueError, OSError) as error:
                self._stats.failures += 1
                _log.warning("%s cannot be repaired yet: %s", name, error)

    async def _repair_segments(self, partition: Partition, member: FamilyLog, name: str) -> None:
        repairs = member.log.begin_repairs()
        if member.log.is_dirty:
            # A damaged segment that was sealed for the repair can be replaced once it is synced.
            self._syncer.mark_dirty(member.log)
        for repair in repairs:
            fetched = await self._write_anew(partition, member, repair)
            if partition.is_led_here:
                # Nobody healthy can lead. The producers are known from what was written since.
                repair.put_in_place(with_producers=False)
                led = self._terms.find(partition.key)
                if led is not None and not member.log.damage:
                    led.sick = ""
            else:
                put = partial(repair.put_in_place, with_producers=True)
                await self._partitions.rework(partition, member.kind, "a repair is put in place", put)
            self._stats.segments += 1
            _log.warning(
                "%s: offsets %d to %d are repaired, with %d records from other replicas",
                name,
                repair.base_offset,
                repair.end_offset - 1,
                fetched,
            )

    async def _write_anew(self, partition: Partition, member: FamilyLog, repair: SegmentRepair) -> int:
        """Write the segment anew beside the log; returns how many records came from others."""
        fetched = 0
        try:
            pieces = await self._offload(repair.look)
            await self._offload(repair.begin)
            for piece in pieces:
                if isinstance(piece, Hole):
                    await self._fill(partition, member.kind, repair, piece)
                    fetched += piece.end_offset - piece.first_offset
                else:
                    await self._offload(partial(repair.copy, piece))
            await self._offload(repair.close)
        except BaseException:
            repair.abandon()
            raise
        self._stats.records += fetched
        return fetched

    async def _fill(self, partition: Partition, kind: LogKind, repair: SegmentRepair, hole: Hole) -> None:
        """Ask the in-sync replicas for what is missing, one after the other, until one has it."""
        offset, why, is_nowhere = hole.first_offset, "no other replica is in sync", True
        for node in self._others(partition):
            try:
                while offset < hole.end_offset:
                    wanted = FramesWanted(partition.topic_id, partition.id, kind, offset, hole.end_offset)
                    body = msgspec.msgpack.encode(wanted)
                    data = await self._calls.call(node, READ_FRAMES, body, timeout_ms=_CALL_TIMEOUT_MS)
                    after = await self._offload(partial(repair.take, data, hole))
                    if after == offset:
                        raise StorageError(f"node {node} has nothing at offset {offset}")
                    offset = after
                return
            except GoQueueError as error:
                why = str(error)
                is_nowhere &= isinstance(error, StorageError)
        if is_nowhere:
            # All who are in sync were asked: readers go on behind it, and it is shown.
            partition.unreadable.waits_for_repair = False
        raise StorageError(f"offsets {offset} to {hole.end_offset - 1} are on no other replica: {why}")

    def _others(self, partition: Partition) -> list[int]:
        assignment = self._assignment(partition)
        if assignment is None:
            return []
        isr = [node for node in assignment.isr if node != self._node_id]
        # The leader last: it has enough to do.
        return sorted(isr, key=lambda node: (node == assignment.leader, node))

    def _copy_anew(self, partition: Partition) -> None:
        """Ask the leader for a new copy of a compacted log: it knows whether anybody counts on what this one has.

        The image of this node may not know yet that it joined the in-sync replicas, so it never empties a log by its
        own decision.
        """
        assignment = self._assignment(partition)
        if assignment is not None and not partition.is_led_here and self._node_id not in assignment.isr:
            self._resubscribe(partition.key)

    def _assignment(self, partition: Partition) -> Assignment | None:
        assignments = self._metadata.image.assignments(partition.topic_id)
        return assignments[partition.id] if assignments else None

    # --- for the repairs of others ----------------------------------------------------------

    async def _read_frames(self, body: bytes, peer: int) -> bytes:
        wanted = msgspec.msgpack.decode(body, type=FramesWanted)
        topic = self._metadata.image.topic_by_id(wanted.topic_id)
        if topic is None or wanted.partition >= topic.partition_count:
            raise NotLeader("there is no such partition here")
        place = TopicPartition(topic.name, wanted.partition)
        assignment = self._metadata.image.assignments(wanted.topic_id)[wanted.partition]
        if self._node_id not in assignment.isr or peer not in (*assignment.replicas, *assignment.adding):
            raise NotLeader(f"node {self._node_id} is not in sync in {place}, or node {peer} has no replica")
        member = await self._partitions.follow_member(place, wanted.kind)
        log = member.log
        upper = min(wanted.end_offset, log.high_watermark)
        if not log.is_dense or wanted.offset >= upper:
            raise OffsetOutOfRange(wanted.offset, log.start_offset, upper)
        read = partial(log.read_frames, wanted.offset, max_bytes=_ANSWER_BYTES_MAX, upper=upper)
        return b"".join((await self._offload(read)).batches)

"""Queues: `__delivery_state` was one topic for the queues of all partitions, spread by a hash.

Each of its shards is replayed, and every queue is written as one snapshot to the delivery log of its partition. Leases
keep their ids, so receipts that were given out before stay valid.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

from goqueue.broker.replicas.partitions import Partitions
from goqueue.coordinator.journal import PartitionJournal
from goqueue.delivery.state.machine import DeliveryMachine
from goqueue.delivery.state.queue import Queue
from goqueue.delivery.state.queue_records import snapshot_record
from goqueue.delivery.state.records import QueueId
from goqueue.metadata.store import MetadataStore
from goqueue.node.migration.layout import DELIVERY_STATE
from goqueue.node.migration.replay import records_of
from goqueue.ports import Files, Offload
from goqueue.records import Acks, LogKind, TopicPartition

if TYPE_CHECKING:
    from goqueue.clock import Clock
    from goqueue.log.partition_log import PartitionLog
    from goqueue.node.migration.driver import Waiting
    from goqueue.node.migration.progress import Progress

_log = logging.getLogger("goqueue.migration")


class QueuesStep:
    """Takes over `__delivery_state`."""

    topic = DELIVERY_STATE

    def __init__(
        self, *, files: Files, metadata: MetadataStore, partitions: Partitions, offload: Offload, clock: Clock
    ) -> None:
        self._files = files
        self._metadata = metadata
        self._partitions = partitions
        self._offload = offload
        self._clock = clock

    async def begin_anew(self) -> None:
        """Remove delivery logs: none of them has been used yet."""
        await self._offload(lambda: self._partitions.remove_members(LogKind.DELIVERY))

    async def write(self, progress: Progress) -> Waiting:
        """Replay one shard after the other and write its queues; done when all delivery logs are synced."""
        shards = [
            (await self._partitions.open_leader(DELIVERY_STATE, shard)).log
            for shard in self._partitions.led_with_data(DELIVERY_STATE)
        ]
        done, total = 0, sum(log.end_offset - log.start_offset for log in shards)
        written: dict[TopicPartition, int] = {}
        waiting: dict[int, frozenset[TopicPartition]] = {}
        for log in shards:
            before = done - log.start_offset
            by_place: dict[TopicPartition, list[Queue]] = defaultdict(list)
            for queue in await self._replayed(log, lambda offset, before=before: progress.at(before + offset, total)):  # type: ignore[misc]
                place = self._place_of(queue)
                if place is not None:
                    by_place[place].append(queue)
            for place, queues in by_place.items():
                written[place] = await self._write(place, queues)
                for queue in queues:
                    for producer_id in _producers(queue):
                        waiting[producer_id] = waiting.get(producer_id, frozenset()) | {place}
            done += log.end_offset - log.start_offset
        for place, end_offset in written.items():
            member = await self._partitions.open_member(place, LogKind.DELIVERY)
            durable = member.writer.reached(end_offset, Acks.ALL)
            if durable is not None:
                await durable
        return waiting

    async def finish(self) -> None:
        """Remove the snapshots of the former shards."""
        await self._offload(lambda: self._files.remove_tree(f"snapshots/{DELIVERY_STATE}"))

    async def _replayed(self, log: PartitionLog, at: Callable[[int], None]) -> list[Queue]:
        queues = _Queues()
        machine = DeliveryMachine(queues)
        async for key, value in records_of(log, self._offload, at):
            machine.apply(key, value)
        return list(queues.found.values())

    def _place_of(self, queue: Queue) -> TopicPartition | None:
        topic = self._metadata.image.topic_by_id(queue.id.topic_id)
        if topic is None or queue.id.partition >= topic.partition_count:
            # Its topic was deleted, and it would have been forgotten soon.
            return None
        if queue.is_incomplete:
            _log.error(
                "__delivery_state lacks records of group %r on %s partition %d: the group begins there anew",
                queue.id.group,
                topic.name,
                queue.id.partition,
            )
            return None
        return TopicPartition(topic.name, queue.id.partition)

    async def _write(self, place: TopicPartition, queues: list[Queue]) -> int:
        member = await self._partitions.open_member(place, LogKind.DELIVERY)
        journal, end_offset = PartitionJournal(member.writer), 0
        for queue in queues:
            # One batch each: a queue with much outstanding is large.
            end_offset = journal.append([snapshot_record(queue)], None, self._clock.now_ms())
        return end_offset


def _producers(queue: Queue) -> set[int]:
    """Whose open transactions will settle or reopen messages of the queue."""
    return {*queue.promises.producer_ids(), *(one.producer_id for one in queue.reopenings)}


class _Queues:
    """The queues of a shard while it is replayed: nobody waits at them, and nothing of them dies yet."""

    def __init__(self) -> None:
        self.found: dict[QueueId, Queue] = {}

    def put(self, queue: Queue) -> None:
        """Known from now on."""
        self.found[queue.id] = queue

    def drop(self, queue: Queue) -> None:
        """Gone again."""
        self.found.pop(queue.id, None)

    def on_ready(self, queue: Queue) -> None:
        """Nobody waits."""

    def on_dying(self, queue: Queue) -> None:
        """Moved once the queue is in its own log."""

"""Agreement: after a crash a queue forgets messages that its log has lost.

A message that nobody waited to see synced may be received and settled, and that may reach the disk before the
message does. If the power fails then, the log ends before it, other messages get its offset, and a queue that
takes those for settled would never give them to anybody. After a crash every log has a new leader epoch. A queue
knows the epoch in which it last moved, and the log where that epoch ended: what lies behind is lost. Consumers
of streams do the same by themselves (KIP-320).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from goqueue.delivery.state.commands import CutQueue

if TYPE_CHECKING:
    from goqueue.broker.replicas.partitions import Partition
    from goqueue.coordinator.runtime import Shards
    from goqueue.delivery.state.records import QueueId, QueuePlace
    from goqueue.delivery.table import NodeQueues

logger = logging.getLogger(__name__)


class Agreement:
    """Between queues and the logs that they stand in. Whoever reads messages for a queue asks for it first."""

    def __init__(self, shards: Shards[QueuePlace], queues: NodeQueues) -> None:
        self._shards = shards
        self._queues = queues

    async def reach(self, queue_id: QueueId, partition: Partition) -> None:
        """Let the queue know of nothing that the log has lost. Costs nothing but after a crash."""
        epoch = partition.leader_epoch
        while (queue := self._queues.find(queue_id)) is not None and queue.agreed_epoch != epoch:
            known, cursor = queue.epoch, max(queue.cursors)
            if known < epoch:
                end = _end_of(partition, known)
                # While its shard is being loaded the queue may learn of a newer epoch; then it is asked for again.
                if not await self._shards.submit_to(queue_id.place, CutQueue(queue_id, known, end, epoch)):
                    continue
                if cursor > end:
                    logger.warning(
                        "%s partition %d lost messages in a crash: group %r goes on at offset %d instead of %d",
                        partition.key[0],
                        queue_id.partition,
                        queue_id.group,
                        end,
                        cursor,
                    )
            queue.agreed_epoch = epoch


def _end_of(partition: Partition, epoch: int) -> int:
    """Where the log ended when an epoch did; an unknown one ends where the log does."""
    log = partition.log
    if epoch < 0 or log.leader_epoch <= epoch:
        return log.end_offset
    return log.end_offset_for_epoch(epoch)[1]

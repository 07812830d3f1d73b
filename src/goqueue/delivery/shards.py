"""QueueShards: the partitions of `__delivery_state` that hold queues, and their loading when somebody asks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

from goqueue.broker.partitions import Partitions
from goqueue.broker.topics import TopicService
from goqueue.coordinator.runtime import Coordinator
from goqueue.delivery.commands import Settle
from goqueue.delivery.queue import Queue
from goqueue.delivery.records import QueueId
from goqueue.delivery.table import NodeQueues
from goqueue.errors import TopicIdNotFound
from goqueue.records import TopicPartition

DELIVERY_STATE = "__delivery_state"


class QueueShards:
    """Where each queue's state lies, in memory or still on disk."""

    def __init__(
        self, coordinator: Coordinator, queues: NodeQueues, *, topics: TopicService, partitions: Partitions
    ) -> None:
        self._coordinator = coordinator
        self._queues = queues
        self._topics = topics
        self._partitions = partitions
        self._under_way: set[asyncio.Future[Any]] = set()

    def start(self, shards: Sequence[int]) -> None:
        """Load the shards that have a log, in the background: visibility must end there whether or not anyone asks."""
        for shard in shards:
            self.later(self._load(shard))

    def id_of(self, group: str, place: TopicPartition) -> QueueId:
        """The queue of a group at a place that exists."""
        return QueueId(group, self._partitions.topic_at(*place).topic_id, place.partition)

    def topic_of(self, queue: Queue) -> str | None:
        """The name of its topic; None once that is deleted."""
        try:
            return self._topics.by_id(queue.id.topic_id).name
        except TopicIdNotFound:
            return None

    def submit(self, queue_id: QueueId, command: object) -> asyncio.Future[Any]:
        """Run a command on the queue's shard."""
        return self._coordinator.submit(queue_id.text, command)

    async def known(self, queue_id: QueueId) -> Queue | None:
        """The queue, its shard loaded if there is one. Asking does not make the internal topic."""
        if self._topics.find(DELIVERY_STATE) is None:
            return None
        if self._queues.find(queue_id) is None:
            await self._load(self._coordinator.partition_for(queue_id.text))
        return self._queues.find(queue_id)

    async def load_all(self) -> None:
        """Let every queue be in memory."""
        shards = self._partitions.led_with_data(DELIVERY_STATE)
        loaded = set(self._coordinator.loaded())
        for shard in shards:
            if shard not in loaded:
                await self._load(shard)

    def later(self, work: Awaitable[Any]) -> None:
        """Do it in the background, for nobody who waits."""
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._done)

    async def close(self) -> None:
        """Give up what is under way and let the state be read again at the next start."""
        for task in list(self._under_way):
            task.cancel()
        await self._coordinator.close()

    async def _load(self, shard: int) -> None:
        await self._coordinator.submit_to(shard, Settle(()))

    def _done(self, task: asyncio.Future[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            # A shard that cannot be loaded says so through `on_failure`, and to whoever asks next.
            task.exception()

"""QueueShards: the delivery logs of the partitions that this node leads, loaded when somebody asks.

A partition has a delivery log from its first queue on. All queue groups of the partition are in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import Any

from goqueue.broker.replicas.family import FamilyLog
from goqueue.broker.replicas.partitions import Partitions
from goqueue.broker.replicas.roles import Leading, Role, not_leader
from goqueue.broker.topics import TopicService
from goqueue.coordinator.runtime import Shards
from goqueue.delivery.state.commands import Settle
from goqueue.delivery.state.queue import Queue
from goqueue.delivery.state.records import QueueId, QueuePlace
from goqueue.delivery.table import NodeQueues
from goqueue.errors import CoordinatorUnavailable, GoQueueError, StorageError, TopicIdNotFound, TopicNotFound
from goqueue.ports import Offload
from goqueue.records import LogKind, TopicPartition

# What the shards are called, in messages and as the folder of their snapshots.
DELIVERY_LOGS = "delivery"
# What is the matter with one partition of which the others know nothing: a log of it is damaged, or is being loaded.
UNUSABLE = (CoordinatorUnavailable, StorageError)
# Logs that are loaded side by side when nobody waits for them.
_LOADING_MAX = 4


class DeliveryLogs:
    """Finds and opens delivery logs: what the shards ask for theirs."""

    def __init__(self, topics: TopicService, partitions: Partitions) -> None:
        self._topics = topics
        self._partitions = partitions

    async def __call__(self, place: QueuePlace, /) -> FamilyLog:
        """Open the delivery log of a partition, which this node must lead. The first call makes it."""
        return await self._partitions.open_member(self.named(place), LogKind.DELIVERY)

    def named(self, place: QueuePlace) -> TopicPartition:
        """The partition under its present name; raises TopicIdNotFound."""
        return TopicPartition(self._topics.by_id(place.topic_id).name, place.partition)

    def check_copies(self, place: QueuePlace) -> None:
        """See `Partitions.check_copies`."""
        self._partitions.check_copies(*self.named(place))

    def refusal(self, place: QueuePlace) -> GoQueueError | None:
        """Why this node does not serve the queues of a partition; None if it does."""
        try:
            named = self.named(place)
            topic = self._partitions.topic_at(*named)
        except GoQueueError as error:
            return error
        if self._partitions.is_led(*named):
            return None
        return not_leader(named, self._topics.assignments(topic)[named.partition])

    def exists(self, place: QueuePlace) -> bool:
        """Whether any group ever had a queue there, as far as this node knows. Opens nothing."""
        try:
            return self._partitions.has_member(self.named(place), LogKind.DELIVERY)
        except TopicIdNotFound:
            return False

    def led(self) -> list[QueuePlace]:
        """The delivery logs that exist and that this node leads."""
        return [
            QueuePlace(self._topics.get(named.topic).topic_id, named.partition)
            for named in self._partitions.led_with_member(LogKind.DELIVERY)
        ]

    def follow_roles(self, shards: Shards[QueuePlace]) -> None:
        """From now on queues are loaded when their partition's leadership comes, and dropped when it goes."""

        def on_role(named: TopicPartition, role: Role | None) -> None:
            topic = self._topics.find(named.topic)
            if topic is None or topic.internal:
                return
            place = QueuePlace(topic.topic_id, named.partition)
            if not isinstance(role, Leading):
                shards.drop(place, not_leader(named, self._topics.assignments(topic)[named.partition]))
            elif self._partitions.has_member(named, LogKind.DELIVERY):
                shards.lead(place)

        self._partitions.on_role(on_role)


class QueueShards:
    """Where each queue's state lies, in memory or still on disk."""

    def __init__(
        self,
        shards: Shards[QueuePlace],
        logs: DeliveryLogs,
        queues: NodeQueues,
        *,
        topics: TopicService,
        partitions: Partitions,
        offload: Offload,
    ) -> None:
        self._shards = shards
        self._logs = logs
        self._queues = queues
        self._topics = topics
        self._partitions = partitions
        self._offload = offload
        self._under_way: set[asyncio.Future[Any]] = set()

    def start(self, places: Sequence[QueuePlace]) -> None:
        """Load these in the background, a few at a time: visibility must end there whether or not anyone asks."""
        room = asyncio.Semaphore(_LOADING_MAX)

        async def load(place: QueuePlace) -> None:
            async with room:
                await self._load(place)

        for place in places:
            self.later(load(place))

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
        return self._shards.submit_to(queue_id.place, command)

    async def known(self, queue_id: QueueId) -> Queue | None:
        """The queue, its shard loaded if there is one. Asking makes no log."""
        if self._queues.find(queue_id) is None and self._logs.exists(queue_id.place):
            await self._load(queue_id.place)
        return self._queues.find(queue_id)

    async def load_all(self) -> None:
        """Let every queue of this node be in memory."""
        for place in self._logs.led():
            if not self._shards.is_loaded(place):
                await self._load(place)

    async def load_readable(self) -> None:
        """The same but for logs that cannot be read: they do not hide what the others have."""
        for place in self._logs.led():
            if not self._shards.is_loaded(place):
                with suppress(*UNUSABLE):
                    await self._load(place)

    def topic_deleted(self, topic_id: object) -> None:
        """The topic is gone, and the logs of its queues with it."""
        gone = [place for place in self._shards.known() if place.topic_id == topic_id]
        for place in gone:
            self._shards.forget(place, TopicNotFound(str(topic_id)))
            self._queues.drop_all_at(place)
        self.later(self._discard_snapshots(gone))

    def later(self, work: Awaitable[Any]) -> None:
        """Do it in the background, for nobody who waits."""
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._done)

    async def close(self) -> None:
        """Give up what is under way and let the state be read again at the next start."""
        for task in list(self._under_way):
            task.cancel()
        await self._shards.close()

    async def _load(self, place: QueuePlace) -> None:
        await self._shards.submit_to(place, Settle(()))

    async def _discard_snapshots(self, places: Sequence[QueuePlace]) -> None:
        for place in places:
            await self._offload(lambda place=place: self._shards.snapshots.discard(place))  # type: ignore[misc]

    def _done(self, task: asyncio.Future[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            # A shard that cannot be loaded says so through `on_failure`, and to whoever asks next.
            task.exception()

"""QueuePositions: where groups stand in the topics that they read as queues, and how they are moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from goqueue.broker.replicas.partitions import Partitions
from goqueue.broker.topics import TopicService
from goqueue.delivery.agreement import Agreement
from goqueue.delivery.leases.taker import Taker
from goqueue.delivery.settlement.settler import Settler
from goqueue.delivery.shards import QueueShards
from goqueue.delivery.state.commands import ForgetQueue, OpenQueue, ResetQueue
from goqueue.delivery.state.records import QueueId
from goqueue.delivery.table import NodeQueues
from goqueue.errors import PartitionNotFound, TopicNotFound
from goqueue.records import TopicPartition


class QueuePositions:
    """The lowest unsettled offset of a group, per partition."""

    def __init__(
        self,
        shards: QueueShards,
        queues: NodeQueues,
        taker: Taker,
        settler: Settler,
        agreement: Agreement,
        *,
        topics: TopicService,
        partitions: Partitions,
    ) -> None:
        self._shards = shards
        self._queues = queues
        self._taker = taker
        self._settler = settler
        self._agreement = agreement
        self._topics = topics
        self._partitions = partitions

    async def committed(self, group: str, places: Sequence[TopicPartition] | None) -> dict[TopicPartition, int]:
        """Per place (None: wherever the group was) the lowest offset not settled; where it never was is left out."""
        found: dict[TopicPartition, int] = {}
        if places is None:
            await self._shards.load_all()
            places = [
                TopicPartition(topic, queue.id.partition)
                for queue in self._queues.of_group(group)
                if (topic := self._shards.topic_of(queue)) is not None
            ]
        for place in places:
            partition = await self._partitions.open_leader(place.topic, place.partition)
            queue = await self._shards.known(QueueId(group, partition.topic_id, place.partition))
            if queue is not None and (queue.sequence or queue.outstanding):
                await self._agreement.reach(queue.id, partition)
                await self._taker.look(queue, partition, 1)
                found[place] = self._settler.lowest(queue, partition)
        return found

    async def unsettled(self, group: str, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Messages that the group has not settled, where it has received: outstanding and untouched ones."""
        found: dict[TopicPartition, int] = {}
        for place in places:
            try:
                partition = await self._partitions.open_leader(*place)
            except (TopicNotFound, PartitionNotFound):
                continue
            queue = await self._shards.known(QueueId(group, partition.topic_id, place.partition))
            if queue is None or not (queue.sequence or queue.outstanding):
                continue
            end, top = partition.log.last_stable_offset, max(queue.cursors)
            found[place] = len(queue.outstanding) + max(end - top, 0) + await self._taker.behind(queue, partition, top)
        return found

    async def reset(self, group: str, offsets: Mapping[TopicPartition, int], incarnation: int = 0) -> None:
        """Let the group go on from these offsets; refused while its consumers hold messages.

        A queue that is left of an earlier group of the name is forgotten first: the next receive would forget this too.
        """
        queues = {place: self._shards.id_of(group, place) for place in offsets}
        for place, queue_id in queues.items():
            epoch = (await self._partitions.open_leader(*place)).leader_epoch
            if await self._shards.known(queue_id) is not None:
                opening = OpenQueue(queue_id, 0, epoch=epoch, incarnation=incarnation)
                if await self._shards.submit(queue_id, opening):
                    await self._shards.submit(queue_id, opening)
            await self._shards.submit(queue_id, ResetQueue(queue_id, offsets[place], epoch))
            self._queues.wake(queue_id)

    async def forget(self, group: str) -> None:
        """The group was deleted: so is its state."""
        await self._shards.load_all()
        for queue in self._queues.of_group(group):
            await self._shards.submit(queue.id, ForgetQueue(queue.id))

    async def forget_topic(self, group: str, topic: str) -> bool:
        """Let the group begin the topic anew; refused while its consumers hold messages. Whether it ever read it."""
        topic_id = self._topics.get(topic).topic_id
        await self._shards.load_all()
        known = [one for one in self._queues.of_group(group) if one.id.topic_id == topic_id]
        known = [one for one in known if one.sequence or one.outstanding]
        for queue in known:
            await self._shards.submit(queue.id, ForgetQueue(queue.id, idle_only=True))
        return bool(known)

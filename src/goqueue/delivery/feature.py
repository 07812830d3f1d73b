"""Delivery, put together: what the composition root calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from goqueue.broker.partitions import Partitions
from goqueue.broker.producer_ids import ProducerIds
from goqueue.broker.publish import PublishService
from goqueue.broker.topics import TopicService
from goqueue.clock import Clock, Rng
from goqueue.config import DeliveryConfig
from goqueue.coordinator.runtime import Coordinator, OnFailure
from goqueue.coordinator.topic import CoordinatorTopic
from goqueue.delivery.agreement import Agreement
from goqueue.delivery.dead_letters.dead_letter_moves import DeadLetters, OnMoved
from goqueue.delivery.dead_letters.dead_letter_moves import OnFailure as OnDeadLetterFailure
from goqueue.delivery.dead_letters.originals import Originals
from goqueue.delivery.dead_letters.redriven_topics import RedrivenTopics
from goqueue.delivery.leases.taker import Taker
from goqueue.delivery.machine import DeliveryMachine, QueueObserver
from goqueue.delivery.observer import DeliveryObserver
from goqueue.delivery.parts import DeliveryParts
from goqueue.delivery.positions import QueuePositions
from goqueue.delivery.reading.acquired_batches import Stretches
from goqueue.delivery.receiving import Receiver
from goqueue.delivery.service import DeliveryService
from goqueue.delivery.settlement.promises import CheckTransaction, Promises
from goqueue.delivery.settlement.settler import Settler
from goqueue.delivery.shards import DELIVERY_STATE, QueueShards
from goqueue.delivery.table import NodeQueues
from goqueue.delivery.values import GroupSettingsOf
from goqueue.metadata.events import Delta, TopicDeleted
from goqueue.ports import Files, Offload

# Small segments: only sealed ones are compacted, and replay reads what is not.
_TOPIC_CONFIG: Mapping[str, str] = MappingProxyType(
    {"cleanup.policy": "compact", "segment.bytes": str(16 * 1024 * 1024)}
)


def feature(
    *,
    config: DeliveryConfig,
    topics: TopicService,
    partitions: Partitions,
    publish: PublishService,
    producer_ids: ProducerIds,
    group_settings: GroupSettingsOf,
    subscribe: Callable[[Callable[[Delta], None]], object],
    files: Files,
    offload: Offload,
    clock: Clock,
    rng: Rng,
    on_failure: OnFailure | None = None,
    check_transaction: CheckTransaction | None = None,
    on_dead_letter_failure: OnDeadLetterFailure | None = None,
    on_moved: OnMoved | None = None,
    queue_observer: QueueObserver | None = None,
    observers: Sequence[DeliveryObserver] = (),
) -> DeliveryService:
    """The delivery service over `__delivery_state`; what its log says is loaded in the background."""
    dead_letters = DeadLetters(
        topics=topics,
        partitions=partitions,
        publish=publish,
        producer_ids=producer_ids,
        offload=offload,
        clock=clock,
        on_failure=on_dead_letter_failure,
        on_moved=on_moved,
    )
    queues = NodeQueues(dead_letters.notice)
    topic = CoordinatorTopic(
        topics, partitions, DELIVERY_STATE, partition_count=config.state_partitions, config=_TOPIC_CONFIG
    )

    def shard_dropped(shard: int, reason: BaseException) -> None:
        queues.drop_shard(lambda queue_id: coordinator.partition_for(queue_id.text) == shard)
        if on_failure is not None:
            on_failure(shard, reason)

    coordinator = Coordinator(
        DELIVERY_STATE,
        topic.partition_count,
        lambda: DeliveryMachine(queues, queue_observer),
        open_partition=topic,
        files=files,
        offload=offload,
        clock=clock,
        on_failure=shard_dropped,
        refusal=topic.refusal,
    )
    topic.follow_roles(coordinator)
    agreement = Agreement(coordinator, queues)
    dead_letters.serve(coordinator, agreement)
    settler = Settler(
        coordinator,
        queues,
        dead_letters,
        topics=topics,
        partitions=partitions,
        rng=rng,
        receipts_max=config.receive_max,
    )
    taker = Taker(coordinator, queues, offload=offload, clock=clock, rng=rng)
    shards = QueueShards(coordinator, queues, topics=topics, partitions=partitions)
    positions = QueuePositions(shards, queues, taker, settler, agreement, topics=topics, partitions=partitions)
    parts = DeliveryParts(
        shards,
        queues,
        taker,
        settler,
        Promises(coordinator, settler, check_transaction),
        positions,
        Stretches(partitions, offload),
        agreement,
        dead_letters,
        Originals(shards, agreement, topics=topics, partitions=partitions, offload=offload, clock=clock),
        RedrivenTopics(shards, topics),
    )
    receiver = Receiver(
        parts, config=config, topics=topics, partitions=partitions, group_settings=group_settings, clock=clock
    )
    service = DeliveryService(
        parts,
        receiver,
        config=config,
        topics=topics,
        partitions=partitions,
        group_settings=group_settings,
        clock=clock,
        rng=rng,
        observers=observers,
    )

    def on_delta(delta: Delta) -> None:
        for event in delta.events:
            if isinstance(event, TopicDeleted):
                positions.topic_deleted(event.topic_id)

    subscribe(on_delta)
    shards.start(topic.led())
    return service

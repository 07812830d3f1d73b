"""Delivery, put together: what the composition root calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from goqueue.broker.arrivals.append_anywhere import AppendAnywhere
from goqueue.broker.arrivals.producer_ids import ProducerIds
from goqueue.broker.replicas.partitions import Partitions
from goqueue.broker.topics import TopicService
from goqueue.clock import Clock, Rng
from goqueue.config import DeliveryConfig
from goqueue.coordinator.runtime import OnFailure, Shards
from goqueue.delivery.agreement import Agreement
from goqueue.delivery.dead_letters.dead_letter_moves import DeadLetters, OnMoved
from goqueue.delivery.dead_letters.dead_letter_moves import OnFailure as OnDeadLetterFailure
from goqueue.delivery.dead_letters.originals import Originals
from goqueue.delivery.dead_letters.redriven_topics import RedrivenTopics
from goqueue.delivery.leases.taker import Taker
from goqueue.delivery.observer import DeliveryObserver
from goqueue.delivery.parts import DeliveryParts
from goqueue.delivery.positions import QueuePositions
from goqueue.delivery.reading.acquired_batches import AcquiredReads
from goqueue.delivery.receiving import Receiver, SessionProblem
from goqueue.delivery.service import DeliveryService
from goqueue.delivery.settlement.promises import CheckTransaction, Promises, VerifyTransaction
from goqueue.delivery.settlement.settler import Settler
from goqueue.delivery.shards import DELIVERY_LOGS, DeliveryLogs, QueueShards
from goqueue.delivery.state.listeners import QueueObserver
from goqueue.delivery.state.machine import DeliveryMachine
from goqueue.delivery.state.records import QueuePlace
from goqueue.delivery.table import NodeQueues
from goqueue.delivery.values import GroupSettingsOf
from goqueue.errors import NotFound, NotLeader
from goqueue.metadata.events import Delta, TopicDeleted
from goqueue.ports import Files, Offload

# A stop leaves a snapshot only where it saves a replay of so many batches: there are many delivery logs.
_CLOSING_OFFSETS = 1000


def feature(
    *,
    config: DeliveryConfig,
    topics: TopicService,
    partitions: Partitions,
    append_anywhere: AppendAnywhere,
    producer_ids: ProducerIds,
    group_settings: GroupSettingsOf,
    check_transaction: CheckTransaction,
    verify_transaction: VerifyTransaction,
    subscribe: Callable[[Callable[[Delta], None]], object],
    files: Files,
    offload: Offload,
    clock: Clock,
    rng: Rng,
    on_failure: OnFailure[QueuePlace] | None = None,
    on_dead_letter_failure: OnDeadLetterFailure | None = None,
    on_moved: OnMoved | None = None,
    queue_observer: QueueObserver | None = None,
    observers: Sequence[DeliveryObserver] = (),
    session_problem: SessionProblem | None = None,
) -> DeliveryService:
    """The delivery service over the delivery logs of partitions; what they say is loaded in the background.

    `session_problem` says, in a cluster, why this node may not speak for what it leads.
    """
    dead_letters = DeadLetters(
        topics=topics,
        partitions=partitions,
        append_anywhere=append_anywhere,
        producer_ids=producer_ids,
        offload=offload,
        clock=clock,
        on_failure=on_dead_letter_failure,
        on_moved=on_moved,
    )
    queues = NodeQueues(dead_letters.notice)
    logs = DeliveryLogs(topics, partitions)

    def shard_dropped(place: QueuePlace, reason: BaseException) -> None:
        queues.drop_all_at(place)
        if on_failure is not None and not isinstance(reason, NotFound):
            on_failure(place, reason)

    coordinator: Shards[QueuePlace] = Shards(
        DELIVERY_LOGS,
        lambda: DeliveryMachine(queues, queue_observer),
        open_partition=logs,
        files=files,
        offload=offload,
        clock=clock,
        closing_offsets=_CLOSING_OFFSETS,
        on_failure=shard_dropped,
        refusal=logs.refusal,
        not_here=NotLeader,
    )
    logs.follow_roles(coordinator)
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
    shards = QueueShards(coordinator, logs, queues, topics=topics, partitions=partitions, offload=offload)
    positions = QueuePositions(shards, queues, taker, settler, agreement, topics=topics, partitions=partitions)
    parts = DeliveryParts(
        shards,
        queues,
        taker,
        settler,
        Promises(coordinator, logs, settler, check_transaction, verify_transaction),
        positions,
        AcquiredReads(partitions, offload),
        agreement,
        dead_letters,
        Originals(shards, agreement, topics=topics, partitions=partitions, offload=offload, clock=clock),
        RedrivenTopics(shards, topics, clock),
    )
    receiver = Receiver(
        parts,
        config=config,
        topics=topics,
        partitions=partitions,
        group_settings=group_settings,
        clock=clock,
        session_problem=session_problem,
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
                shards.topic_deleted(event.topic_id)

    subscribe(on_delta)
    shards.start(logs.led())
    return service

"""Transactions, put together: what the composition root calls."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import cast

from goqueue.broker.arrivals.producer_ids import ProducerIds
from goqueue.broker.replicas.partitions import Partitions
from goqueue.broker.topics import TopicService
from goqueue.clock import Clock
from goqueue.config import TransactionsConfig
from goqueue.coordinator.runtime import Coordinator, OnFailure
from goqueue.coordinator.shard import Machine
from goqueue.coordinator.topic import CoordinatorTopic
from goqueue.errors import NotLeader
from goqueue.ports import Files, Offload
from goqueue.records import TopicPartition
from goqueue.transactions.ending import EndAt
from goqueue.transactions.machine import TransactionMachine
from goqueue.transactions.markers import CatchUp, Markers, OnRetry
from goqueue.transactions.open_transactions import OpenTransactions, ShardProducers
from goqueue.transactions.service import TRANSACTION_STATE, GroupPlace, TransactionService
from goqueue.transactions.statistics import TransactionStatistics

# Small segments: only sealed ones are compacted, and replay reads what is not.
_TOPIC_CONFIG: Mapping[str, str] = MappingProxyType(
    {"cleanup.policy": "compact", "segment.bytes": str(16 * 1024 * 1024)}
)


async def feature(
    *,
    config: TransactionsConfig,
    open_transactions: OpenTransactions,
    topics: TopicService,
    partitions: Partitions,
    end_at: EndAt,
    producer_ids: ProducerIds,
    group_place: GroupPlace,
    files: Files,
    offload: Offload,
    clock: Clock,
    on_failure: OnFailure[int] | None = None,
    on_retry: OnRetry | None = None,
    catch_up: CatchUp | None = None,
) -> TransactionService:
    """The transaction service over `__transaction_state`, with all that its log says in memory."""
    topic = CoordinatorTopic(
        topics, partitions, TRANSACTION_STATE, partition_count=config.state_partitions, config=_TOPIC_CONFIG
    )
    statistics = TransactionStatistics()

    def epoch_of(shard: int) -> int:
        # The epoch of the coordinator is that of its partition: whoever takes it over has a higher one.
        return partitions.leader(TRANSACTION_STATE, shard).leader_epoch

    def shard_loaded(shard: int, machine: Machine) -> None:
        open_transactions.show(shard, cast("TransactionMachine", machine).producers, epoch_of(shard))
        # What was decided in an earlier term is carried out in this one.
        markers.watch([shard])

    def shard_dropped(shard: int, reason: BaseException) -> None:
        if isinstance(reason, NotLeader):
            open_transactions.forget(shard)
            markers.leave(shard)
        if on_failure is not None:
            on_failure(shard, reason)

    coordinator = Coordinator(
        TRANSACTION_STATE,
        topic.partition_count,
        lambda: TransactionMachine(config, ShardProducers(), statistics),
        open_partition=topic,
        files=files,
        offload=offload,
        clock=clock,
        on_failure=shard_dropped,
        on_loaded=shard_loaded,
        refusal=topic.refusal,
    )
    markers = Markers(
        coordinator,
        partitions,
        end_at,
        epoch_of,
        clock=clock,
        statistics=statistics,
        on_retry=on_retry,
        catch_up=catch_up,
    )

    def new_term(place: TopicPartition, _role: object) -> None:
        # Also while the shard is not in memory, because its log had failed: then nothing of it is dropped.
        if place.topic == TRANSACTION_STATE:
            open_transactions.forget(place.partition)
            markers.leave(place.partition)

    partitions.on_role(new_term)
    topic.follow_roles(coordinator)
    service = TransactionService(
        coordinator,
        topics,
        producer_ids,
        markers,
        open_transactions=open_transactions,
        statistics=statistics,
        config=config,
        group_place=group_place,
        clock=clock,
    )
    await service.start(topic.led())
    return service

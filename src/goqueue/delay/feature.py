"""Delay, put together: what the composition root calls."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from goqueue.broker.partitions import Partition, Partitions
from goqueue.broker.producer_ids import ProducerIds
from goqueue.broker.publish import PublishService
from goqueue.broker.topics import TopicService
from goqueue.clock import Clock
from goqueue.config import DelayConfig
from goqueue.coordinator.topic import CoordinatorTopic
from goqueue.delay.driver import Driver
from goqueue.delay.index import DueIndex
from goqueue.delay.indexing import OnTrouble, OpenIndex
from goqueue.delay.observer import DelayObserver
from goqueue.delay.service import DelayService, OnHold
from goqueue.delay.shards import DELAYED, DelayShard, DelayShards
from goqueue.delay.store import Store
from goqueue.errors import NotLeader
from goqueue.ports import Files, Offload

_INDEX_DIRECTORY = "delay"
# A batch here holds messages of any size that any topic takes, and is never sent by a client.
_TOPIC_CONFIG: Mapping[str, str] = MappingProxyType(
    {
        "cleanup.policy": "compact",
        "segment.bytes": str(16 * 1024 * 1024),
        "max.message.bytes": str(2**31 - 1),
        "message.timestamp.type": "CreateTime",
    }
)


def feature(
    *,
    config: DelayConfig,
    topics: TopicService,
    partitions: Partitions,
    publish: PublishService,
    producer_ids: ProducerIds,
    files: Files,
    index_root: str | None,
    offload: Offload,
    clock: Clock,
    on_trouble: OnTrouble,
    observer: DelayObserver | None = None,
    on_hold: Sequence[OnHold] = (),
) -> DelayService:
    """The delay service over `__delayed`; what is due from before fires as soon as its shard is loaded.

    `index_root` is the directory of the operating system in which the due indexes may lie; None
    keeps them in memory.
    """
    topic = CoordinatorTopic(topics, partitions, DELAYED, partition_count=config.state_partitions, config=_TOPIC_CONFIG)

    async def open_shard(number: int) -> DelayShard:
        partition = await topic(number)
        store = Store(
            partition,
            _opener(files, index_root, on_trouble),
            config=config,
            clock=clock,
            offload=offload,
            on_trouble=on_trouble,
        )
        await store.load()
        if partition.writer.is_over:
            # Nothing may be delivered on the word of a log that another node leads by now.
            await store.close()
            raise NotLeader(f"shard {number} of {DELAYED} was dropped while it was loaded")
        driver = Driver(
            store,
            publish=publish,
            partitions=partitions,
            producer_ids=producer_ids,
            config=config,
            clock=clock,
            on_trouble=on_trouble,
            observer=observer,
        )
        driver.start()
        return DelayShard(store, driver)

    shards = DelayShards(open_shard, topic.refusal, clock, on_trouble)
    service = DelayService(
        topics,
        partition_count=lambda: topic.partition_count,
        shards=shards,
        config=config,
        clock=clock,
        observer=observer,
        on_hold=on_hold,
    )
    topic.follow_roles(shards)
    service.start(topic.led())
    return service


def _opener(files: Files, root: str | None, on_trouble: OnTrouble) -> OpenIndex:
    def open_index(partition: Partition, damage: sqlite3.DatabaseError | None) -> DueIndex:
        path = None
        if root is not None:
            files.make_dirs(_INDEX_DIRECTORY)
            path = f"{root}/{_INDEX_DIRECTORY}/{partition.id}.due"
        return DueIndex(
            path,
            partition.log.topic_id,
            end_offset_max=partition.log.end_offset,
            remove=lambda one: files.remove(one.removeprefix(f"{root}/")),
            on_rebuild=on_trouble,
            damage=damage,
        )

    return open_index

"""Delay, put together: what the composition root calls."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace

import mmh3

from goqueue.broker.arrivals.producer_ids import ProducerIds
from goqueue.broker.arrivals.publish import PublishService
from goqueue.broker.replicas.partitions import Partitions
from goqueue.broker.topics import TopicService
from goqueue.clock import Clock
from goqueue.config import DelayConfig
from goqueue.delay.due.following import FollowerFeed
from goqueue.delay.due.index import FILES, DueIndex
from goqueue.delay.due.index_in_use import OpenIndex
from goqueue.delay.due.indexing import Indexing, OnTrouble
from goqueue.delay.due.near import Near
from goqueue.delay.firing.driver import Driver
from goqueue.delay.holding.store import Store
from goqueue.delay.holding.stores import Stores
from goqueue.delay.observer import DelayObserver
from goqueue.delay.service import DelayService, OnHold
from goqueue.metadata.events import Delta, TopicDeleted
from goqueue.ports import Files, Offload
from goqueue.records import LogKind, TopicPartition

_INDEX_DIRECTORY = "delay"
_NEAR_MIN = 100


def feature(
    *,
    config: DelayConfig,
    topics: TopicService,
    partitions: Partitions,
    publish: PublishService,
    producer_ids: ProducerIds,
    subscribe: Callable[[Callable[[Delta], None]], object],
    files: Files,
    index_root: str | None,
    offload: Offload,
    clock: Clock,
    on_trouble: OnTrouble,
    observer: DelayObserver | None = None,
    on_hold: Sequence[OnHold] = (),
) -> DelayService:
    """The delay service over the delay logs; what is due from before fires as soon as its partition is loaded.

    `index_root` is the directory of the operating system in which the due index may lie; None
    keeps it in memory.
    """
    near_config = replace(config, near_max=max(config.near_max // FILES, _NEAR_MIN))
    index_files = [
        Indexing(
            _opener(number, files, index_root, on_trouble),
            Near(near_config, clock),
            offload=offload,
            clock=clock,
            on_trouble=on_trouble,
        )
        for number in range(FILES)
    ]
    driver = Driver(
        index_files,
        publish=publish,
        producer_ids=producer_ids,
        config=config,
        offload=offload,
        clock=clock,
        on_trouble=on_trouble,
        observer=observer,
    )

    def file_of(topic_id: bytes, partition: int) -> Indexing:
        return index_files[mmh3.hash(topic_id + b"%d" % partition, signed=False) % FILES]

    async def open_store(place: TopicPartition) -> Store:
        member = await partitions.open_member(place, LogKind.DELAY)
        partition = partitions.leader(*place)
        file = file_of(partition.topic_id.bytes, partition.id)
        store = Store(partition, member, file, clock=clock, offload=offload)
        await store.load()
        return store

    feed = FollowerFeed(partitions, file_of, on_trouble)
    stores = Stores(partitions, topics.by_id, open_store, index_files, driver, feed, clock, on_trouble)

    def on_delta(delta: Delta) -> None:
        for event in delta.events:
            if isinstance(event, TopicDeleted):
                stores.drop_topic(event.name)

    service = DelayService(
        topics,
        partitions,
        stores=stores,
        files=index_files,
        driver=driver,
        clock=clock,
        observer=observer,
        on_hold=on_hold,
    )
    subscribe(on_delta)
    stores.start()
    return service


def _opener(number: int, files: Files, root: str | None, on_trouble: OnTrouble) -> OpenIndex:
    def open_index(damage: sqlite3.DatabaseError | None) -> DueIndex:
        path = None
        if root is not None:
            files.make_dirs(_INDEX_DIRECTORY)
            path = f"{root}/{_INDEX_DIRECTORY}/due-{number}.index"
        return DueIndex(
            path,
            number,
            remove=lambda one: files.remove(one.removeprefix(f"{root}/")),
            on_rebuild=on_trouble,
            damage=damage,
        )

    return open_index

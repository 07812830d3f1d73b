"""The broker's services on one disk, put together as the node does it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from threading import Lock
from typing import TypeVar

from goqueue.broker.arrivals.arrival import AfterAppend, Step
from goqueue.broker.arrivals.deduplication.step import RemoveRepeats
from goqueue.broker.arrivals.deduplication.windows import Deduplication
from goqueue.broker.arrivals.disk_guard import DiskGuard
from goqueue.broker.arrivals.producer_ids import ProducerIds
from goqueue.broker.arrivals.publish import PublishService
from goqueue.broker.arrivals.steps import FindLane, Limits, RefuseInternal, RequireKeys, StampRecords, TellHooks, Write
from goqueue.broker.reading.answer_budget import AnswerBudget
from goqueue.broker.reading.fetch import FetchedPartition, FetchQuery, FetchService, PartitionRead
from goqueue.broker.reading.queries import PartitionQueries
from goqueue.broker.replicas.partitions import Partitions
from goqueue.broker.topics import NewTopic, TopicService
from goqueue.clock import Clock
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import encode_batch
from goqueue.config import Config
from goqueue.metadata.events import Topic
from goqueue.metadata.local import LocalMetadata
from goqueue.node.disk.flusher import Flusher
from goqueue.ports import Files, Offload
from goqueue.records import Acks, Isolation, NewRecord, Record
from goqueue.testing.clock import ManualClock
from goqueue.testing.memory_files import MemoryFiles
from goqueue.transactions.open_transactions import OpenTransactions

T = TypeVar("T")


async def at_once(work: Callable[[], T]) -> T:
    """An offload without threads: it gives way once, as a real one would, and then does the work."""
    await asyncio.sleep(0)
    return work()


class Stack:
    """Open it, use its services, stop it or pull the plug."""

    def __init__(
        self,
        files: Files | None = None,
        clock: Clock | None = None,
        *,
        config: Config | None = None,
        offload: Offload = at_once,
        asked_of_clients: Sequence[Step] = (),
        after_append: Sequence[AfterAppend] = (),
        transactions: bool = False,
        seed: int = 0,
    ) -> None:
        self.files = files if files is not None else MemoryFiles()
        self.clock = clock if clock is not None else ManualClock()
        self.config = config if config is not None else Config()
        self.offload = offload
        rng = Random(f"{seed}/{len(self.files.list(''))}")
        self.metadata = LocalMetadata.open(self.files, clock=self.clock, rng=rng, offload=offload)
        self.flusher = Flusher(self.files, offload, self.config.durability)
        self.partitions = Partitions(
            node_id=self.config.broker.node_id,
            make_lock=Lock,
            files=self.files,
            metadata=self.metadata,
            syncer=self.flusher,
            offload=offload,
            clock=self.clock,
            log_config=self.config.log,
        )
        self.topics = TopicService(
            self.metadata,
            self.partitions,
            broker=self.config.broker,
            log=self.config.log,
            delivery=self.config.delivery,
            clock=self.clock,
            rng=rng,
        )
        guard = DiskGuard(self.files, free_bytes_min=self.config.durability.disk_free_bytes_min)
        self.deduplication = Deduplication(offload, ids_max=self.config.limits.deduplication_ids_max)
        steps: list[Step] = [
            RefuseInternal(),
            Limits(),
            guard,
            # With transactions, tests make batches of them without a coordinator.
            *([] if transactions else [OpenTransactions()]),
            StampRecords(),
            RequireKeys(),
            *asked_of_clients,
            RemoveRepeats(self.deduplication),
            FindLane(),
            Write(),
            TellHooks(after_append),
        ]
        self.publish = PublishService(self.partitions, clock=self.clock, steps=steps, deduplication=self.deduplication)
        self.answers = AnswerBudget(
            self.config.limits.answer_bytes_max,
            unread_ms_max=self.config.limits.unread_answer_ms_max,
            wait_ms_max=self.config.limits.answer_wait_ms_max,
        )
        self.fetch = FetchService(self.partitions, offload=offload, limits=self.config.limits, answers=self.answers)
        self.queries = PartitionQueries(self.partitions, self.metadata, files=self.files, data_dir="data")
        self.producer_ids = ProducerIds(self.metadata)

    async def start(self) -> Stack:
        await self.partitions.start()
        return self

    async def stop(self) -> None:
        await self.flusher.close()
        assert await self.partitions.close() == []
        await self.metadata.close()

    async def topic(self, name: str = "t", partitions: int = 1, **config: str) -> Topic:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        return await self.topics.create(NewTopic(name, partitions, config=settings))

    def batch(self, *values: bytes, key: bytes | None = None) -> bytes:
        return encode_batch([NewRecord(key, value) for value in values], now_ms=self.clock.now_ms())

    async def write(self, *values: bytes, topic: str = "t", partition: int = 0, acks: Acks = Acks.ALL) -> int:
        """Publish one batch, wait for it, return its base offset."""
        pending = self.publish.append(topic, partition, self.batch(*values), acks=acks)
        if pending.durable is not None:
            await pending.durable
        return pending.appended.base_offset

    async def read(
        self,
        offset: int = 0,
        *,
        topic: str = "t",
        partition: int = 0,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        **query: int,
    ) -> FetchedPartition:
        """Fetch one partition once."""
        reads = [PartitionRead(topic, partition, offset, 2**20)]
        asked = FetchQuery(reads, **{"max_bytes": 2**20, **query}, isolation=isolation)
        (fetched,) = await self.fetch.fetch(asked)
        return fetched

    async def read_all(self, topic: str = "t", partition: int = 0) -> list[Record]:
        """Every record of a partition, fetched in as many rounds as it takes."""
        found: list[Record] = []
        offset = self.queries.offsets(topic, partition).log_start_offset
        while True:
            fetched = await self.read(offset, topic=topic, partition=partition)
            if fetched.error is not None:
                raise fetched.error
            records = records_in(fetched)
            if not records:
                return found
            found += [record for record in records if record.offset >= offset]
            offset = records[-1].offset + 1


def records_in(fetched: FetchedPartition) -> list[Record]:
    return [record for batch in fetched.batches for record in decode_records(batch)]


def values_in(fetched: FetchedPartition) -> list[bytes | None]:
    return [record.value for record in records_in(fetched)]

"""Quarantine: records that their schema does not allow are copied to `{topic}.invalid` and removed from their batch.

A copy has the record's bytes and headers, and its history as headers in the way of dead letters, so that the tools
for dead letters list it and send it on. It is durable before the batch is acknowledged, on whichever node. A batch that
is sent again by an idempotent producer is not copied again: a copy's deduplication id is the record's sequence.
Copies of a transaction's records are part of it: commit shows the rest of the batch and the copies, abort neither.

The copies are on their way when the rest of the batch is written. If they cannot be stored, the batch is not
acknowledged: its producer sends it again, and then only what is missing is written.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from goqueue.broker.arrivals.append_anywhere import AppendAnywhere
from goqueue.broker.arrivals.arrival import Arrival
from goqueue.broker.arrivals.deduplication.ids import DEDUPLICATION_HEADER
from goqueue.broker.topics import NewTopic, TopicService
from goqueue.codec.batch_encode import encode_batch
from goqueue.errors import MessageTooLarge
from goqueue.ids import QUARANTINE_SUFFIX
from goqueue.records import Acks, Header, NewRecord, Record, TopicPartition

if TYPE_CHECKING:
    from goqueue.broker.replicas.partitions import Partition

# Told of a batch whose bad records were copied: where to, the offset of the first copy, and the reason of each.
OnMoved = Callable[[Arrival, TopicPartition, int, Sequence[str]], None]
REASON = "invalid_value"
# How long a batch that is sent again is recognised.
_WINDOW_MS = 24 * 3600 * 1000
_CLOSE_SECONDS_MAX = 5.0


class OpenTransactions(Protocol):
    """The transactions that records in quarantine are part of."""

    def number_at(self, producer_id: int, place: TopicPartition, /) -> int:
        """Which transaction of the producer is open in a partition that this node leads."""
        ...

    def enlist(self, producer_id: int, producer_epoch: int, place: TopicPartition, number: int, /) -> Awaitable[None]:
        """Make another partition part of that transaction, wherever it is coordinated; raises if it has ended."""
        ...


class Quarantine:
    """Moves records to quarantine. `history_prefix` begins the names of the headers that tell their history."""

    def __init__(
        self,
        topics: TopicService,
        append: AppendAnywhere,
        *,
        history_prefix: str,
        on_moved: OnMoved | None = None,
    ) -> None:
        self._topics = topics
        self._append = append
        self._prefix = history_prefix
        self._on_moved = on_moved
        # Set by the node, whose transactions come after schemas.
        self.transactions: OpenTransactions | None = None
        self._under_way: set[asyncio.Task[None]] = set()
        # Counted for the metrics, by topic.
        self.moved: Counter[str] = Counter()

    def is_ready(self, partition: Partition) -> bool:
        """Whether records of the partition could be moved now, or never will be."""
        return partition.config.schema_invalid == "refuse" or self._topics.find(_name(partition)) is not None

    async def make_ready(self, partition: Partition) -> None:
        """Make the topic of quarantined records, if records of this partition go there."""
        if not self.is_ready(partition):
            count = self._topics.get(partition.topic_name).partition_count
            config = {"goqueue.dedup.window.ms": str(_WINDOW_MS)}
            await self._topics.ensure_as(NewTopic(_name(partition), count, config=config))

    def move(self, arrival: Arrival, bad: Mapping[int, str]) -> None:
        """Copy the bad records, and go on with the others."""
        place, header = arrival.partition, arrival.header
        # What is not the producer's next batch is refused before anything is copied.
        place.log.producers.check(header)
        records = arrival.records()
        copies = [self._copy(arrival, position, records[position], reason) for position, reason in bad.items()]
        name = _name(place)
        target = TopicPartition(name, place.id % self._topics.get(name).partition_count)
        batch = encode_batch(
            copies,
            now_ms=arrival.now_ms,
            producer_id=header.producer_id if header.is_transactional else -1,
            producer_epoch=header.producer_epoch if header.is_transactional else -1,
            transactional=header.is_transactional,
        )
        size_max = self._topics.config(name).max_message_bytes
        if len(batch) > size_max:
            raise MessageTooLarge(len(batch), size_max)
        number = None
        if header.is_transactional and self.transactions is not None:
            number = self.transactions.number_at(header.producer_id, place.key)
        task = asyncio.get_running_loop().create_task(self._store(arrival, target, batch, list(bad.values()), number))
        self._under_way.add(task)
        task.add_done_callback(self._done)
        arrival.wait_for(_Shielded(task))
        arrival.thin([record for position, record in enumerate(records) if position not in bad])

    async def close(self) -> None:
        """Wait a moment for copies that are on their way. Batches whose copies are given up were not acknowledged."""
        left = set(self._under_way)
        if left:
            _, left = await asyncio.wait(left, timeout=_CLOSE_SECONDS_MAX)
        for task in left:
            task.cancel()

    async def _store(
        self, arrival: Arrival, target: TopicPartition, batch: bytes, reasons: Sequence[str], number: int | None
    ) -> None:
        header = arrival.header
        if number is not None and self.transactions is not None:
            await self.transactions.enlist(header.producer_id, header.producer_epoch, target, number)
        appended = (await self._append(target, batch, Acks.ALL, transaction=number)).appended
        self.moved[arrival.partition.topic_name] += len(reasons)
        if self._on_moved is not None and not appended.duplicate:
            self._on_moved(arrival, target, appended.base_offset, reasons)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            # Whoever waits for it is told. With acks=0 nobody does.
            task.exception()

    def _copy(self, arrival: Arrival, position: int, record: Record, reason: str) -> NewRecord:
        place, header, prefix = arrival.partition, arrival.header, self._prefix
        headers: list[Header] = []
        is_idempotent = header.producer_id >= 0 and header.base_sequence >= 0
        for name, value in record.headers:
            renamed = f"{prefix}dedup-id" if name == DEDUPLICATION_HEADER and is_idempotent else name
            headers.append((renamed, value))
        history = {
            "topic": place.topic_name,
            "partition": str(place.id),
            "timestamp": str(record.timestamp_ms),
            "died": str(arrival.now_ms),
            "reason": REASON,
            "error": reason,
            "client": arrival.caller.client_id,
        }
        headers += [(prefix + name, text.encode()) for name, text in history.items() if text]
        if is_idempotent:
            sequence = (header.base_sequence + position) & 0x7FFF_FFFF
            identity = f"{place.topic_id}/{place.id}/{header.producer_id}/{header.producer_epoch}/{sequence}"
            headers.append((DEDUPLICATION_HEADER, identity.encode()))
        return NewRecord(record.key, record.value, tuple(headers), record.timestamp_ms)


class _Shielded:
    """A wait for copies that goes on without them when the producer does not wait any longer."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def __await__(self) -> Generator[Any, None, None]:
        return asyncio.shield(self._task).__await__()


def _name(partition: Partition) -> str:
    return partition.topic_name + QUARANTINE_SUFFIX

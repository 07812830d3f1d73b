"""Quarantine: records that their schema does not allow are copied to `{topic}.invalid` and removed from their batch.

A copy has the record's bytes and headers, and its history as headers in the way of dead letters, so that the tools
for dead letters list it and send it on. It is durable before the batch is acknowledged. A batch that is sent again
by an idempotent producer is not copied again: a copy's deduplication id is the record's sequence.
A batch of a transaction is refused instead, since the copy could not be part of the transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from goqueue.broker.arrival import Arrival
from goqueue.broker.deduplication import DEDUPLICATION_HEADER
from goqueue.broker.publish import PublishService
from goqueue.broker.topics import NewTopic, TopicService
from goqueue.codec.batch_encode import encode_batch
from goqueue.ids import QUARANTINE_SUFFIX
from goqueue.records import Acks, Header, NewRecord, Record

if TYPE_CHECKING:
    from goqueue.broker.partitions import Partition

REASON = "invalid_value"
# How long a batch that is sent again is recognised.
_WINDOW_MS = 24 * 3600 * 1000


class Quarantine:
    """Moves records to quarantine. `history_prefix` begins the names of the headers that tell their history."""

    def __init__(self, topics: TopicService, publish: PublishService, *, history_prefix: str) -> None:
        self._topics = topics
        self._publish = publish
        self._prefix = history_prefix
        # Counted for the metrics.
        self.moved = 0

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
        place = arrival.partition
        # What is not the producer's next batch is refused before anything is copied.
        place.log.check_producer(arrival.header)
        records = arrival.records()
        copies = [self._copy(arrival, position, records[position], reason) for position, reason in bad.items()]
        name = _name(place)
        partition = place.id % self._topics.get(name).partition_count
        batch = encode_batch(copies, now_ms=arrival.now_ms)
        pending = self._publish.append(name, partition, batch, acks=Acks.ALL, caller=arrival.caller)
        arrival.wait_for(pending.durable)
        arrival.thin([record for position, record in enumerate(records) if position not in bad])
        self.moved += len(copies)

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


def _name(partition: Partition) -> str:
    return partition.topic_name + QUARANTINE_SUFFIX

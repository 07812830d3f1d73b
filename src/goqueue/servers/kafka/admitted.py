"""Transactional produce requests whose partitions become part of the transaction by being written to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from goqueue.codec.batch import TRANSACTIONAL, parse_batch_header
from goqueue.errors import CorruptBatch, GoQueueError, TransactionalIdNotAuthorized
from goqueue.records import TopicPartition
from goqueue.security.model import Operation, Resource
from goqueue.servers.kafka.api import Context, Message
from goqueue.transactions.commands import Producer

if TYPE_CHECKING:
    from goqueue.ports import Buffer

# The low byte of a batch's attributes.
_ATTRIBUTES_AT = 22
# From this version on clients leave it to the server to add partitions (KIP-890).
IMPLICIT_FROM = 12


def waits_for(context: Context, request: Message) -> asyncio.Future[None] | None:
    """What the request must wait for before it is written; None if for nothing.

    A request has one producer. One that has several, which no client sends, is not waited for:
    the partitions refuse what is not in a transaction.
    """
    producers: set[Producer] = set()
    places: list[TopicPartition] = []
    for topic in request.topic_data:
        name = _name(context, topic)
        for partition in topic.partition_data:
            producer = _producer(partition.records)
            if producer is not None and name is not None:
                producers.add(producer)
                places.append(TopicPartition(name, partition.index))
    if len(producers) != 1:
        return None
    return context.services.transactions.admit(
        producers.pop(),
        places,
        implicit=context.api_version >= IMPLICIT_FROM,
        transactional_id=request.transactional_id,
    )


def require_owners(context: Context, request: Message) -> None:
    """Raise unless the caller may write in the name of every transaction that the batches say they are part of.

    The id in the request is the client's word alone: a batch belongs to the transaction of its producer. Where another
    node coordinates the transaction, this one knows whose it is once that node has confirmed the id in a request. So a
    request without an id is refused as long as nobody knows whose batches it has, as Kafka refuses it always.
    """
    for topic in request.topic_data:
        for partition in topic.partition_data:
            records = partition.records
            if records and len(records) > _ATTRIBUTES_AT and records[_ATTRIBUTES_AT] & TRANSACTIONAL:
                producer = _producer(records)
                if producer is None:
                    continue
                owner = context.services.transactions.owner_of(producer.producer_id)
                if owner is None and request.transactional_id is None:
                    raise TransactionalIdNotAuthorized("", "write")
                _require(context, owner)


async def require_owner(context: Context, producer_id: int) -> None:
    """Raise unless the caller may write in the name of the producer's transactional id or writer."""
    _require(context, await context.services.transactions.find_owner(producer_id))


def _require(context: Context, owner: str | None) -> None:
    if owner is not None:
        context.services.access.require(Operation.WRITE, Resource.TRANSACTIONAL_ID, owner)


def _name(context: Context, topic: Message) -> str | None:
    if topic.topic_id is None:
        return str(topic.name)
    try:
        return context.services.topics.by_id(topic.topic_id).name
    except GoQueueError:
        return None


def _producer(records: Buffer | None) -> Producer | None:
    try:
        header = parse_batch_header(records or b"")
    except CorruptBatch:
        return None
    return Producer(header.producer_id, header.producer_epoch) if header.producer_id >= 0 else None

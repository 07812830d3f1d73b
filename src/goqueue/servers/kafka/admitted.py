"""Transactional produce requests whose partitions become part of the transaction by being written to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from goqueue.codec.batch import parse_batch_header
from goqueue.errors import CorruptBatch, GoQueueError
from goqueue.records import TopicPartition
from goqueue.servers.kafka.api import Context, Message
from goqueue.transactions.commands import Producer

if TYPE_CHECKING:
    from goqueue.ports import Buffer

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
    return context.services.transactions.admit(producers.pop(), places, implicit=context.api_version >= IMPLICIT_FROM)


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

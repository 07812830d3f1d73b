"""The partitions that a request means: all of a topic, or the one that it names."""

from __future__ import annotations

from goqueue.errors import PartitionNotFound
from goqueue.records import TopicPartition
from goqueue.servers.services import Services


def places_of(services: Services, topic: str, partition: int | None) -> list[TopicPartition]:
    """The partitions of a topic that exists."""
    count = services.topics.get(topic).partition_count
    if partition is None:
        return [TopicPartition(topic, number) for number in range(count)]
    if not 0 <= partition < count:
        raise PartitionNotFound(topic, partition)
    return [TopicPartition(topic, partition)]

"""What clients of the classic protocol put into their metadata and assignments.

To the broker these bytes are opaque, and nothing here decides who owns what. It looks
inside only to know which topics a group reads and how many partitions a rebalance moved;
bytes it does not understand are simply not counted.
"""

from __future__ import annotations

import struct

from goqueue.records import TopicPartition

CONSUMER_PROTOCOL_TYPE = "consumer"

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics of a subscription, or None when these bytes are not one."""
    try:
        count, at = _read(_INT32, metadata, _INT16.size)
        topics = set()
        for _ in range(count):
            topic, at = _read_text(metadata, at)
            topics.add(topic)
    except (struct.error, ValueError):
        return None
    return frozenset(topics)


def assigned_partitions(assignment: bytes) -> frozenset[TopicPartition]:
    """The partitions of an assignment; none when these bytes are not one."""
    try:
        count, at = _read(_INT32, assignment, _INT16.size)
        partitions = set()
        for _ in range(count):
            topic, at = _read_text(assignment, at)
            size, at = _read(_INT32, assignment, at)
            for _ in range(size):
                partition, at = _read(_INT32, assignment, at)
                partitions.add(TopicPartition(topic, partition))
    except (struct.error, ValueError):
        return frozenset()
    return frozenset(partitions)


def _read(field: struct.Struct, data: bytes, at: int) -> tuple[int, int]:
    (value,) = field.unpack_from(data, at)
    return value, at + field.size


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    size, at = _read(_INT16, data, at)
    if size < 0 or at + size > len(data):
        raise ValueError("text that ends behind the data")
    return data[at : at + size].decode(), at + size

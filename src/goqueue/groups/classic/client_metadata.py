"""What clients of the classic protocol put into their metadata and assignments.

To the broker these bytes are opaque, and nothing here decides who owns what. It looks
inside only to know which topics a group reads and how many partitions a rebalance moved;
bytes it does not understand are simply not counted.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from goqueue.records import TopicPartition

CONSUMER_PROTOCOL_TYPE = "consumer"
# Groups whose front-end assigns, on this side; they never share one with Kafka's clients.
EAGER_PROTOCOL_TYPE = "goqueue"

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


def encode_subscription(topics: Iterable[str]) -> bytes:
    """A subscription, for members whose front-end speaks for them."""
    names = sorted(topics)
    parts = [_INT16.pack(0), _INT32.pack(len(names)), *map(_text, names), _INT32.pack(-1)]
    return b"".join(parts)


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """An assignment, for groups whose front-end assigns."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    parts = [_INT16.pack(0), _INT32.pack(len(by_topic))]
    for topic, numbers in by_topic.items():
        parts += [_text(topic), _INT32.pack(len(numbers)), *map(_INT32.pack, numbers)]
    return b"".join([*parts, _INT32.pack(-1)])


def _text(text: str) -> bytes:
    data = text.encode()
    return _INT16.pack(len(data)) + data


def _read(field: struct.Struct, data: bytes, at: int) -> tuple[int, int]:
    (value,) = field.unpack_from(data, at)
    return value, at + field.size


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    size, at = _read(_INT16, data, at)
    if size < 0 or at + size > len(data):
        raise ValueError("text that ends behind the data")
    return data[at : at + size].decode(), at + size

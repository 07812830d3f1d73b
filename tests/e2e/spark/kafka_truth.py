"""What a topic holds, as confluent-kafka's committed reader sees it: the truth to compare with."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

SECONDS_MAX = 30.0
Row = tuple[int, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def truth(address: str, topic: str, partitions: int = 1, isolation: str = "read_committed") -> list[Row]:
    """(partition, offset, timestamp, key, value, headers) of every record, in order."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "truth",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, one, -2) for one in range(partitions)])
    rows: list[Row] = []
    ended: set[int] = set()
    deadline = time.monotonic() + SECONDS_MAX
    while len(ended) < partitions:
        assert time.monotonic() < deadline, "the truth takes too long"
        message = consumer.poll(0.2)
        if message is None:
            continue
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            ended.add(message.partition())
            continue
        rows.append(
            (
                message.partition(),
                message.offset(),
                message.timestamp()[1],
                message.key(),
                message.value(),
                tuple(message.headers() or ()),
            )
        )
    consumer.close()
    return sorted(rows)


def rows_of(frame: Any) -> list[Row]:
    """The same of what Spark read, through Arrow so that times are not bent by a zone."""
    table = frame.select("partition", "offset", "timestamp", "key", "value", "headers").toArrow().to_pydict()
    return sorted(
        (
            partition,
            offset,
            round(stamp.timestamp() * 1000),
            key,
            value,
            tuple((one["key"], one["value"]) for one in headers or ()),
        )
        for partition, offset, stamp, key, value, headers in zip(*table.values(), strict=True)
    )


def transactional(address: str, name: str) -> Producer:
    """A producer that has begun a transaction."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": name, "linger.ms": 5, "log_level": 0})
    producer.init_transactions(10)
    producer.begin_transaction()
    return producer

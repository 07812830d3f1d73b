"""Ways of reading and writing with confluent-kafka, each as a program would do it; prints the seconds that it took.

python -m tests.bench.clients_load FUNCTION ADDRESS TOPIC COUNT SETTINGS
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

PARTITIONS = 3
VALUE = bytes(range(250)) * 4
AT_ONCE = 10_000
WAIT_SECONDS_MAX = 20.0


def poll(address: str, topic: str, count: int, settings: dict[str, Any]) -> float:
    """One message per call."""
    consumer = _consumer(address, settings)
    started = time.monotonic()
    _assign(consumer, topic)
    for _ in range(count):
        _check(consumer.poll(WAIT_SECONDS_MAX))
    return time.monotonic() - started


def consume(address: str, topic: str, count: int, settings: dict[str, Any]) -> float:
    """Many messages per call."""
    consumer = _consumer(address, settings)
    started, got = time.monotonic(), 0
    _assign(consumer, topic)
    while got < count:
        messages = consumer.consume(min(AT_ONCE, count - got), WAIT_SECONDS_MAX)
        # Together, as for an insert of many rows.
        values = [_check(message) for message in messages or [None]]
        got += len(values)
    return time.monotonic() - started


def produce(address: str, topic: str, count: int, settings: dict[str, Any]) -> float:
    """One message per call."""
    producer = Producer({"bootstrap.servers": address, **settings})
    started = time.monotonic()
    for number in range(count):
        while True:
            try:
                producer.produce(topic, VALUE, partition=number // AT_ONCE % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.005)
        producer.poll(0)
    return _flushed(producer, started)


def produce_batch(address: str, topic: str, count: int, settings: dict[str, Any]) -> float:
    """Many messages per call."""
    producer = Producer({"bootstrap.servers": address, **settings})
    messages = [{"value": VALUE}] * AT_ONCE
    started = time.monotonic()
    for number in range(count // AT_ONCE):
        hand_over(producer, topic, messages, number % PARTITIONS)
    return _flushed(producer, started)


def hand_over(producer: Producer, topic: str, messages: list[dict[str, bytes]], partition: int) -> None:
    """Let the client take all of them; it takes a part where it holds as much as it may."""
    left = messages
    while left:
        try:
            queued = producer.produce_batch(topic, left, partition=partition)
        except BufferError:
            queued = 0
        left = left[queued:]
        producer.poll(0 if queued else 0.005)


def _flushed(producer: Producer, started: float) -> float:
    if producer.flush(60):
        raise SystemExit(f"{len(producer)} messages were not acknowledged")
    return time.monotonic() - started


def _consumer(address: str, settings: dict[str, Any]) -> Consumer:
    return Consumer({"bootstrap.servers": address, "group.id": "read", "enable.auto.commit": False, **settings})


def _assign(consumer: Consumer, topic: str) -> None:
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])


def _check(message: Any) -> bytes:
    if message is None:
        raise SystemExit("a message did not come")
    value: bytes = message.value()
    if message.error() is not None or len(value) != len(VALUE):
        raise SystemExit(f"not the message that was sent: {message.error()}")
    return value


if __name__ == "__main__":
    function, address, topic, count, settings = sys.argv[1:]
    print(globals()[function](address, topic, int(count), json.loads(settings)))

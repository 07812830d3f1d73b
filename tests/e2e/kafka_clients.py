"""Three independent clients behind one face, so that each test runs with all of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from tests.e2e.kafka_python import KafkaConsumer, KafkaProducer
from tests.e2e.kafka_python import TopicPartition as PythonPartition

SECONDS_MAX = 20.0


@dataclass(frozen=True, slots=True)
class Sent:
    """A message as it goes in."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None
    partition: int = 0


@dataclass(frozen=True, slots=True)
class Got:
    """A message as it comes out."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Client(Protocol):
    """What every client can do."""

    name: str
    compressions: Sequence[str]

    def can_send(self, message: Sent) -> bool:
        """Whether the client itself lets such a message be."""
        ...

    def produce(self, address: str, topic: str, messages: Sequence[Sent], **settings: Any) -> list[tuple[int, int]]:
        """Send, wait, and return (partition, offset) of each message; offset -1 where there is no answer."""
        ...

    def consume(self, address: str, topic: str, start: Mapping[int, int], count: int) -> list[Got]:
        """Read `count` messages from these offsets by partition."""
        ...


class Confluent:
    name = "confluent-kafka"
    compressions = ("none", "gzip", "snappy", "lz4", "zstd")

    def can_send(self, message: Sent) -> bool:
        return True

    def produce(self, address: str, topic: str, messages: Sequence[Sent], **settings: Any) -> list[tuple[int, int]]:
        producer = Producer(
            {
                "bootstrap.servers": address,
                "acks": settings.get("acks", "all"),
                "compression.type": settings.get("compression", "none"),
                "linger.ms": 20,
                "log_level": 0,
            }
        )
        places: dict[int, tuple[int, int]] = {}
        for at, one in enumerate(messages):

            def delivered(error: Any, message: Any, at: int = at) -> None:
                assert error is None, error
                places[at] = (message.partition(), message.offset())

            more = {} if one.timestamp_ms is None else {"timestamp": one.timestamp_ms}
            producer.produce(
                topic,
                value=one.value,
                key=one.key,
                headers=list(one.headers),
                partition=one.partition,
                on_delivery=delivered,
                **more,
            )
        assert producer.flush(SECONDS_MAX) == 0
        return [places[at] for at in range(len(messages))]

    def consume(self, address: str, topic: str, start: Mapping[int, int], count: int) -> list[Got]:
        consumer = Consumer({"bootstrap.servers": address, "group.id": "e2e", "check.crcs": True, "log_level": 0})
        consumer.assign([ConfluentPartition(topic, partition, offset) for partition, offset in start.items()])
        got: list[Got] = []
        deadline = time.monotonic() + SECONDS_MAX
        while len(got) < count:
            assert time.monotonic() < deadline, f"{len(got)} of {count} came"
            for message in consumer.consume(count, 0.2):
                assert message.error() is None, message.error()
                got.append(
                    Got(
                        message.partition(),
                        message.offset(),
                        message.timestamp()[1],
                        message.key(),
                        message.value(),
                        tuple(message.headers() or ()),
                    )
                )
        consumer.close()
        return got


class Aiokafka:
    name = "aiokafka"
    compressions = ("none", "gzip", "snappy", "lz4", "zstd")

    def can_send(self, message: Sent) -> bool:
        return (message.key, message.value) != (None, None)

    def produce(self, address: str, topic: str, messages: Sequence[Sent], **settings: Any) -> list[tuple[int, int]]:
        return asyncio.run(self._produce(address, topic, messages, settings))

    def consume(self, address: str, topic: str, start: Mapping[int, int], count: int) -> list[Got]:
        return asyncio.run(self._consume(address, topic, start, count))

    async def _produce(
        self, address: str, topic: str, messages: Sequence[Sent], settings: Mapping[str, Any]
    ) -> list[tuple[int, int]]:
        acks = settings.get("acks", "all")
        compression = settings.get("compression", "none")
        async with AIOKafkaProducer(
            bootstrap_servers=address,
            acks=acks if acks == "all" else int(acks),
            compression_type=None if compression == "none" else compression,
            linger_ms=20,
        ) as producer:
            futures = [
                await producer.send(
                    topic,
                    value=one.value,
                    key=one.key,
                    headers=list(one.headers),
                    partition=one.partition,
                    timestamp_ms=one.timestamp_ms,
                )
                for one in messages
            ]
            results = [await asyncio.wait_for(future, SECONDS_MAX) for future in futures]
        return [(one.partition, one.offset) if one else (-1, -1) for one in results]

    async def _consume(self, address: str, topic: str, start: Mapping[int, int], count: int) -> list[Got]:
        async with AIOKafkaConsumer(bootstrap_servers=address, auto_offset_reset="none") as consumer:
            consumer.assign([AioPartition(topic, partition) for partition in start])
            for partition, offset in start.items():
                consumer.seek(AioPartition(topic, partition), offset)
            got: list[Got] = []
            async with asyncio.timeout(SECONDS_MAX):
                while len(got) < count:
                    one = await consumer.getone()
                    got.append(Got(one.partition, one.offset, one.timestamp, one.key, one.value, tuple(one.headers)))
            return got


class KafkaPython:
    name = "kafka-python"
    # The others need packages that it does not bring along.
    compressions = ("none", "gzip")

    def can_send(self, message: Sent) -> bool:
        return (message.key, message.value) != (None, None) and all(value is not None for _, value in message.headers)

    def produce(self, address: str, topic: str, messages: Sequence[Sent], **settings: Any) -> list[tuple[int, int]]:
        acks = settings.get("acks", "all")
        compression = settings.get("compression", "none")
        producer = KafkaProducer(
            bootstrap_servers=address,
            acks=acks if acks == "all" else int(acks),
            enable_idempotence=acks == "all",
            compression_type=None if compression == "none" else compression,
            linger_ms=20,
        )
        try:
            futures = [
                producer.send(
                    topic,
                    value=one.value,
                    key=one.key,
                    headers=list(one.headers),
                    partition=one.partition,
                    timestamp_ms=one.timestamp_ms,
                )
                for one in messages
            ]
            producer.flush(timeout=SECONDS_MAX)
            results = [future.get(timeout=SECONDS_MAX) for future in futures]
        finally:
            producer.close()
        return [(one.partition, one.offset) for one in results]

    def consume(self, address: str, topic: str, start: Mapping[int, int], count: int) -> list[Got]:
        consumer = KafkaConsumer(bootstrap_servers=address, auto_offset_reset="none")
        try:
            consumer.assign([PythonPartition(topic, partition) for partition in start])
            for partition, offset in start.items():
                consumer.seek(PythonPartition(topic, partition), offset)
            got: list[Got] = []
            deadline = time.monotonic() + SECONDS_MAX
            while len(got) < count:
                assert time.monotonic() < deadline, f"{len(got)} of {count} came"
                for records in consumer.poll(timeout_ms=200).values():
                    got.extend(
                        Got(one.partition, one.offset, one.timestamp, one.key, one.value, tuple(one.headers))
                        for one in records
                    )
            return got
        finally:
            consumer.close()


CLIENTS: tuple[Client, ...] = (Confluent(), Aiokafka(), KafkaPython())

"""Transactional producers and committed readers of three independent clients, behind one face."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from tests.e2e.kafka_python import KafkaConsumer, KafkaProducer, OffsetAndMetadata
from tests.e2e.kafka_python import TopicPartition as PythonPartition

from goqueue.records import TopicPartition

SECONDS_MAX = 20.0

# What a group has read, by partition.
Offsets = Mapping[TopicPartition, int]


class Transactional(Protocol):
    """A transactional producer that is initialised."""

    def begin(self) -> None: ...

    def send(self, place: TopicPartition, values: Sequence[bytes]) -> None:
        """Send, and wait until the broker has them."""
        ...

    def send_offsets(self, group: str, offsets: Offsets) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class ConfluentTransactional:
    def __init__(self, address: str, transactional_id: str, **settings: Any) -> None:
        self._address = address
        self._producer = Producer(
            {"bootstrap.servers": address, "transactional.id": transactional_id, "log_level": 0, **settings}
        )
        self._producer.init_transactions(SECONDS_MAX)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, place: TopicPartition, values: Sequence[bytes]) -> None:
        for value in values:
            self._producer.produce(place.topic, value, partition=place.partition)
        assert self._producer.flush(SECONDS_MAX) == 0

    def send_offsets(self, group: str, offsets: Offsets) -> None:
        consumer = Consumer({"bootstrap.servers": self._address, "group.id": group, "log_level": 0})
        metadata = consumer.consumer_group_metadata()
        rows = [ConfluentPartition(*place, offset) for place, offset in offsets.items()]
        self._producer.send_offsets_to_transaction(rows, metadata, SECONDS_MAX)
        consumer.close()

    def commit(self) -> None:
        self._producer.commit_transaction(SECONDS_MAX)

    def abort(self) -> None:
        self._producer.abort_transaction(SECONDS_MAX)

    def close(self) -> None:
        self._producer.purge()
        self._producer.flush(SECONDS_MAX)


class AiokafkaTransactional:
    def __init__(self, address: str, transactional_id: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._producer: AIOKafkaProducer = self._run(self._start(address, transactional_id))

    async def _start(self, address: str, transactional_id: str) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(bootstrap_servers=address, transactional_id=transactional_id)
        await producer.start()
        return producer

    def _run(self, coroutine: Any) -> Any:
        return self._loop.run_until_complete(asyncio.wait_for(coroutine, SECONDS_MAX))

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, place: TopicPartition, values: Sequence[bytes]) -> None:
        async def all_of_them() -> None:
            for future in [await self._producer.send(place.topic, one, partition=place.partition) for one in values]:
                await future

        self._run(all_of_them())

    def send_offsets(self, group: str, offsets: Offsets) -> None:
        rows = {AioPartition(*place): offset for place, offset in offsets.items()}
        self._run(self._producer.send_offsets_to_transaction(rows, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        self._run(self._producer.stop())
        self._loop.close()


class KafkaPythonTransactional:
    def __init__(self, address: str, transactional_id: str) -> None:
        self._producer = KafkaProducer(bootstrap_servers=address, transactional_id=transactional_id)
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, place: TopicPartition, values: Sequence[bytes]) -> None:
        futures = [self._producer.send(place.topic, one, partition=place.partition) for one in values]
        self._producer.flush(timeout=SECONDS_MAX)
        for future in futures:
            future.get(timeout=SECONDS_MAX)

    def send_offsets(self, group: str, offsets: Offsets) -> None:
        rows = {PythonPartition(*place): OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()}
        self._producer.send_offsets_to_transaction(rows, group)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=SECONDS_MAX)


PRODUCERS: tuple[Any, ...] = (ConfluentTransactional, AiokafkaTransactional, KafkaPythonTransactional)


# --- readers ------------------------------------------------------------------------------


def read_confluent(address: str, place: TopicPartition, *, committed: bool = True) -> list[bytes]:
    """All that such a reader can see now."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "readers",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.assign([ConfluentPartition(*place, 0)])
    values: list[bytes] = []
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        assert time.monotonic() < deadline, f"no end of {place}; {len(values)} came"
        message = consumer.poll(0.2)
        if message is None:
            continue
        if message.error():
            assert message.error().name() == "_PARTITION_EOF", message.error()
            break
        values.append(message.value())
    consumer.close()
    return values


def read_aiokafka(address: str, place: TopicPartition, count: int) -> list[bytes]:
    """The first values that a committed reader sees, and whatever follows at once."""

    async def read() -> list[bytes]:
        async with AIOKafkaConsumer(bootstrap_servers=address, isolation_level="read_committed") as consumer:
            at = AioPartition(*place)
            consumer.assign([at])
            await consumer.seek_to_beginning(at)
            values: list[bytes] = []
            async with asyncio.timeout(SECONDS_MAX):
                while len(values) < count:
                    for rows in (await consumer.getmany(timeout_ms=200)).values():
                        values += [row.value for row in rows]
            for rows in (await consumer.getmany(timeout_ms=200)).values():
                values += [row.value for row in rows]
            return values

    return asyncio.run(read())


def read_kafka_python(address: str, place: TopicPartition, count: int) -> list[bytes]:
    """The first values that a committed reader sees, and whatever follows at once."""
    consumer = KafkaConsumer(bootstrap_servers=address, isolation_level="read_committed")
    try:
        at = PythonPartition(*place)
        consumer.assign([at])
        consumer.seek_to_beginning(at)
        values: list[bytes] = []
        deadline = time.monotonic() + SECONDS_MAX
        while len(values) < count:
            assert time.monotonic() < deadline, f"{len(values)} of {count} came"
            for rows in consumer.poll(timeout_ms=200).values():
                values += [row.value for row in rows]
        for rows in consumer.poll(timeout_ms=200).values():
            values += [row.value for row in rows]
        return values
    finally:
        consumer.close()


def wait_for(seen: Any, wanted: Any) -> None:
    """Ask until it is so: markers follow the answer to a commit."""
    deadline = time.monotonic() + SECONDS_MAX
    while (last := seen()) != wanted:
        assert time.monotonic() < deadline, f"{last} instead of {wanted}"
        time.sleep(0.02)


def committed_offsets(address: str, group: str, places: Sequence[TopicPartition]) -> list[int]:
    """How far a group has read, whatever an open transaction may change yet; -1001 for nothing."""
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": group, "isolation.level": "read_uncommitted", "log_level": 0}
    )
    rows = consumer.committed([ConfluentPartition(*place) for place in places], SECONDS_MAX)
    consumer.close()
    return [row.offset for row in rows]

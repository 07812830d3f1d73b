"""GoQueue's own Python client over HTTP: its producer that batches, its reads without a group."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any

from tests.bench.peers.common import (
    DISTINCT,
    WARM_UP_SECONDS,
    Wrong,
    checksum,
    main,
    payloads,
    percentiles,
    stamp,
    stamped,
    until,
)
from tests.bench.peers.load_http_queue import delay, priorities, queue, queue_ones

from goqueue.client import Client, Delivered, connect

__all__ = ["consume", "create", "delay", "delete", "latency", "priorities", "produce", "queue", "queue_ones", "stored"]

READ_AT_ONCE = 5000


async def _create(client: Client, topic: str, partitions: int) -> dict[str, Any]:
    return dict(await client.create_topic(topic, partitions=partitions))


async def _produce(
    client: Client, topic: str, partitions: int, size: int, count: int, *, durable: bool
) -> dict[str, Any]:
    values = payloads(size)
    async with client.producer(acks="all" if durable else "leader", batch_records_max=1000) as producer:
        started = time.monotonic()
        waiting: deque[asyncio.Future[Delivered]] = deque()
        for number in range(count // DISTINCT):
            for value in values:
                waiting.append(await producer.send(topic, value, partition=number % partitions))
                while waiting and waiting[0].done():
                    waiting.popleft().result()
        await producer.flush()
        for future in waiting:
            future.result()
        seconds = time.monotonic() - started
    return {"count": count, "seconds": seconds}


async def _consume(client: Client, topic: str, partitions: int, count: int) -> dict[str, Any]:
    started = time.monotonic()
    total = got = 0

    async def read(partition: int) -> None:
        nonlocal total, got
        offset = 0
        while True:
            messages, offset = await client.read(topic, partition, offset=offset, limit=READ_AT_ONCE)
            if not messages:
                return
            got += len(messages)
            total += checksum([message.value or b"" for message in messages])

    await asyncio.gather(*(read(partition) for partition in range(partitions)))
    ended = time.monotonic()
    if got != count:
        raise Wrong(f"only {got} of {count} messages came")
    return {"count": got, "seconds": ended - started, "checksum": total, "started": started, "ended": ended}


async def _latency(client: Client, topic: str, partitions: int, size: int, rate: int, seconds: float) -> dict[str, Any]:
    warm_up = int(rate * WARM_UP_SECONDS)
    wanted = warm_up + int(rate * seconds)
    late: list[float] = []

    async def read(partition: int) -> None:
        offset = 0
        while len(late) < wanted:
            messages, offset = await client.read(topic, partition, offset=offset, limit=1000, wait=1)
            now = time.monotonic()
            late.extend(now - stamped(message.value or b"") for message in messages)

    readers = [asyncio.create_task(read(partition)) for partition in range(partitions)]
    async with client.producer(linger="1ms") as producer:
        started = time.monotonic()
        for number in range(wanted):
            due = started + number / rate
            await until(due)
            await producer.send(topic, stamp(size, due), partition=number % partitions)
            if number % 100 == 0:
                await asyncio.sleep(0)
        took = time.monotonic() - started
        await producer.flush()
    await asyncio.gather(*readers)
    return {"count": len(late) - warm_up, "rate": wanted / took, **percentiles(late[warm_up:])}


def _run(address: str, work: Any) -> dict[str, Any]:
    async def connected() -> dict[str, Any]:
        async with connect(f"http://{address}") as client:
            result: dict[str, Any] = await work(client)
            return result

    return asyncio.run(connected())


def create(address: str, topic: str, partitions: int, durable: bool) -> dict[str, Any]:
    """A new topic."""
    return _run(address, lambda client: _create(client, topic, partitions))


def produce(address: str, topic: str, partitions: int, size: int, count: int, durable: bool) -> dict[str, Any]:
    """Batches of up to a thousand; every message's answer is looked at."""
    return _run(address, lambda client: _produce(client, topic, partitions, size, count, durable=durable))


def stored(address: str, topic: str, partitions: int) -> dict[str, Any]:
    """How many messages the topic has."""

    async def ask(client: Client) -> dict[str, Any]:
        return {"count": (await client.topic(topic))["total_messages"]}

    return _run(address, ask)


def consume(address: str, topic: str, partitions: int, count: int) -> dict[str, Any]:
    """All partitions at once, to their ends."""
    return _run(address, lambda client: _consume(client, topic, partitions, count))


def latency(address: str, topic: str, partitions: int, size: int, rate: int, seconds: float) -> dict[str, Any]:
    """Readers that wait in long polls."""
    return _run(address, lambda client: _latency(client, topic, partitions, size, rate, seconds))


def delete(address: str, topic: str) -> dict[str, Any]:
    """Make room."""

    async def ask(client: Client) -> dict[str, Any]:
        await client.delete_topic(topic)
        return {}

    return _run(address, ask)


if __name__ == "__main__":
    main(globals())

"""nats-py, for NATS JetStream: a thousand publishes at a time, pull consumers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import nats
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, RetentionPolicy, StorageType
from tests.bench.peers.common import (
    DISTINCT,
    QUEUE_BATCH,
    QUIET_SECONDS_MAX,
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


@asynccontextmanager
async def connect(address: str) -> AsyncIterator[JetStreamContext]:
    connection = await nats.connect(f"nats://{address}", pending_size=64 * 2**20)
    try:
        yield connection.jetstream(timeout=60)
    finally:
        await connection.close()


async def _create(address: str, topic: str) -> dict[str, Any]:
    async with connect(address) as stream:
        await stream.add_stream(
            name=topic, subjects=[topic], storage=StorageType.FILE, retention=RetentionPolicy.LIMITS
        )
    return {}


async def _produce(address: str, topic: str, size: int, count: int) -> dict[str, Any]:
    values = payloads(size)
    async with connect(address) as stream:
        started = time.monotonic()
        for _ in range(count // DISTINCT):
            # A thousand at once is about twice as fast here as the client's own publish_async.
            answers = await asyncio.gather(*(stream.publish(topic, value, timeout=60) for value in values))
            if any(answer.duplicate for answer in answers):
                raise Wrong("a message was taken for a duplicate")
        seconds = time.monotonic() - started
    return {"count": count, "seconds": seconds}


async def _consume(address: str, topic: str, count: int) -> dict[str, Any]:
    async with connect(address) as stream:
        config = ConsumerConfig(ack_policy=AckPolicy.NONE, deliver_policy=DeliverPolicy.ALL)
        puller = await stream.pull_subscribe(topic, config=config)
        started = time.monotonic()
        got = total = 0
        while got < count:
            messages = await puller.fetch(min(DISTINCT, count - got), timeout=QUIET_SECONDS_MAX)
            got += len(messages)
            total += checksum([message.data for message in messages])
        ended = time.monotonic()
    return {"count": got, "seconds": ended - started, "checksum": total, "started": started, "ended": ended}


async def _queue(address: str, topic: str, count: int) -> dict[str, Any]:
    async with connect(address) as stream:
        config = ConsumerConfig(ack_policy=AckPolicy.EXPLICIT, max_ack_pending=10_000)
        puller = await stream.pull_subscribe(topic, durable="work", config=config)
        started = time.monotonic()
        got = total = 0
        while got < count:
            messages = await puller.fetch(min(QUEUE_BATCH, count - got), timeout=QUIET_SECONDS_MAX)
            for message in messages:
                await message.ack()
            got += len(messages)
            total += checksum([message.data for message in messages])
        # An acknowledgement has no answer: the server is asked until it has seen them all.
        deadline = time.monotonic() + QUIET_SECONDS_MAX
        while (left := (await puller.consumer_info()).num_ack_pending) and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        seconds = time.monotonic() - started
    return {"count": got, "seconds": seconds, "checksum": total, "left": left}


async def _queue_ones(address: str, topic: str, count: int, consumers: int) -> dict[str, Any]:
    got = total = 0
    async with connect(address) as stream:
        config = ConsumerConfig(ack_policy=AckPolicy.EXPLICIT, max_ack_pending=10_000)
        pullers = [await stream.pull_subscribe(topic, durable="work", config=config) for _ in range(consumers)]

        async def work(puller: JetStreamContext.PullSubscription) -> None:
            nonlocal got, total
            while got < count:
                try:
                    (message,) = await puller.fetch(1, timeout=1)
                except nats.errors.TimeoutError:
                    continue
                got += 1
                total += checksum([message.data])
                await message.ack()

        started = time.monotonic()
        await asyncio.gather(*(work(puller) for puller in pullers))
        deadline = time.monotonic() + QUIET_SECONDS_MAX
        while (left := (await pullers[0].consumer_info()).num_ack_pending) and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        seconds = time.monotonic() - started
    return {"count": got, "seconds": seconds, "checksum": total, "left": left}


async def _latency(address: str, topic: str, size: int, rate: int, seconds: float) -> dict[str, Any]:
    warm_up = int(rate * WARM_UP_SECONDS)
    wanted = warm_up + int(rate * seconds)
    late: list[float] = []
    finished = asyncio.Event()

    async def on_message(message: Any) -> None:
        late.append(time.monotonic() - stamped(message.data))
        if len(late) == wanted:
            finished.set()

    async with connect(address) as reader, connect(address) as stream:
        config = ConsumerConfig(ack_policy=AckPolicy.NONE)
        await reader.subscribe(topic, cb=on_message, config=config, pending_msgs_limit=-1, pending_bytes_limit=-1)
        answers = []
        started = time.monotonic()
        for number in range(wanted):
            due = started + number / rate
            await until(due)
            answers.append(await stream.publish_async(topic, stamp(size, due), wait_stall=60))
            if number % 100 == 0:
                await asyncio.sleep(0)
        took = time.monotonic() - started
        await asyncio.gather(*answers)
        await asyncio.wait_for(finished.wait(), QUIET_SECONDS_MAX)
    return {"count": len(late) - warm_up, "rate": wanted / took, **percentiles(late[warm_up:])}


def create(address: str, topic: str, partitions: int, durable: bool) -> dict[str, Any]:
    """A stream in files. How durable it is, the server's configuration says."""
    return asyncio.run(_create(address, topic))


def produce(address: str, topic: str, partitions: int, size: int, count: int, durable: bool) -> dict[str, Any]:
    """A thousand messages wait for their answers at a time."""
    return asyncio.run(_produce(address, topic, size, count))


def stored(address: str, topic: str, partitions: int) -> dict[str, Any]:
    """How many messages the stream has."""

    async def ask() -> int:
        async with connect(address) as stream:
            return (await stream.stream_info(topic)).state.messages

    return {"count": asyncio.run(ask())}


def consume(address: str, topic: str, partitions: int, count: int) -> dict[str, Any]:
    """A pull consumer that acknowledges nothing, a thousand at a time."""
    return asyncio.run(_consume(address, topic, count))


def queue(address: str, topic: str, count: int) -> dict[str, Any]:
    """A pull consumer with explicit acknowledgements, many at a time."""
    return asyncio.run(_queue(address, topic, count))


def queue_ones(address: str, topic: str, count: int, consumers: int) -> dict[str, Any]:
    """Consumers that fetch one message, acknowledge it and ask for the next."""
    return asyncio.run(_queue_ones(address, topic, count, consumers))


def latency(address: str, topic: str, partitions: int, size: int, rate: int, seconds: float) -> dict[str, Any]:
    """The server pushes to the reader."""
    return asyncio.run(_latency(address, topic, size, rate, seconds))


def delete(address: str, topic: str) -> dict[str, Any]:
    """Make room."""

    async def ask() -> bool:
        async with connect(address) as stream:
            return bool(await stream.delete_stream(topic))

    return {"deleted": asyncio.run(ask())}


if __name__ == "__main__":
    main(globals())

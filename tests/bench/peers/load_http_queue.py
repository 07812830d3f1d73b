"""GoQueue's queue over HTTP, with its own Python client: receive and acknowledge, delays, priorities."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
from tests.bench.peers.common import QUEUE_BATCH, QUIET_SECONDS_MAX, Wrong, checksum, percentiles, stamp, stamped

from goqueue.client import connect

GROUP = "work"
BATCH = 100
# While one batch is on the wire, the other is worked on.
AT_ONCE = 2
# What each lane is promised of the deliveries while all lanes have messages.
WEIGHTS = (50, 25, 15, 7, 3)


def queue(address: str, topic: str, count: int, batch: int = QUEUE_BATCH) -> dict[str, Any]:
    """Many at a time, acknowledged in one call."""
    return asyncio.run(_queue(address, topic, count, batch, AT_ONCE))


def queue_ones(address: str, topic: str, count: int, consumers: int) -> dict[str, Any]:
    """Consumers that receive one message, acknowledge it and ask for the next."""
    return asyncio.run(_queue(address, topic, count, 1, consumers))


def delay(address: str, topic: str, count: int, seconds: float) -> dict[str, Any]:
    """Messages due at equal distances; how late each can be read."""
    return asyncio.run(_delay(address, topic, count, seconds))


def priorities(address: str, topic: str, count: int) -> dict[str, Any]:
    """All lanes full: how far the shares of what is received are from the weights."""
    return asyncio.run(_priorities(address, topic, count))


async def _queue(address: str, topic: str, count: int, batch: int, consumers: int) -> dict[str, Any]:
    got = settled = total = 0

    async def work(number: int) -> None:
        nonlocal got, settled, total
        # Those that take one at a time have the name of their program, as they have by default, and share requests.
        name = "bench" if batch == 1 else f"bench-{number}"
        async with client.queue(topic, group=GROUP, client_id=name, auto_extend=False, visibility=600) as receiver:
            while got < count:
                messages = await receiver.receive(limit=batch, wait=0)
                if messages:
                    got += len(messages)
                    total += checksum([message.value or b"" for message in messages])
                    done = await receiver.ack(*messages)
                    settled += len(done)

    async with connect(f"http://{address}") as client:
        started = time.monotonic()
        async with asyncio.timeout(QUIET_SECONDS_MAX * 10):
            await asyncio.gather(*(work(number) for number in range(consumers)))
        seconds = time.monotonic() - started
    return {"count": got, "seconds": seconds, "checksum": total, "left": got - settled}


async def _delay(address: str, topic: str, count: int, seconds: float) -> dict[str, Any]:
    # All are published before the first is due.
    first = time.time() + 2 + count / 5000
    dues = [first + number * seconds / count for number in range(count)]
    url = f"http://{address}/topics/{topic}/messages"
    async with aiohttp.ClientSession() as session:
        for at in range(0, count, BATCH):
            messages = [
                {"value": stamp(64, due).decode(), "deliverAt": _moment(due), "partition": 0}
                for due in dues[at : at + BATCH]
            ]
            async with session.post(url, json={"messages": messages}) as reply:
                if reply.status != 200:
                    raise Wrong(f"status {reply.status}: {await reply.text()}")
    if time.time() > first:
        raise Wrong("the first message was due before the last was published")
    late: list[float] = []
    async with connect(f"http://{address}") as client, asyncio.timeout(seconds + 10 * QUIET_SECONDS_MAX):
        offset = 0
        while len(late) < count:
            messages, offset = await client.read(topic, 0, offset=offset, limit=1000, wait=5)
            now = time.time()
            late += [now - stamped(message.value or b"") for message in messages]
    if min(late) < -0.001:
        raise Wrong(f"a message came {-min(late) * 1000:.1f} ms early")
    return {"count": len(late), **percentiles(late)}


async def _priorities(address: str, topic: str, count: int) -> dict[str, Any]:
    received: Counter[int] = Counter()
    async with connect(f"http://{address}") as client:
        async with client.producer(batch_records_max=1000) as producer:
            for number in range(count):
                await producer.send(topic, b"%d" % (number % len(WEIGHTS)), priority=number % len(WEIGHTS), partition=0)
        # The first lane runs dry after two fifths of all.
        wanted = count * 3 // 10
        async with client.queue(topic, group=GROUP, auto_extend=False) as receiver:
            while received.total() < wanted:
                messages = await receiver.receive(limit=BATCH, wait=1)
                received.update(int(message.value or b"") for message in messages)
                await receiver.ack(*messages)
    shares = [received[lane] / received.total() * 100 for lane in range(len(WEIGHTS))]
    off = max(abs(share - weight) for share, weight in zip(shares, WEIGHTS, strict=True))
    return {"count": received.total(), "share_points_off": off}


def _moment(due: float) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=due)).isoformat(timespec="milliseconds")

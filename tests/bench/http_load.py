"""What the HTTP benchmark sends, from a process of its own: `python -m tests.bench.http_load JOB ADDRESS ...`.

Prints one JSON object. Every answer's status is checked, and errors end the run: a refused
request is not throughput.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import deque

import aiohttp

from goqueue.client import Delivered, connect

VALUE = "x" * 100


async def batches(address: str, topic: str, count: int, size: int) -> dict[str, float]:
    """Publish `count` batches of `size` messages, four requests under way at a time."""
    body = json.dumps({"messages": [{"value": VALUE}] * size}).encode()
    return await _requests(address, f"/topics/{topic}/messages", body, count, connections=4)


async def singles(address: str, topic: str, count: int, connections: int) -> dict[str, float]:
    """Publish `count` single messages over kept-alive connections."""
    body = json.dumps({"value": VALUE}).encode()
    return await _requests(address, f"/topics/{topic}/messages", body, count, connections=connections)


async def produce(address: str, topic: str, count: int, _size: int) -> dict[str, float]:
    """The Python client's producer."""
    async with connect(f"http://{address}") as client, client.producer() as producer:
        await producer.send_and_wait(topic, VALUE)
        started = time.perf_counter()
        waiting: deque[asyncio.Future[Delivered]] = deque()
        for _ in range(count):
            waiting.append(await producer.send(topic, VALUE))
            # Looked at as they come, as a program would: a list of all of them would time the garbage collector.
            while waiting and waiting[0].done():
                waiting.popleft().result()
        await producer.flush()
        for future in waiting:
            future.result()
        seconds = time.perf_counter() - started
    return {"seconds": seconds, "count": count}


async def consume(address: str, topic: str, count: int, _size: int) -> dict[str, float]:
    """The Python client's consumer, from the beginning."""
    async with (
        connect(f"http://{address}") as client,
        client.consumer(f"bench-{time.time_ns()}", [topic], poll_records_max=5000) as consumer,
    ):
        started = time.perf_counter()
        read = 0
        while read < count:
            read += len(await consumer.poll(timeout=2))
        seconds = time.perf_counter() - started
    return {"seconds": seconds, "count": read}


async def _requests(address: str, path: str, body: bytes, count: int, connections: int) -> dict[str, float]:
    left = count

    async def worker(session: aiohttp.ClientSession) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            async with session.post(f"http://{address}{path}", data=body) as response:
                await response.read()
                if response.status != 200:
                    message = f"status {response.status}"
                    raise RuntimeError(message)

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=connections)) as session:
        async with session.post(f"http://{address}{path}", data=body) as warm:
            await warm.read()
        started = time.perf_counter()
        await asyncio.gather(*(worker(session) for _ in range(connections)))
        return {"seconds": time.perf_counter() - started, "count": count}


JOBS = {job.__name__: job for job in (batches, singles, produce, consume)}

if __name__ == "__main__":
    job, address, topic, count, size = sys.argv[1:6]
    print(json.dumps(asyncio.run(JOBS[job](address, topic, int(count), int(size)))))

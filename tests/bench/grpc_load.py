"""What the gRPC benchmark sends, from a process of its own: `python -m tests.bench.grpc_load JOB ADDRESS TOPIC COUNT`.

Prints one JSON object. Every answer is checked, and errors end the run: a refused message is not throughput.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import grpc

from goqueue.protos import common_pb2, publish_pb2, publish_pb2_grpc, queue_pb2, queue_pb2_grpc

VALUE = b"x" * 100
FRAME = 100
CREDIT = 1000
PER_SECOND = 1000
GROUP = "bench"


async def publish_stream(address: str, topic: str, count: int) -> dict[str, Any]:
    """Frames of 100 messages of 100 B over one stream, as fast as the broker reads them."""
    async with grpc.aio.insecure_channel(address) as channel:
        stub = publish_pb2_grpc.PublishServiceStub(channel)

        async def frames() -> AsyncIterator[Any]:
            for first in range(0, count, FRAME):
                yield publish_pb2.PublishStreamRequest(
                    correlation_id=first, topic=topic, records=[common_pb2.Record(value=VALUE) for _ in range(FRAME)]
                )

        await stub.Publish(publish_pb2.PublishRequest(topic=topic, record=common_pb2.Record(value=VALUE)))
        started = time.perf_counter()
        stored = 0
        async for answer in stub.PublishStream(frames()):
            if answer.failures:
                raise SystemExit(str(answer.failures[0]))
            stored += sum(one.count for one in answer.ranges)
        seconds = time.perf_counter() - started
    return {"seconds": seconds, "count": stored}


async def work(address: str, topic: str, count: int) -> dict[str, Any]:
    """Receive and ack everything over one work stream."""
    seen: set[tuple[int, int]] = set()
    settled = 0
    async with grpc.aio.insecure_channel(address) as channel:
        stub = queue_pb2_grpc.QueueServiceStub(channel)
        started = time.perf_counter()
        stream = stub.Work()
        start = queue_pb2.WorkStart(topic=topic, group=GROUP, credit=CREDIT)
        await stream.write(queue_pb2.WorkRequest(start=start))
        while settled < count:
            answer = await stream.read()
            if answer.HasField("settled"):
                if answer.settled.failures:
                    raise SystemExit(str(answer.settled.failures[0]))
                settled += answer.settled.succeeded
                continue
            messages = answer.messages.messages
            seen.update([(one.partition, one.offset) for one in messages])
            acked = [one.receipt_handle for one in messages]
            settle = queue_pb2.WorkSettle(acked=acked, credit=len(acked))
            await stream.write(queue_pb2.WorkRequest(settle=settle))
        await stream.done_writing()
        seconds = time.perf_counter() - started
    return {"seconds": seconds, "count": len(seen), "settled": settled}


async def http_batches(address: str, topic: str, count: int) -> dict[str, Any]:
    """Receive 100 and ack them in one call, over HTTP; while one batch is on the wire, another is worked on."""
    seen: set[tuple[int, int]] = set()
    settled = 0

    async def lane(session: aiohttp.ClientSession, number: int) -> None:
        nonlocal settled
        body = {"group": GROUP, "client_id": f"bench-{number}", "limit": 100}
        while len(seen) < count:
            async with session.post(f"http://{address}/topics/{topic}/receive", json=body) as response:
                messages = (await response.json())["messages"]
            seen.update([(one["partition"], one["offset"]) for one in messages])
            if messages:
                receipts = {"receipts": [one["receipt_handle"] for one in messages]}
                async with session.post(f"http://{address}/messages/ack", json=receipts) as response:
                    settled += (await response.json())["succeeded"]

    async with aiohttp.ClientSession() as session:
        started = time.perf_counter()
        await asyncio.gather(*(lane(session, number) for number in range(2)))
        seconds = time.perf_counter() - started
    return {"seconds": seconds, "count": len(seen), "settled": settled}


async def unary(address: str, topic: str, count: int) -> dict[str, Any]:
    """Single publishes at a fixed rate; how long each took from when it was to be sent."""
    async with grpc.aio.insecure_channel(address) as channel:
        stub = publish_pb2_grpc.PublishServiceStub(channel)
        request = publish_pb2.PublishRequest(topic=topic, record=common_pb2.Record(value=VALUE))

        async def send() -> None:
            await stub.Publish(request)

        return await _at_a_rate(send, count)


async def unary_http(address: str, topic: str, count: int) -> dict[str, Any]:
    """The same over HTTP."""
    body = json.dumps({"value": VALUE.decode()}).encode()
    url = f"http://{address}/topics/{topic}/messages"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=16)) as session:

        async def send() -> None:
            async with session.post(url, data=body) as response:
                await response.read()
                if response.status != 200:
                    raise SystemExit(f"status {response.status}")

        return await _at_a_rate(send, count)


async def _at_a_rate(send: Callable[[], Awaitable[None]], count: int) -> dict[str, Any]:
    for _ in range(50):
        await send()
    loop = asyncio.get_running_loop()
    took: list[float] = []
    started = loop.time()

    async def one(due: float) -> None:
        await send()
        took.append(loop.time() - due)

    tasks = []
    for number in range(count):
        due = started + number / PER_SECOND
        if (wait := due - loop.time()) > 0:
            await asyncio.sleep(wait)
        tasks.append(asyncio.create_task(one(due)))
    await asyncio.gather(*tasks)
    took.sort()
    return {"p50": took[len(took) // 2] * 1000, "p99": took[len(took) * 99 // 100] * 1000, "count": len(took)}


JOBS = {job.__name__: job for job in (publish_stream, work, http_batches, unary, unary_http)}

if __name__ == "__main__":
    job, address, topic, count = sys.argv[1:5]
    print(json.dumps(asyncio.run(JOBS[job](address, topic, int(count)))))

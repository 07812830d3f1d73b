"""Receive 100 at a time and settle them in one batch call, over HTTP, from one client process.

    python -m tests.bench.queue_http ADDRESS TOPIC COUNT     (the client's process; prints JSON)

Every message must come once and be settled once, or there is no figure.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from tests.bench.measure import Bar, at_least, told
from tests.e2e.http import Http
from tests.e2e.process import BrokerProcess

from goqueue.client import connect

BATCH = 100
# Requests under way at once: while one batch is on the wire, the other is worked on.
LANES = 2
GROUP = "bench-queue"


async def drain(address: str, topic: str, count: int) -> dict[str, float]:
    """Take and ack everything, `LANES` batches at a time."""
    seen: set[tuple[int, int]] = set()
    settled = 0

    async def work(number: int) -> None:
        nonlocal settled
        queue = client.queue(topic, group=GROUP, client_id=f"bench-{number}", auto_extend=False, visibility=600)
        async with queue:
            while len(seen) < count:
                messages = await queue.receive(limit=BATCH, wait=0)
                seen.update((one.partition, one.offset) for one in messages)
                if messages:
                    done = await queue.ack(*messages)
                    settled += len(done)

    async with connect(f"http://{address}") as client:
        started = time.perf_counter()
        await asyncio.gather(*(work(number) for number in range(LANES)))
        seconds = time.perf_counter() - started
    return {"seconds": seconds, "count": len(seen), "settled": settled}


def run(count: int = 200_000, rounds: int = 3) -> list[Bar]:
    """Messages per second through receive and ack, the median of the rounds."""
    rates = []
    with tempfile.TemporaryDirectory(prefix="goqueue-bench-") as folder:
        broker = BrokerProcess(Path(folder)).start()
        try:
            http = Http(broker.http)
            for number in range(rounds):
                topic = f"queue-{number}"
                http.post("/topics", {"name": topic, "num_partitions": 1})
                for first in range(0, count, 1000):
                    http.publish(topic, *["x" * 100] * min(1000, count - first))
                rates.append(rate(broker.http, topic, count))
                lag = http.get(f"/groups/{GROUP}/offsets")["topics"][topic]["0"]["lag"]
                if lag:
                    raise SystemExit(f"{lag} messages of {topic} are not settled: there is no figure")
        finally:
            broker.stop()
    return [
        at_least("receive 100 and ack them in one call, HTTP, msg/s", median(rates), 40_000, digits=0),
        told("the best of the rounds, msg/s", max(rates), digits=0),
    ]


def rate(address: str, topic: str, count: int) -> float:
    """Messages per second through receive and ack of one topic."""
    command = [sys.executable, "-m", "tests.bench.queue_http", address, topic, str(count)]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    result = json.loads(finished.stdout)
    if (result["count"], result["settled"]) != (count, count):
        raise SystemExit(f"{result} instead of {count}: there is no figure")
    return float(count / result["seconds"])


if __name__ == "__main__":
    address, topic, count = sys.argv[1:4]
    print(json.dumps(asyncio.run(drain(address, topic, int(count)))))

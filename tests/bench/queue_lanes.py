"""A topic of many messages in five lanes, read by one group whose background lane stands still.

What the node holds in memory must not grow with the log: a stalled lane is one cursor, and what
lies behind it is looked up in the lane indexes when somebody asks.
"""

from __future__ import annotations

import asyncio
import gc
import tempfile
import time
from pathlib import Path

from tests.bench.measure import Bar, at_most, told

from goqueue.broker.arrivals.arrival import Facts
from goqueue.broker.arrivals.batch_lanes import BatchLane
from goqueue.broker.topics import NewTopic
from goqueue.codec.batch_encode import encode_batch
from goqueue.config import BrokerConfig, Config, DurabilityConfig, ListenersConfig
from goqueue.delivery.values import Action, Receive, Settlement
from goqueue.node.assemble import assemble
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.services import Services

AT = TopicPartition("lanes", 0)
BATCH = 500
MIB = 1024 * 1024


def run(messages: int = 1_000_000) -> list[Bar]:
    """Publish, then receive and settle everything but the background lane. 10,000,000 is the bar's own size."""
    with tempfile.TemporaryDirectory(prefix="goqueue-lanes-") as root:
        return asyncio.run(_run(root, messages))


async def _run(root: str, messages: int) -> list[Bar]:
    config = Config(
        broker=BrokerConfig(data_dir=root),
        listeners=ListenersConfig(kafka="127.0.0.1:0", http="127.0.0.1:0"),
        durability=DurabilityConfig(disk_free_bytes_min=0),
    )
    node = assemble(config)
    services = (await node.start()).services
    try:
        await services.topics.create(NewTopic(AT.topic, 1, config={"goqueue.strict.priority": "true"}))
        await _publish(services, BATCH * 5)
        await _settle_urgent(services, BATCH * 4)
        gc.collect()
        before = rss_bytes()
        await _publish(services, messages)
        began = time.perf_counter()
        settled = await _settle_urgent(services, messages // 5 * 4)
        seconds = time.perf_counter() - began
        gc.collect()
        grown = rss_bytes() - before
        (queue,) = (await services.delivery.priority_stats()).queues
        assert settled >= messages // 5 * 4
        assert [lane.ready for lane in queue.lanes[:4]] == [0] * 4
        assert queue.lanes[4].ready > 0
        committed = await services.delivery.positions.committed("g", [AT])
        assert committed[AT] < BATCH * 5
    finally:
        await node.stop()
    what = f"{messages:,} messages in five lanes, background stalled"
    return [
        at_most(f"{what}: growth of memory", grown / MIB, 100, unit=" MB", digits=0),
        told(f"{what}: receive 1,000 and settle them, in process", settled / seconds, unit=" msg/s", digits=0),
    ]


async def _publish(services: Services, messages: int) -> None:
    records = [NewRecord(None, b"x" * 20) for _ in range(BATCH)]
    batches = {
        lane: encode_batch(
            [one._replace(headers=(("goqueue-priority", b"%d" % lane),)) for one in records],
            now_ms=services.clock.now_ms(),
        )
        for lane in range(5)
    }
    for number in range(messages // BATCH):
        lane = number % 5
        services.publish.append(AT.topic, 0, batches[lane], acks=Acks.LEADER, facts=Facts(BatchLane(lane)))
        if number % 100 == 0:
            await asyncio.sleep(0)


async def _settle_urgent(services: Services, messages: int) -> int:
    settled = 0
    while settled < messages:
        found = await services.delivery.receive(Receive("g", "c", [AT], min(1000, messages - settled)))
        assert found
        assert all(one.priority < 4 for one in found)
        results = await services.delivery.settle([Settlement(one.receipt, Action.ACK) for one in found])
        assert all(one.error is None for one in results)
        settled += len(found)
        await asyncio.sleep(0)
    return settled


def rss_bytes() -> int:
    """Memory of this process that is really there."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


if __name__ == "__main__":
    import sys

    for bar in run(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000):
        print(bar)

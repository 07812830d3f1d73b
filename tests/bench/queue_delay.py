"""Delay under load: a million pending, a restart on top of them, lateness at a steady rate, and a burst.

Each part runs in a process of its own, on a real directory, so that memory is that part's alone.
`python -m tests.bench.queue_delay` prints the bars; `run()` returns them.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import psutil
import uvloop
from tests.bench.measure import Bar, at_least, at_most, told

from goqueue.broker.topics import NewTopic
from goqueue.config import BrokerConfig, Config, ListenersConfig
from goqueue.delay.values import Held
from goqueue.node.assemble import assemble
from goqueue.node.process.lifecycle import keep_for_good
from goqueue.records import NewRecord, TopicPartition
from goqueue.servers.services import Services

PENDING = 1_000_000
YEAR_MS = 365 * 24 * 3_600_000
BURST = 100_000
RATE_PER_SECOND = 1_000
RATE_SECONDS = 10
_MIB = 1024 * 1024

Story = Callable[[Services], Awaitable[dict[str, float]]]


async def pending(services: Services) -> dict[str, float]:
    """Hold a million messages back, up to a year ahead."""
    await services.topics.create(NewTopic("far", partitions=4))
    rng = Random(7)
    process = psutil.Process()
    before = process.memory_info().rss
    started = time.monotonic()
    for _ in range(PENDING // 1000):
        now_ms = services.clock.now_ms()
        held = [Held(NewRecord(None, bytes(100)), now_ms + 60_000 + rng.randrange(YEAR_MS)) for _ in range(1000)]
        await services.delay.hold("far", held)
    seconds = time.monotonic() - started
    await services.delay.list("far", limit=1)
    return {"rss_mib": (process.memory_info().rss - before) / _MIB, "per_second": PENDING / seconds}


async def restart(services: Services) -> dict[str, float]:
    """Until the next one due is known again."""
    await services.delay.list("far", limit=1)
    assert services.delay.stats().pending["far"] >= PENDING * 0.99
    return {}


async def steady(services: Services) -> dict[str, float]:
    """A thousand due each second."""
    await services.topics.create(NewTopic("near", partitions=4))
    start_ms = services.clock.now_ms() + 3_000
    total = RATE_PER_SECOND * RATE_SECONDS
    dues = [start_ms + number * 1000 // RATE_PER_SECOND for number in range(total)]
    for first in range(0, total, 500):
        await services.delay.hold(
            "near", [Held(NewRecord(None, str(due).encode()), due) for due in dues[first : first + 500]]
        )
    late = sorted(stamp - int(value) for value, stamp in await _read(services, "near", total))
    assert late[0] >= 0, "early"
    return {"p50": late[total // 2], "p99": late[total * 99 // 100], "max": late[-1]}


async def burst(services: Services) -> dict[str, float]:
    """A hundred thousand due within one second."""
    await services.topics.create(NewTopic("burst", partitions=4))
    due_ms = services.clock.now_ms() + 15_000
    for first in range(0, BURST, 1000):
        await services.delay.hold(
            "burst",
            [Held(NewRecord(None, bytes(100)), due_ms + number % 1000) for number in range(first, first + 1000)],
        )
    assert services.clock.now_ms() < due_ms, "the machine is too slow to prepare the burst in time"
    rows = await _read(services, "burst", BURST)
    return {"per_second": BURST / (max(max(stamp for _, stamp in rows) - due_ms, 1) / 1000)}


async def _read(services: Services, topic: str, total: int) -> list[tuple[bytes, int]]:
    places = {TopicPartition(topic, partition): 0 for partition in range(4)}
    rows: list[tuple[bytes, int]] = []
    while len(rows) < total:
        found = await services.reads.read(places, limit=50_000, max_bytes=16 * _MIB)
        for place, one in found.items():
            rows += [(record.value or b"", record.timestamp_ms) for record in one.records]
            places[place] = one.next_offset
        await asyncio.sleep(0.2)
    return rows


async def _live(story: Story, directory: str) -> dict[str, float]:
    config = Config(
        broker=BrokerConfig(data_dir=directory), listeners=ListenersConfig(kafka="127.0.0.1:0", http="127.0.0.1:0")
    )
    started = time.monotonic()
    node = assemble(config)
    running = await node.start()
    keep_for_good()
    figures = await story(running.services)
    figures["seconds"] = time.monotonic() - started
    await node.stop()
    return figures


def _part(story: Story, directory: str) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.bench.queue_delay", story.__name__, directory]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if finished.returncode:
        raise RuntimeError(finished.stderr)
    figures: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return figures


def run() -> list[Bar]:
    """Every bar of the delay."""
    with tempfile.TemporaryDirectory() as home:
        held = _part(pending, str(Path(home) / "far"))
        again = _part(restart, str(Path(home) / "far"))
        even = _part(steady, str(Path(home) / "near"))
        rush = _part(burst, str(Path(home) / "burst"))
    return [
        at_most("memory of 1,000,000 pending", held["rss_mib"], 300, unit=" MiB", digits=0),
        told("held back, from one process", held["per_second"], unit="/s", digits=0),
        at_most("restart with 1,000,000 pending", again["seconds"], 5, unit=" s"),
        at_most("lateness p99 at 1,000 due/s", even["p99"], 20, unit=" ms", digits=0),
        told("lateness median", even["p50"], unit=" ms", digits=0),
        at_least("100,000 due in one second", rush["per_second"], 20_000, unit="/s", digits=0),
    ]


def main() -> None:
    """Run one part in this process, or all of them."""
    stories: dict[str, Story] = {"pending": pending, "restart": restart, "steady": steady, "burst": burst}
    if len(sys.argv) > 2:
        print(json.dumps(uvloop.run(_live(stories[sys.argv[1]], sys.argv[2]))))
        return
    for bar in run():
        print(
            f"{bar.what:40} {bar.figure:>14} {bar.bar:>12} {'' if bar.met is None else 'met' if bar.met else 'MISSED'}"
        )


if __name__ == "__main__":
    main()

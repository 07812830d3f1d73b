"""Many partitions that all have queues and delayed messages: how fast a node starts on them, and their memory.

    python -m tests.bench.bench_families [--quick] [--directory DIR] [--only start|wide|deep]

`start`: 1,000 partitions with a queue group and delayed messages each; process to ready file, after a stop and a kill.
`wide`: 1,000,000 delayed messages over 1,000 partitions. `deep`: 10,000,000 over 100, and a restart on them.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import psutil
import uvloop
from tests.bench.command import command, finish, run
from tests.bench.measure import Bar, at_most, told
from tests.e2e.process import BrokerProcess

from goqueue.broker.topics import NewTopic
from goqueue.config import BrokerConfig, Config, ListenersConfig
from goqueue.delay.values import Held
from goqueue.delivery.values import Action, Receive, Settlement
from goqueue.node.assemble import assemble
from goqueue.node.process.lifecycle import keep_for_good
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.services import Services

TOPIC = "families"
YEAR_MS = 365 * 24 * 3_600_000
STARTS = 7
START_SECONDS_MAX = 1.5
WIDE_MB_MAX, DEEP_MB_MAX, DEEP_SECONDS_MAX = 300, 500, 15
VALUE = bytes(100)
# Calls of `hold` that are under way at once: one alone would wait for the disk each time.
ABREAST = 8
HELD_AT_ONCE = 1000
PATIENCE_SECONDS = 3_600


async def with_queues(services: Services, partitions: int, _messages: int) -> None:
    """Every partition: messages, some of them taken and settled by a group, and delayed ones."""
    await services.topics.create(NewTopic(TOPIC, partitions))
    places = [TopicPartition(TOPIC, number) for number in range(partitions)]
    for place in places:
        await services.publish.publish_records(
            TOPIC, [NewRecord(None, VALUE)] * 4, acks=Acks.LEADER, partition=place.partition
        )
        found = await services.delivery.receive(Receive("g", "c", [place], 2))
        await services.delivery.settle([Settlement(one.receipt, Action.ACK) for one in found[:1]])
    await _hold(services, partitions, 10 * partitions)


async def delayed(services: Services, partitions: int, messages: int) -> None:
    """So many delayed messages over so many partitions."""
    await services.topics.create(NewTopic(TOPIC, partitions))
    await _hold(services, partitions, messages)


async def _hold(services: Services, partitions: int, messages: int) -> None:
    rng = Random(7)
    room = asyncio.Semaphore(ABREAST)

    async def hold(first: int) -> None:
        async with room:
            due_ms = services.clock.now_ms() + 3_600_000
            held = [
                Held(NewRecord(None, VALUE), due_ms + rng.randrange(YEAR_MS), number % partitions)
                for number in range(first, min(first + HELD_AT_ONCE, messages))
            ]
            await services.delay.hold(TOPIC, held)

    calls = range(0, messages, HELD_AT_ONCE)
    for at in range(0, len(calls), ABREAST):
        async with asyncio.TaskGroup() as group:
            for first in calls[at : at + ABREAST]:
                group.create_task(hold(first))
    await services.delay.list(TOPIC, limit=1)
    assert services.delay.stats().pending[TOPIC] == messages


async def _fill(story: str, directory: str, partitions: int, messages: int) -> dict[str, float]:
    config = Config(
        broker=BrokerConfig(data_dir=directory), listeners=ListenersConfig(kafka="127.0.0.1:0", http="127.0.0.1:0")
    )
    node = assemble(config)
    running = await node.start()
    keep_for_good()
    started = time.monotonic()
    await {"with_queues": with_queues, "delayed": delayed}[story](running.services, partitions, messages)
    seconds = time.monotonic() - started
    megabytes = psutil.Process().memory_info().rss / 1e6
    await node.stop()
    return {"megabytes": megabytes, "seconds": seconds}


def _part(story: str, directory: Path, partitions: int, messages: int) -> dict[str, float]:
    """Fill a directory in a process of its own, so that its memory is that part's alone."""
    command = [
        sys.executable,
        "-m",
        "tests.bench.bench_families",
        story,
        str(directory),
        str(partitions),
        str(messages),
    ]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
    if finished.returncode:
        raise RuntimeError(finished.stderr)
    figures: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return figures


def _start(broker: BrokerProcess) -> tuple[float, float]:
    """Seconds until it is ready, and how much processor time it took until then."""
    started = time.monotonic()
    broker.start(seconds_max=PATIENCE_SECONDS)
    seconds = time.monotonic() - started
    times = psutil.Process(broker.pid).cpu_times()
    return seconds, times.user + times.system


def start(home: Path, *, quick: bool) -> list[Bar]:
    """Starts on partitions with queues and delays."""
    partitions = 100 if quick else 1000
    broker = BrokerProcess(home / "start")
    _part("with_queues", broker.data_dir, partitions, 0)
    bars = []
    for name, end in (("a stop", broker.stop), ("a kill", broker.kill)):
        found = []
        for _ in range(1 if quick else STARTS):
            found.append(_start(broker))
            end()
        what = f"process to ready file with {partitions:,} partitions that have queues and delays, after {name}"
        bars.append(at_most(what, median(wall for wall, _ in found), START_SECONDS_MAX, unit=" s"))
        bars.append(told("of that, processor time", median(cpu for _, cpu in found), unit=" s"))
    return bars


def wide(home: Path, *, quick: bool) -> list[Bar]:
    """A million delayed messages over a thousand partitions."""
    partitions, messages = (50, 10_000) if quick else (1000, 1_000_000)
    return _pending(BrokerProcess(home / "wide"), partitions, messages, WIDE_MB_MAX)


def deep(home: Path, *, quick: bool) -> list[Bar]:
    """Ten millions over a hundred."""
    partitions, messages = (5, 20_000) if quick else (100, 10_000_000)
    return _pending(BrokerProcess(home / "deep"), partitions, messages, DEEP_MB_MAX)


def _pending(broker: BrokerProcess, partitions: int, messages: int, megabytes_max: int) -> list[Bar]:
    figures = _part("delayed", broker.data_dir, partitions, messages)
    seconds, _ = _start(broker)
    megabytes = psutil.Process(broker.pid).memory_info().rss / 1e6
    broker.stop()
    what = f"{messages:,} delayed messages over {partitions:,} partitions"
    return [
        at_most(f"memory with {what}", figures["megabytes"], megabytes_max, unit=" MB", digits=0),
        at_most("memory after a restart on them", megabytes, megabytes_max, unit=" MB", digits=0),
        at_most("process to ready file on them", seconds, DEEP_SECONDS_MAX, unit=" s"),
        told("held per second, with acks=all", messages / figures["seconds"], unit="/s", digits=0),
    ]


PARTS = {"start": start, "wide": wide, "deep": deep}


def main() -> int:
    """Run the chosen parts, or fill one directory for one of them."""
    if len(sys.argv) == 5 and sys.argv[1] in {"with_queues", "delayed"}:
        story, directory, partitions, messages = sys.argv[1:]
        print(json.dumps(uvloop.run(_fill(story, directory, int(partitions), int(messages)))))
        return 0
    options = command(__doc__, only=PARTS, directory=True).parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as home:
        bars = run(options.only, lambda name: PARTS[name](Path(home), quick=options.quick))
    return finish(bars, quick=options.quick)


if __name__ == "__main__":
    sys.exit(main())

"""`make bench-clients`: what settings of confluent-kafka are worth, with the same broker and the same messages.

    python -m tests.bench.bench_clients [--quick]

The figures behind docs/howto/fast-clients.md. Each way of reading and writing is a process of its own, all take turns
within a round, and whatever was sent or read is counted. Nothing is promised here, so there are no bars.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.clients_load import PARTITIONS
from tests.bench.command import command, finish
from tests.bench.measure import Bar, told
from tests.e2e.http import Http
from tests.e2e.process import BrokerProcess

# For the C library of Linux: what the process lets go of stays its own. Read when a process starts.
KEEPS_MEMORY = {"MALLOC_TRIM_THRESHOLD_": "268435456", "MALLOC_MMAP_THRESHOLD_": "33554432"}
NO_NAPS = {"fetch.message.max.bytes": 4_000_000, "fetch.queue.backoff.ms": 1}

# What is said of it, the function, the client's settings, and the environment.
Way = tuple[str, str, dict[str, Any], dict[str, str]]
READING: tuple[Way, ...] = (
    ("poll, as it comes", "poll", {}, {}),
    ("poll without naps", "poll", NO_NAPS, {}),
    ("consume of 10,000 without naps", "consume", NO_NAPS, {}),
    ("the same, memory is kept", "consume", NO_NAPS, KEEPS_MEMORY),
)
WRITING: tuple[Way, ...] = (
    ("produce, as it comes", "produce", {}, {}),
    ("produce_batch of 10,000", "produce_batch", {}, {}),
)


def bench(*, rounds: int, count: int) -> list[Bar]:
    """Messages per second of every way, and its multiple of the first."""
    with tempfile.TemporaryDirectory(prefix="goqueue-bench-") as folder:
        broker = BrokerProcess(Path(folder)).start()
        try:
            _new_topic(broker, "read")
            _timed(broker, "read", count, WRITING[-1])
            reading = _in_turns(rounds, READING, lambda way: _timed(broker, "read", count, way))
            writing = _in_turns(rounds, WRITING, lambda way: _written(broker, count, way))
        finally:
            broker.stop()
    return [*_rows("read", READING, reading), *_rows("write", WRITING, writing)]


def _in_turns(rounds: int, ways: tuple[Way, ...], work: Callable[[Way], float]) -> list[list[float]]:
    """Rates by round and way; the first round is thrown away."""
    return [[work(way) for way in ways] for _ in range(rounds + 1)][1:]


def _rows(what: str, ways: tuple[Way, ...], rates: list[list[float]]) -> list[Bar]:
    rows: list[Bar] = []
    for at, (name, *_) in enumerate(ways):
        rows.append(told(f"{what}: {name}, messages/s", median(one[at] for one in rates), digits=0))
        if at:
            rows.append(told(f"{what}: {name}, times the first", median(one[at] / one[0] for one in rates)))
    return rows


def _written(broker: BrokerProcess, count: int, way: Way) -> float:
    topic = f"written-{time.monotonic_ns()}"
    _new_topic(broker, topic)
    rate = _timed(broker, topic, count, way)
    Http(broker.http).delete(f"/topics/{topic}")
    os.sync()
    return rate


def _timed(broker: BrokerProcess, topic: str, count: int, way: Way) -> float:
    """Messages per second, in a process that has nothing else to do."""
    _, function, settings, environment = way
    arguments = [function, broker.kafka, topic, str(count), json.dumps(settings)]
    process = subprocess.run(
        [sys.executable, "-m", "tests.bench.clients_load", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        raise RuntimeError(process.stderr)
    return count / float(process.stdout)


def _new_topic(broker: BrokerProcess, name: str) -> None:
    Http(broker.http).post("/topics", {"name": name, "num_partitions": PARTITIONS})


def main() -> int:
    """Print the table."""
    quick = command(__doc__).parse_args().quick
    sizes = {"rounds": 1, "count": 20_000} if quick else {"rounds": 7, "count": 500_000}
    return finish(bench(**sizes), quick=quick)


if __name__ == "__main__":
    sys.exit(main())

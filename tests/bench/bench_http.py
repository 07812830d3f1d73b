"""`make bench-http`: the HTTP API and the Python client, every stored message counted.

    python -m tests.bench.bench_http [--quick]

Load comes from a process of its own. What was sent must be what the topic holds, or there is
no figure. Prints a Markdown table; exit code 1 if a bar was not met.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from tests.bench.command import command, finish
from tests.bench.measure import Bar, at_least, at_most, told
from tests.e2e.http import Http
from tests.e2e.process import BrokerProcess

GOQUEUE = Path(sys.executable).parent / "goqueue"


def load(job: str, address: str, topic: str, count: int, size: int) -> float:
    """Messages or requests per second of one job."""
    command = [sys.executable, "-m", "tests.bench.http_load", job, address, topic, str(count), str(size)]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    result = json.loads(finished.stdout)
    return float(result["count"] / result["seconds"])


def verified(http: Http, topic: str, expected: int) -> None:
    stored = http.get(f"/topics/{topic}")["total_messages"]
    if stored != expected:
        message = f"{topic} holds {stored} messages instead of {expected}: there is no figure"
        raise SystemExit(message)


@contextmanager
def bare_server() -> Iterator[str]:
    with subprocess.Popen([sys.executable, "-m", "tests.bench.bare_http"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.terminate()


def bench(scale: int, rounds: int) -> list[Bar]:
    """All bars; `scale` divides the work for a smoke run."""
    with tempfile.TemporaryDirectory(prefix="goqueue-bench-") as folder, bare_server() as bare:
        broker = BrokerProcess(Path(folder)).start()
        http = Http(broker.http)
        try:
            return [*throughput(http, broker.http, bare, scale, rounds), *start_up(Path(folder))]
        finally:
            broker.stop()


def throughput(http: Http, address: str, bare: str, scale: int, rounds: int) -> list[Bar]:
    batches, singles, clients = 300 // scale, 8_000 // scale, 120_000 // scale
    in_batches, single_ratios, single_rates, produced, consumed = [], [], [], [], []
    for number in range(rounds):
        topic = f"batches-{number}"
        http.post("/topics", {"name": topic})
        in_batches.append(load("batches", address, topic, batches, 1000) * 1000)
        verified(http, topic, (batches + 1) * 1000)

        topic = f"singles-{number}"
        http.post("/topics", {"name": topic})
        ceiling = load("singles", bare, topic, singles, 16)
        single_rates.append(load("singles", address, topic, singles, 16))
        single_ratios.append(single_rates[-1] / ceiling)
        verified(http, topic, singles + 1)

        topic = f"client-{number}"
        http.post("/topics", {"name": topic})
        produced.append(load("produce", address, topic, clients, 0))
        verified(http, topic, clients + 1)
        consumed.append(load("consume", address, topic, clients, 0))
    return [
        at_least("batches of 1,000 x 100 B, acks=leader, msg/s", median(in_batches), 100_000, digits=0),
        at_least("single publish, 16 connections, against a bare handler", median(single_ratios), 0.6),
        told("single publish, requests/s", median(single_rates), digits=0),
        at_least("Python Producer, 100 B, msg/s", median(produced), 60_000, digits=0),
        at_least("Python Consumer, 100 B, msg/s", median(consumed), 100_000, digits=0),
    ]


def start_up(folder: Path) -> list[Bar]:
    helps, starts = [], []
    for number in range(5):
        started = time.perf_counter()
        subprocess.run([GOQUEUE, "--help"], capture_output=True, check=True)
        helps.append(time.perf_counter() - started)
        broker = BrokerProcess(folder / f"start-{number}")
        started = time.perf_counter()
        broker.start()
        starts.append(time.perf_counter() - started)
        broker.stop()
    return [
        at_most("goqueue --help, s", median(helps), 0.3),
        at_most("ready on an empty directory, s", median(starts), 1.0),
    ]


def main() -> int:
    quick = command(__doc__).parse_args().quick
    return finish(bench(scale=20 if quick else 1, rounds=1 if quick else 3), quick=quick)


if __name__ == "__main__":
    sys.exit(main())

"""`make bench-grpc`: the gRPC API beside HTTP, in turns within one run.

    python -m tests.bench.bench_grpc [--quick] [--only PART ...]

Prints a Markdown table; exit code 1 if a bar was not met.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.command import command, finish, run
from tests.bench.measure import Bar, at_least, at_most, told
from tests.e2e.http import Http
from tests.e2e.process import BrokerProcess

PARTS = ("publish", "queue", "latency")


def publish(count: int, rounds: int) -> list[Bar]:
    """Messages of 100 B in frames of 100 over one stream; all are counted in the log."""
    rates = []
    with _broker() as broker:
        http = Http(broker.http)
        for number in range(rounds):
            topic = f"publish-{number}"
            http.post("/topics", {"name": topic, "num_partitions": 3})
            done = _load("publish_stream", broker.grpc, topic, count)
            stored = http.get(f"/topics/{topic}")["total_messages"]
            if (done["count"], stored) != (count, count + 1):
                raise SystemExit(f"{done['count']} answered, {stored} stored instead of {count}: there is no figure")
            rates.append(count / done["seconds"])
    return [
        at_least("publish stream of 100 B in frames of 100, msg/s", median(rates), 80_000, digits=0),
        told("the best of the rounds, msg/s", max(rates), digits=0),
    ]


def queue(count: int, rounds: int) -> list[Bar]:
    """Receive and ack over a work stream, beside HTTP's batches of 100."""
    ours, theirs = [], []
    with _broker() as broker:
        http = Http(broker.http)
        for number in range(rounds):
            turns = [("grpc", ours), ("http", theirs)]
            for name, rates in turns if number % 2 == 0 else reversed(turns):
                topic = f"queue-{name}-{number}"
                http.post("/topics", {"name": topic, "num_partitions": 1})
                for first in range(0, count, 1000):
                    http.publish(topic, *["x" * 100] * min(1000, count - first))
                job, address = ("http_batches", broker.http) if name == "http" else ("work", broker.grpc)
                done = _load(job, address, topic, count)
                if (done["count"], done["settled"]) != (count, count):
                    raise SystemExit(f"{name}: {done} instead of {count}: there is no figure")
                rates.append(count / done["seconds"])
    ratio = median(our / their for our, their in zip(ours, theirs, strict=True))
    return [
        at_least("work stream, receive and ack, as a multiple of HTTP's batches of 100", ratio, 1.5),
        told("work stream, receive and ack, msg/s", median(ours), digits=0),
        told("HTTP, receive 100 and ack them in one call, msg/s", median(theirs), digits=0),
    ]


def latency(count: int, rounds: int) -> list[Bar]:
    """Single publishes at 1,000/s: gRPC's p99 beside HTTP's."""
    ours: list[dict[str, Any]] = []
    theirs: list[dict[str, Any]] = []
    with _broker() as broker:
        Http(broker.http).post("/topics", {"name": "latency", "num_partitions": 3})
        for number in range(rounds):
            turns = [("unary", broker.grpc, ours), ("unary_http", broker.http, theirs)]
            for job, address, found in turns if number % 2 == 0 else reversed(turns):
                found.append(_load(job, address, "latency", count))
    ratio = median(our["p99"] / their["p99"] for our, their in zip(ours, theirs, strict=True))
    return [
        at_most("unary publish at 1,000/s: p99 as a multiple of HTTP's", ratio, 1.5),
        *(
            told(f"{name}, {which}, ms", median(one[which] for one in found))
            for name, found in (("gRPC", ours), ("HTTP", theirs))
            for which in ("p50", "p99")
        ),
    ]


@contextmanager
def _broker() -> Iterator[BrokerProcess]:
    with tempfile.TemporaryDirectory(prefix="goqueue-bench-") as folder:
        broker = BrokerProcess(Path(folder))
        broker.grpc = "127.0.0.1:0"
        broker.start()
        try:
            yield broker
        finally:
            broker.stop()


def _load(job: str, address: str, topic: str, count: int) -> dict[str, Any]:
    return _run("tests.bench.grpc_load", job, address, topic, str(count))


def _run(module: str, *arguments: str) -> dict[str, Any]:
    finished = subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, text=True, check=False)
    if finished.returncode:
        raise SystemExit(finished.stderr)
    return dict(json.loads(finished.stdout))


def bars_of(part: str, *, quick: bool) -> list[Bar]:
    """The bars of one part."""
    if part == "publish":
        return publish(*((10_000, 1) if quick else (500_000, 3)))
    if part == "queue":
        return queue(*((5_000, 1) if quick else (100_000, 3)))
    return latency(*((500, 1) if quick else (10_000, 3)))


def main() -> int:
    options = command(__doc__, only=PARTS).parse_args()
    return finish(run(options.only, lambda part: bars_of(part, quick=options.quick)), quick=options.quick)


if __name__ == "__main__":
    sys.exit(main())

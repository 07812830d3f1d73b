"""`make bench-kafka`: stock Kafka clients against GoQueue and against a broker that stores nothing.

    python -m tests.bench.bench_kafka [--quick] [--only NAME ...] [--directory DIR]

Every ratio compares two things of the same run that take turns; what was stored is counted.
Prints a Markdown table; exit code 1 if a bar was not met.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from tests.bench import kafka_load
from tests.bench.command import command, finish, run
from tests.bench.kafka_brokers import (
    Profile,
    cpu_seconds,
    fresh_topic,
    null_broker,
    real_broker,
    records_per_batch,
    rss_mib,
    stored_count,
    wait_until_deleted,
)
from tests.bench.kafka_rebalance import bench_rebalance
from tests.bench.measure import Bar, alternate, at_least, at_most, speed_ratio, told
from tests.e2e.kafka_raw import API_VERSIONS, RawClient
from tests.e2e.process import BrokerProcess

PRODUCE_RATIO_MIN = 0.7
FETCH_RATIO_MIN = 0.7
PRODUCE_PER_SECOND_MIN = 100_000
ACKS_ALL_RATIO_MIN = 0.5
P99_MS_MAX = 10
IDLE_CONNECTIONS = 2000
IDLE_MIB_MAX = 200
IDLE_CPU_PERCENT_MAX = 2


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is done."""

    rounds: int
    messages: dict[int, int]
    acks_all_messages: int
    latency_seconds: float
    idle_seconds: float
    is_quick: bool


FULL = Scale(5, {100: 2_000_000, 1000: 600_000}, 800_000, 10, 10, is_quick=False)
QUICK = Scale(1, {100: 100_000, 1000: 30_000}, 40_000, 1, 2, is_quick=True)


def bench_produce_and_fetch(scale: Scale, directory: str | None, size: int) -> list[Bar]:
    """One producer, then one consumer, against both brokers in turn."""
    count = scale.messages[size]
    with real_broker(directory) as broker:
        fresh_topic(broker.kafka)
        _produced(broker, size, count)
        batch_records = records_per_batch(broker.kafka)
        with null_broker(size, batch_records) as null:
            ours, theirs = alternate(
                scale.rounds,
                lambda: _produced(broker, size, count),
                lambda: float(kafka_load.run(kafka_load.produce, address=null, size=size, count=count)["seconds"]),
            )
            ours_read, theirs_read = alternate(
                scale.rounds,
                lambda: _consumed(broker.kafka, size, count),
                lambda: _consumed(null, size, count),
            )
        if not scale.is_quick:
            _show_profile(f"produce of {size} B", broker, lambda: _produced(broker, size, count), median(ours))
            _show_profile(f"fetch of {size} B", broker, lambda: _consumed(broker.kafka, size, count), median(ours_read))
    per_second = count / median(ours)
    return [
        at_least(f"produce {size} B acks=1, share of the null broker", speed_ratio(ours, theirs), PRODUCE_RATIO_MIN),
        at_least(f"produce {size} B acks=1, messages/s", per_second, PRODUCE_PER_SECOND_MIN, digits=0),
        told(f"produce {size} B, null broker, messages/s", count / median(theirs), digits=0),
        told(f"produce {size} B, MB/s", per_second * size / 1e6, digits=0),
        told(f"records in a batch of {size} B records", batch_records, digits=0),
        at_least(f"fetch {size} B, share of the null broker", speed_ratio(ours_read, theirs_read), FETCH_RATIO_MIN),
        told(f"fetch {size} B, messages/s", count / median(ours_read), digits=0),
        told(f"fetch {size} B, null broker, messages/s", count / median(theirs_read), digits=0),
    ]


def bench_acks_all(scale: Scale, directory: str | None) -> list[Bar]:
    """Eight producers that wait for the disk, against eight that do not."""
    count, size = scale.acks_all_messages, 1000
    with real_broker(directory) as broker:
        every, leader = alternate(
            scale.rounds,
            lambda: _produced(broker, size, count, acks="all", producers=8),
            lambda: _produced(broker, size, count, acks="1", producers=8),
        )
    syncs = _bare_syncs_per_second(directory, scale.rounds * 20)
    return [
        at_least("acks=all with 8 producers, share of acks=1", speed_ratio(every, leader), ACKS_ALL_RATIO_MIN),
        told("acks=all with 8 producers, messages/s", count / median(every), digits=0),
        told("acks=1 with 8 producers, messages/s", count / median(leader), digits=0),
        told("bare loop of 100 KB write + fdatasync, per second", syncs, digits=0),
    ]


def bench_latency(scale: Scale, directory: str | None) -> list[Bar]:
    """Single messages at 5,000 per second."""
    with real_broker(directory) as broker, null_broker(100, 1) as null:
        fresh_topic(broker.kafka)
        arguments = {"size": 100, "rate": 5000, "seconds": scale.latency_seconds}
        ours = kafka_load.run(kafka_load.latency, address=broker.kafka, **arguments)
        theirs = kafka_load.run(kafka_load.latency, address=null, **arguments)
        _check(stored_count(broker.kafka), ours["count"] + 5000)
    return [
        at_most("p99 of a single produce at 5,000/s, acks=1", ours["p99_ms"], P99_MS_MAX, unit=" ms"),
        told("p50 of the same", ours["p50_ms"], unit=" ms"),
        told("rate that was reached, messages/s", ours["rate"], digits=0),
        told("p99 of the same, null broker", theirs["p99_ms"], unit=" ms"),
    ]


def bench_idle(scale: Scale, directory: str | None) -> list[Bar]:
    """Connections that do nothing, and a broker that has nothing to do."""
    connections = 100 if scale.is_quick else IDLE_CONNECTIONS
    with real_broker(directory) as broker:
        before = rss_mib(broker.pid)
        clients = [RawClient(broker.kafka) for _ in range(connections)]
        for client in clients:
            client.call(API_VERSIONS, 3, client_software_name="bench", client_software_version="1")
        full = rss_mib(broker.pid)
        busy_percent = _cpu_percent(broker.pid, scale.idle_seconds)
        for client in clients:
            client.socket.shutdown(socket.SHUT_RDWR)
            client.socket.close()
        idle_percent = _cpu_percent(broker.pid, scale.idle_seconds)
    return [
        at_most(f"RSS with {connections:,} idle connections", full, IDLE_MIB_MAX, unit=" MiB", digits=0),
        told("RSS before", before, unit=" MiB", digits=0),
        at_most("CPU of an idle broker", idle_percent, IDLE_CPU_PERCENT_MAX, unit=" %"),
        told("CPU with the idle connections", busy_percent, unit=" %"),
    ]


def _produced(broker: BrokerProcess, size: int, count: int, **more: Any) -> float:
    """Seconds to produce into an empty topic; fails unless all is stored."""
    fresh_topic(broker.kafka)
    wait_until_deleted(broker)
    result = kafka_load.run(kafka_load.produce, address=broker.kafka, size=size, count=count, **more)
    _check(stored_count(broker.kafka), count)
    return float(result["seconds"])


def _consumed(address: str, size: int, count: int) -> float:
    return float(kafka_load.run(kafka_load.consume, address=address, size=size, count=count)["seconds"])


def _check(stored: int, sent: int) -> None:
    if stored != sent:
        raise RuntimeError(f"{sent} messages were acknowledged, {stored} are stored")


def _cpu_percent(pid: int, seconds: float) -> float:
    before = cpu_seconds(pid)
    time.sleep(seconds)
    return (cpu_seconds(pid) - before) / seconds * 100


def _bare_syncs_per_second(directory: str | None, count: int) -> float:
    with tempfile.NamedTemporaryFile(dir=directory) as file:
        data = bytes(100_000)
        started = time.perf_counter()
        for _ in range(count):
            os.write(file.fileno(), data)
            os.fdatasync(file.fileno())
        return count / (time.perf_counter() - started)


def _show_profile(what: str, broker: BrokerProcess, work: Callable[[], object], seconds: float) -> None:
    before = cpu_seconds(broker.pid)
    profile = Profile(broker.pid, max(seconds, 1.0))
    work()
    rows = profile.rows(12)
    print(f"\nprofile of the broker, {what} ({cpu_seconds(broker.pid) - before:.2f} s of processor):\n")
    print("\n".join(f"  {share:6.1%}  {name}" for name, share in rows) or "  py-spy may not look into the process")


BENCHES: dict[str, Callable[[Scale, str | None], list[Bar]]] = {
    "100": lambda scale, directory: bench_produce_and_fetch(scale, directory, 100),
    "1000": lambda scale, directory: bench_produce_and_fetch(scale, directory, 1000),
    "acks": bench_acks_all,
    "latency": bench_latency,
    "rebalance": lambda scale, directory: bench_rebalance(directory, is_quick=scale.is_quick),
    "idle": bench_idle,
}


def main() -> int:
    """Run what was asked for and print the table."""
    options = command(__doc__, only=BENCHES, directory=True).parse_args()
    scale = QUICK if options.quick else FULL
    return finish(run(options.only, lambda name: BENCHES[name](scale, options.directory)), quick=options.quick)


if __name__ == "__main__":
    sys.exit(main())

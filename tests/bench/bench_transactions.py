"""`make bench-transactions`: what transactions cost, against the same client without them.

    python -m tests.bench.bench_transactions [--quick]

Everything is compared within one run and one round. What was sent must be what committed readers
get, or there is no figure. Prints a Markdown table; exit code 1 if a bar was not met.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.command import command, finish
from tests.bench.measure import Bar, at_least, at_most, told
from tests.bench.transactions_load import PARTITIONS, compare, consume, latencies, produce, run
from tests.e2e.http import Http
from tests.e2e.process import BrokerProcess

SIZE = 100
FLUSH_MS = 100
MESSAGES = 1000


def bench(*, seconds: float, rounds: int, commits: int) -> list[Bar]:
    """All bars."""
    with tempfile.TemporaryDirectory(prefix="goqueue-bench-") as folder:
        broker = BrokerProcess(Path(folder)).start()
        try:
            return [
                *throughput(broker, seconds, rounds),
                *commit_latency(broker, commits),
                *reading(broker, 2 * seconds, rounds - rounds // 3),
            ]
        finally:
            broker.stop()


def throughput(broker: BrokerProcess, seconds: float, rounds: int) -> list[Bar]:
    """Commits against flushes, every 100 ms and every 1,000 messages."""
    timed = compared(broker, "timed", seconds, rounds, every_ms=FLUSH_MS)
    counted = compared(broker, "counted", seconds, rounds // 2, every_messages=MESSAGES)
    return [
        at_least("commits every 100 ms, share of flushes every 100 ms", share(timed), 0.7),
        told("messages of 100 B with commits, per second", median(timed["rates"]["commit"]), digits=0),
        told("messages of 100 B with flushes, per second", median(timed["rates"]["flush"]), digits=0),
        told("commits in it, per second", median(timed["ends"]["commit"])),
        told("flushes in it, per second", median(timed["ends"]["flush"])),
        told("commits every 1,000 messages, share of flushes every 1,000", share(counted)),
        told("commits in it, per second", median(counted["ends"]["commit"])),
        told("flushes in it, per second", median(counted["ends"]["flush"])),
    ]


def compared(broker: BrokerProcess, name: str, seconds: float, rounds: int, **pace: int) -> dict[str, Any]:
    """Rates of turns with flushes and with commits; everything that was acknowledged is read back."""
    topics = {"flush": f"{name}-flush", "commit": f"{name}-commit"}
    for topic in topics.values():
        new_topic(broker, topic)
    done = run(
        compare,
        address=broker.kafka,
        plain=topics["flush"],
        transactional=topics["commit"],
        size=SIZE,
        seconds=seconds,
        rounds=rounds,
        **pace,
    )
    for kind, topic in topics.items():
        verified(broker, topic, done["counts"][kind])
    return done


def share(done: dict[str, Any]) -> float:
    """The middle of the ratios of turns that lay beside each other."""
    rates = done["rates"]
    return median(commit / flush for commit, flush in zip(rates["commit"], rates["flush"], strict=True))


def commit_latency(broker: BrokerProcess, commits: int) -> list[Bar]:
    """A commit is a decision on the disk; a produce is a batch on the disk."""
    new_topic(broker, "latency")
    taken = run(latencies, address=broker.kafka, topic="latency", rounds=commits)
    produce_ms, commit_ms = (sorted(taken[name]) for name in ("produce_ms", "commit_ms"))
    p99 = int(0.99 * commits)
    return [
        at_most("commit p99, of an acks=all produce's p99", commit_ms[p99] / produce_ms[p99], 4),
        told("commit p50, ms", median(commit_ms)),
        told("commit p99, ms", commit_ms[p99]),
        told("acks=all produce p50, ms", median(produce_ms)),
        told("acks=all produce p99, ms", produce_ms[p99]),
    ]


def reading(broker: BrokerProcess, seconds: float, rounds: int) -> list[Bar]:
    """The same committed records, read both ways."""
    new_topic(broker, "read")
    written = run(produce, address=broker.kafka, topic="read", size=SIZE, seconds=seconds, every_ms=FLUSH_MS)["count"]
    ratios = []
    for number in range(rounds):
        rate = {}
        for committed in [False, True] if number % 2 == 0 else [True, False]:
            done = run(consume, address=broker.kafka, topic="read", count=written, committed=committed)
            rate[committed] = done["count"] / done["seconds"]
        ratios.append(rate[True] / rate[False])
    return [at_least("read-committed fetch, share of read-uncommitted", median(ratios), 0.9)]


def new_topic(broker: BrokerProcess, name: str) -> None:
    Http(broker.http).post("/topics", {"name": name, "num_partitions": PARTITIONS})


def verified(broker: BrokerProcess, topic: str, expected: int) -> None:
    """Committed readers get every message that was acknowledged."""
    run(consume, address=broker.kafka, topic=topic, count=expected, committed=True)


def main() -> int:
    quick = command(__doc__).parse_args().quick
    sizes = {"seconds": 0.3, "rounds": 2, "commits": 100} if quick else {"seconds": 0.6, "rounds": 11, "commits": 1000}
    return finish(bench(**sizes), quick=quick)


if __name__ == "__main__":
    sys.exit(main())

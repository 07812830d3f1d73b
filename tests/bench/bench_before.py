"""This tree against an earlier commit, in turns within one run: what a change costs or gains.

Both brokers run side by side, each from its own sources, and the same client does the same work on one and then on the
other, seven times over. Each pair is compared with itself, and the median of the ratios is reported. On a machine that
others use the ratios say little: run it on an idle one.

    make bench-before BASE=v0.1.0
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count as numbers
from pathlib import Path

from tests.bench import kafka_load, transactions_load
from tests.bench.bench_http import load as http_rate
from tests.bench.command import command, finish, run
from tests.bench.kafka_brokers import fresh_topic, stored_count, wait_until_deleted
from tests.bench.measure import Bar, alternate, at_least, speed_ratio
from tests.bench.queue_http import rate as drain_rate
from tests.bench.share_load import ShareLoad, run_share_load
from tests.e2e.http import Http
from tests.e2e.process import BrokerProcess

RATIO_MIN = 0.97
ROUNDS = 7
# Of each delayed message, which is no work; and how long to wait for all of them.
_DELAY_SECONDS, _DELAY_SECONDS_MAX = 1, 120
_ROOT = Path(__file__).parents[2]

# Seconds that one round of a work takes on a broker.
Work = Callable[[BrokerProcess], float]


@contextmanager
def sources(commit: str) -> Iterator[Path]:
    """The sources of a commit, beside ours for as long as the benchmark runs."""
    with tempfile.TemporaryDirectory(prefix="goqueue-before-") as folder:
        place = Path(folder) / "tree"
        git = ["git", "-C", str(_ROOT), "worktree"]
        subprocess.run([*git, "add", "--detach", str(place), commit], check=True, capture_output=True)
        try:
            yield place / "src"
        finally:
            subprocess.run([*git, "remove", "--force", str(place)], check=True, capture_output=True)


@contextmanager
def broker_of(source: Path, directory: str | None) -> Iterator[BrokerProcess]:
    """A broker that runs from these sources."""
    with tempfile.TemporaryDirectory(dir=directory) as home:
        broker = BrokerProcess(Path(home), environment={"PYTHONPATH": str(source)}).start()
        try:
            yield broker
        finally:
            broker.stop()


def seconds_until_delivered(new_topic: Callable[[BrokerProcess], str], total: int, broker: BrokerProcess) -> float:
    """From the first publish of delayed messages until all have come due and are in their topic, less the delay."""
    http, topic = Http(broker.http), new_topic(broker)
    started = time.monotonic()
    for first in range(0, total, 1000):
        messages = [{"value": "x" * 100, "delay": f"{_DELAY_SECONDS}s"} for _ in range(min(1000, total - first))]
        reply = http.post(f"/topics/{topic}/messages", {"messages": messages})
        if not all(one.get("delayed") for one in reply["results"]):
            raise RuntimeError(f"not every message was held: {reply}")
    while (stored := http.get(f"/topics/{topic}/partitions")["partitions"][0]["latest"]) < total:
        if time.monotonic() > started + _DELAY_SECONDS_MAX:
            raise RuntimeError(f"only {stored} of {total} messages came due")
        time.sleep(0.002)
    return time.monotonic() - started - _DELAY_SECONDS


def works(divisor: int) -> dict[str, Work]:
    """What is measured; `divisor` makes it smaller."""
    topics = numbers()

    def new_topic(broker: BrokerProcess, partitions: int = 1) -> str:
        name = f"before-{next(topics)}"
        Http(broker.http).post("/topics", {"name": name, "num_partitions": partitions})
        return name

    def produce(size: int, count: int) -> Work:
        def work(broker: BrokerProcess) -> float:
            fresh_topic(broker.kafka)
            wait_until_deleted(broker)
            result = kafka_load.run(kafka_load.produce, address=broker.kafka, size=size, count=count // divisor)
            if (stored := stored_count(broker.kafka)) != count // divisor:
                raise RuntimeError(f"{stored} messages are stored instead of {count // divisor}")
            return float(result["seconds"])

        return work

    def fetch(size: int, count: int) -> Work:
        def work(broker: BrokerProcess) -> float:
            produce(size, count)(broker)
            result = kafka_load.run(kafka_load.consume, address=broker.kafka, size=size, count=count // divisor)
            return float(result["seconds"])

        return work

    def http_publish(broker: BrokerProcess) -> float:
        # So many requests, each with 100 messages.
        return 1 / http_rate("batches", broker.http, new_topic(broker), 2_000 // divisor, 100)

    def receive_and_ack(broker: BrokerProcess) -> float:
        topic, total = new_topic(broker), 50_000 // divisor
        for first in range(0, total, 1000):
            Http(broker.http).publish(topic, *["x" * 100] * min(1000, total - first))
        return 1 / drain_rate(broker.http, topic, total)

    def transactions(broker: BrokerProcess) -> float:
        arguments = {
            "address": broker.kafka,
            "topic": new_topic(broker, kafka_load.PARTITIONS),
            "size": 100,
            "every_ms": 100,
        }
        done = transactions_load.run(transactions_load.produce, seconds=5 / divisor, **arguments)
        return float(done["seconds"] / done["count"])

    def share_group(broker: BrokerProcess) -> float:
        name = f"share-{next(topics)}"
        return run_share_load(broker.kafka, name, ShareLoad(messages=20_000 // divisor, consumers=2)).seconds

    return {
        "produce-100": produce(100, 1_000_000),
        "produce-1k": produce(1000, 200_000),
        "fetch-100": fetch(100, 1_000_000),
        "fetch-1k": fetch(1000, 200_000),
        "http-publish": http_publish,
        "receive-ack": receive_and_ack,
        "transactions": transactions,
        "share-group": share_group,
        "delay": partial(seconds_until_delivered, new_topic, 20_000 // divisor),
    }


def compare(
    base: str,
    *,
    quick: bool,
    ratio_min: float = RATIO_MIN,
    only: Sequence[str] = (),
    rounds: int = ROUNDS,
    directory: str | None = None,
) -> list[Bar]:
    """The ratio of each work, or of those that are named, told on the way."""
    chosen = works(50 if quick else 1)
    with ExitStack() as stack:
        ours = stack.enter_context(broker_of(_ROOT / "src", directory))
        before = stack.enter_context(broker_of(stack.enter_context(sources(base)), directory))

        def bench(name: str) -> list[Bar]:
            work = chosen[name]
            our_seconds, their_seconds = alternate(1 if quick else rounds, lambda: work(ours), lambda: work(before))
            return [at_least(f"{name}, speed against {base}", speed_ratio(our_seconds, their_seconds), ratio_min)]

        print(f"load of the machine: {os.getloadavg()[0]:.1f}", file=sys.stderr)
        return run(only or chosen, bench)


def main() -> int:
    """Run the works chosen, print the ratios."""
    parser = command(__doc__, only=tuple(works(1)), directory=True)
    parser.add_argument("--base", required=True, help="the commit to compare with")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="pairs of each work")
    given = parser.parse_args()
    bars = compare(given.base, quick=given.quick, only=given.only, rounds=given.rounds, directory=given.directory)
    return finish(bars, quick=given.quick)


if __name__ == "__main__":
    sys.exit(main())

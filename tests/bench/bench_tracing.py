"""`make bench-tracing`: what stories cost, against the same broker without them, in turns within one run.

    python -m tests.bench.bench_tracing [--quick] [--only ...]

A share of stories is the processor time that the broker without them needs for the same messages over what the
broker with them needs: on a machine that others use too, seconds on the wall say little. Exporting is bounded in
spans per second, not per message, so its share is that of the wall, and its processor time is told beside it. What
was sent must be what was read, or there is no figure. Prints a Markdown table; exit code 1 if a bar was not met.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from statistics import median

from confluent_kafka import Producer
from tests.bench.command import command, finish, run
from tests.bench.kafka_brokers import cpu_seconds, fresh_topic, real_broker
from tests.bench.kafka_load import consume, produce
from tests.bench.kafka_load import run as run_client
from tests.bench.measure import Bar, at_least, at_most, told
from tests.bench.queue_http import _rate
from tests.e2e.http import Http
from tests.e2e.process import BrokerProcess

OFF = {"GOQUEUE_TRACING_ENABLED": "false"}
# In which the rest is written, indexed and sent.
SETTLE_SECONDS = 6
NAMES = ("kafka", "queue", "disk", "explain")


class Sizes:
    """How much of everything."""

    def __init__(self, *, quick: bool) -> None:
        self.kafka_messages = 20_000 if quick else 1_000_000
        self.queue_messages = 2_000 if quick else 50_000
        self.disk_batches = 50 if quick else 2_000
        self.single_acks = 500 if quick else 10_000
        self.story_messages = 50_000 if quick else 10_000_000
        self.looks = 50 if quick else 1_000
        self.rounds = 1 if quick else 5


def kafka(sizes: Sizes) -> list[Bar]:
    """Produce and fetch, with stories, and with a tenth of the messages exported besides."""
    bars: list[Bar] = []
    with ExitStack() as stack:
        collector = stack.enter_context(stand_in())
        export = {
            "GOQUEUE_TRACING_EXPORTERS": "otlp",
            "GOQUEUE_TRACING_OTLP_ENDPOINT": collector,
            "GOQUEUE_TRACING_SAMPLE_RATE": "0.1",
        }
        brokers = [stack.enter_context(real_broker(None, **one)) for one in (OFF, {}, export)]
        for size in (100, 1024):
            count = sizes.kafka_messages if size == 100 else sizes.kafka_messages // 4
            costs, walls = turns(
                brokers, sizes.rounds, lambda one, size=size, count=count: _both_ways(one, size, count)
            )
            bars += [
                at_least(f"Kafka produce and fetch, {size} B, with stories, share", _share(costs, 1), 0.95),
                told("the same by the wall", _share(walls, 1)),
                at_least("with a tenth exported by OTLP besides, by the wall, share", _share(walls, 2), 0.9),
                told("processor time of exporting, of one core", _extra(costs, walls), digits=3),
                told("messages per second without stories", count / median(walls[0]), digits=0),
            ]
    return bars


def queue(sizes: Sizes) -> list[Bar]:
    """Receive 100 and ack them in one call."""
    with ExitStack() as stack:
        brokers = [stack.enter_context(real_broker(None, **one)) for one in (OFF, {})]
        topics = iter(range(10_000))

        def work(broker: BrokerProcess) -> Callable[[], float]:
            topic = f"queue-{next(topics)}"
            http = Http(broker.http)
            http.post("/topics", {"name": topic, "num_partitions": 1})
            for first in range(0, sizes.queue_messages, 1000):
                http.publish(topic, *["x" * 100] * min(1000, sizes.queue_messages - first))
            return lambda: sizes.queue_messages / _rate(broker.http, topic, sizes.queue_messages)

        costs, walls = turns(brokers, sizes.rounds, work)
    return [
        at_least("receive 100 and ack them in one call, HTTP, with stories, share", _share(costs, 1), 0.92),
        told("the same by the wall", _share(walls, 1)),
        told("messages per second without stories", sizes.queue_messages / median(walls[0]), digits=0),
    ]


def disk(sizes: Sizes) -> list[Bar]:
    """What stories take: of batches of 100 messages of 1 KB, and of messages that are acknowledged one by one."""
    with real_broker(None) as broker:
        http = Http(broker.http)
        fresh_topic(broker.kafka)
        producer = Producer(
            {"bootstrap.servers": broker.kafka, "batch.num.messages": 100, "linger.ms": 5, "log_level": 0}
        )
        for number in range(sizes.disk_batches):
            for _ in range(100):
                producer.produce("bench", random.randbytes(1024), partition=number % 3)
            producer.flush()
        stories, index = _story_bytes(http)
        data = 100 * 1024 * sizes.disk_batches
        bars = [
            at_most("stories and index of batches of 100 of 1 KB, % of the data", (stories + index) / data * 100, 1),
            told("stories alone, %", stories / data * 100, digits=3),
        ]
    with real_broker(None) as broker:
        http = Http(broker.http)
        http.post("/topics", {"name": "single", "num_partitions": 1})
        for first in range(0, sizes.single_acks, 500):
            http.publish("single", *["x"] * min(500, sizes.single_acks - first))
        before = _story_bytes(http)
        left = sizes.single_acks
        while left:
            body = {"group": "g", "limit": min(100, left), "visibility": "600s"}
            for one in http.post("/topics/single/receive", body)["messages"]:
                http.post("/messages/ack", {"receipts": [one["receipt_handle"]]})
                left -= 1
        stories, index = (now - then for now, then in zip(_story_bytes(http), before, strict=True))
    return [
        *bars,
        at_most("single acks, bytes of story for each message", stories / sizes.single_acks, 40),
        told("the index besides, with its write-ahead log, bytes for each message", index / sizes.single_acks),
    ]


def explain(sizes: Sizes) -> list[Bar]:
    """One message among many, at random, before and after a restart by kill -9."""
    bars: list[Bar] = []
    with real_broker(None) as broker:
        fresh_topic(broker.kafka)
        step = min(sizes.story_messages, 1_000_000)
        for _ in range(sizes.story_messages // step):
            run_client(produce, address=broker.kafka, size=20, count=step)
        for when in ("", " right after kill -9"):
            if when:
                broker.kill()
                broker.start()
            http = Http(broker.http)
            taken = sorted(_look(http, sizes.story_messages // 3) for _ in range(sizes.looks))
            p99 = taken[int(0.99 * len(taken))] * 1000
            bars += [
                at_most(f"explain p99 of {sizes.story_messages:,} messages{when}", p99, 50, unit=" ms"),
                told(f"explain p50{when}", median(taken) * 1000, unit=" ms"),
            ]
    return bars


def turns(
    brokers: list[BrokerProcess], rounds: int, prepare: Callable[[BrokerProcess], Callable[[], float]]
) -> tuple[list[list[float]], list[list[float]]]:
    """Processor seconds and seconds on the wall of each broker in each round; the order changes with every round."""
    costs: list[list[float]] = [[] for _ in brokers]
    walls: list[list[float]] = [[] for _ in brokers]
    for number in range(rounds):
        order = list(enumerate(brokers))
        for at, broker in order if number % 2 == 0 else reversed(order):
            work = prepare(broker)
            before = cpu_seconds(broker.pid)
            walls[at].append(work())
            # What is written 100 ms later, and indexed five seconds later, belongs to it.
            time.sleep(SETTLE_SECONDS)
            costs[at].append(cpu_seconds(broker.pid) - before)
    return costs, walls


def _both_ways(broker: BrokerProcess, size: int, count: int) -> Callable[[], float]:
    fresh_topic(broker.kafka)

    def work() -> float:
        sent = run_client(produce, address=broker.kafka, size=size, count=count)
        got = run_client(consume, address=broker.kafka, size=size, count=count)
        return float(sent["seconds"] + got["seconds"])

    return work


def _share(taken: list[list[float]], number: int) -> float:
    return sum(taken[0]) / sum(taken[number])


def _extra(costs: list[list[float]], walls: list[list[float]]) -> float:
    return (sum(costs[2]) - sum(costs[1])) / (sum(walls[2]) + SETTLE_SECONDS * len(walls[2]))


def _look(http: Http, offsets: int) -> float:
    partition, offset = random.randrange(3), random.randrange(offsets * 9 // 10)
    started = time.perf_counter()
    found = http.get(f"/topics/bench/partitions/{partition}/messages/{offset}/story")
    seconds = time.perf_counter() - started
    if found["events"][0]["event"] != "publish.received":
        raise SystemExit(f"{found} is not the story of a message: there is no figure")
    return seconds


def _story_bytes(http: Http) -> tuple[int, int]:
    # Written after 100 ms, indexed after five seconds.
    time.sleep(SETTLE_SECONDS)
    found = http.get("/traces/stats")
    return found["log_bytes"], found["index_bytes"]


@contextmanager
def stand_in() -> Iterator[str]:
    """A collector that takes everything and looks at nothing."""

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1/traces"
    finally:
        server.shutdown()
        server.server_close()


def main() -> int:
    """Run what was asked for."""
    parser = command(__doc__, only=NAMES)
    chosen = parser.parse_args()
    sizes = Sizes(quick=chosen.quick)
    bars = run(chosen.only, lambda name: globals()[name](sizes))
    return finish(bars, quick=chosen.quick)


if __name__ == "__main__":
    sys.exit(main())

"""The clients of the transaction benchmarks, each in a process of its own so that nobody borrows its time.

    python -m tests.bench.transactions_load WORK JSON

WORK is the name of a function here, JSON its arguments. The result is one line of JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

PARTITIONS = 3
SECONDS_MAX = 60.0
# Messages between two looks at the clock.
AT_ONCE = 100


def run(work: Callable[..., dict[str, Any]], **arguments: Any) -> dict[str, Any]:
    """Do the work in a new process and return its result."""
    command = [sys.executable, "-m", "tests.bench.transactions_load", work.__name__, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{work.__name__} failed:\n{done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def produce(
    address: str,
    topic: str,
    size: int,
    seconds: float,
    every_ms: int = 0,
    every_messages: int = 0,
) -> dict[str, Any]:
    """Send as fast as the client can for a while, in transactions; how many were committed."""
    producer = _Sender(address, topic, size, transactional=True)
    taken = producer.send(seconds, every_ms=every_ms, every_messages=every_messages)
    return {"count": producer.count, "seconds": taken}


def compare(
    address: str,
    plain: str,
    transactional: str,
    size: int,
    seconds: float,
    rounds: int,
    every_ms: int = 0,
    every_messages: int = 0,
) -> dict[str, Any]:
    """The same client with flushes and with commits, in turns of some seconds; rates of each turn, and the counts.

    Both live in one process, and every turn of one has a turn of the other beside it: this machine's speed
    changes by a factor of two within a minute. Messages count when their flush or commit is answered.
    """
    senders = {
        "flush": _Sender(address, plain, size, transactional=False),
        "commit": _Sender(address, transactional, size, transactional=True),
    }
    pace = {"every_ms": every_ms, "every_messages": every_messages}
    for sender in senders.values():
        # Connections, topics and the first segments are made here.
        sender.send(0.5, **pace)
    rates: dict[str, list[float]] = {"flush": [], "commit": []}
    ends: dict[str, list[float]] = {"flush": [], "commit": []}
    for number in range(rounds):
        for name in ("flush", "commit") if number % 2 == 0 else ("commit", "flush"):
            sender = senders[name]
            count, ended = sender.count, sender.ends
            taken = sender.send(seconds, **pace)
            rates[name].append((sender.count - count) / taken)
            ends[name].append((sender.ends - ended) / taken)
    counts = {name: sender.count for name, sender in senders.items()}
    return {"rates": rates, "ends": ends, "counts": counts}


def latencies(address: str, topic: str, rounds: int) -> dict[str, Any]:
    """Milliseconds of an acks=all produce and of a commit, taken in turns."""
    plain, transactional = _producer(address, None, linger=0), _producer(address, f"bench-{topic}", linger=0)
    transactional.init_transactions(SECONDS_MAX)
    produced, committed = [], []
    for number in range(rounds + 20):
        started = time.perf_counter()
        plain.produce(topic, b"x" * 100, partition=0)
        plain.flush(SECONDS_MAX)
        produce_ms = (time.perf_counter() - started) * 1000
        transactional.begin_transaction()
        transactional.produce(topic, b"x" * 100, partition=1)
        transactional.flush(SECONDS_MAX)
        started = time.perf_counter()
        transactional.commit_transaction(SECONDS_MAX)
        commit_ms = (time.perf_counter() - started) * 1000
        # The first ones make connections.
        if number >= 20:
            produced.append(produce_ms)
            committed.append(commit_ms)
    return {"produce_ms": produced, "commit_ms": committed}


def consume(address: str, topic: str, count: int, committed: bool) -> dict[str, Any]:
    """Read `count` messages of all partitions."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "bench",
            # Else it asks for nothing for up to a second when it holds enough, and that is what would be measured.
            "fetch.queue.backoff.ms": 1,
            "log_level": 0,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )
    consumer.list_topics(topic, timeout=10)
    started = time.perf_counter()
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    got = 0
    while got < count:
        # No more than are there: it would wait for the rest of them until the timeout.
        messages = consumer.consume(min(10_000, count - got), timeout=10)
        if not messages:
            raise RuntimeError(f"only {got} of {count} messages came")
        got += sum(message.error() is None for message in messages)
    seconds = time.perf_counter() - started
    consumer.close()
    return {"count": got, "seconds": seconds}


class _Sender:
    """A producer that flushes or commits so often; `count` messages were acknowledged at `ends` such points."""

    def __init__(self, address: str, topic: str, size: int, *, transactional: bool) -> None:
        self._producer = _producer(address, f"bench-{topic}" if transactional else None)
        self._producer.list_topics(topic, timeout=10)
        self._topic = topic
        self._value = b"x" * size
        self._transactional = transactional
        self.count = 0
        self.ends = 0
        if transactional:
            self._producer.init_transactions(SECONDS_MAX)

    def send(self, seconds: float, *, every_ms: int = 0, every_messages: int = 0) -> float:
        """Send for a while; returns the seconds that it took until all was acknowledged."""
        producer, sent = self._producer, 0
        self._begin()
        started = last_end = time.perf_counter()
        while (now := time.perf_counter()) - started < seconds:
            if (every_ms and now - last_end >= every_ms / 1000) or (every_messages and sent >= every_messages):
                self._end(sent)
                self._begin()
                last_end, sent = time.perf_counter(), 0
            for number in range(AT_ONCE):
                while True:
                    try:
                        producer.produce(self._topic, self._value, partition=number % PARTITIONS)
                        break
                    except BufferError:
                        producer.poll(0.01)
            sent += AT_ONCE
            producer.poll(0)
        self._end(sent)
        return time.perf_counter() - started

    def _begin(self) -> None:
        if self._transactional:
            self._producer.begin_transaction()

    def _end(self, sent: int) -> None:
        if self._transactional:
            self._producer.commit_transaction(SECONDS_MAX)
        elif self._producer.flush(SECONDS_MAX):
            raise RuntimeError(f"{len(self._producer)} messages were not acknowledged")
        self.ends += 1
        self.count += sent


def _producer(address: str, transactional_id: str | None, *, linger: int = 5) -> Producer:
    settings: dict[str, Any] = {
        "bootstrap.servers": address,
        "enable.idempotence": True,
        "linger.ms": linger,
        "queue.buffering.max.messages": 200_000,
        "log_level": 0,
    }
    return Producer(settings if transactional_id is None else {**settings, "transactional.id": transactional_id})


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](**json.loads(sys.argv[2]))))

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
    transactional: bool = False,
) -> dict[str, Any]:
    """Send as fast as the client can, and commit or flush so often; how many were acknowledged, in which time."""
    producer = _producer(address, f"bench-{topic}" if transactional else None)
    producer.list_topics(topic, timeout=10)
    end = _Ends(producer, transactional=transactional)
    value, count, since_end = b"x" * size, 0, 0
    end.begin()
    started = last_end = time.perf_counter()
    while (now := time.perf_counter()) - started < seconds:
        if (every_ms and now - last_end >= every_ms / 1000) or (every_messages and since_end >= every_messages):
            end.end()
            end.begin()
            last_end, since_end = time.perf_counter(), 0
        for _ in range(AT_ONCE):
            while True:
                try:
                    producer.produce(topic, value, partition=count % PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.01)
            count += 1
        since_end += AT_ONCE
        producer.poll(0)
    end.end()
    taken = time.perf_counter() - started
    if len(producer):
        raise RuntimeError(f"{len(producer)} messages were not acknowledged")
    return {"count": count, "seconds": taken, "ends": end.count}


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
            "log_level": 0,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )
    consumer.list_topics(topic, timeout=10)
    started = time.perf_counter()
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    got = 0
    while got < count:
        messages = consumer.consume(10_000, timeout=10)
        if not messages:
            raise RuntimeError(f"only {got} of {count} messages came")
        got += sum(message.error() is None for message in messages)
    seconds = time.perf_counter() - started
    consumer.close()
    return {"count": got, "seconds": seconds}


class _Ends:
    """What happens at each end: a commit, or a flush."""

    def __init__(self, producer: Producer, *, transactional: bool) -> None:
        self._producer = producer
        self._transactional = transactional
        self.count = 0
        if transactional:
            producer.init_transactions(SECONDS_MAX)

    def begin(self) -> None:
        if self._transactional:
            self._producer.begin_transaction()

    def end(self) -> None:
        self.count += 1
        if self._transactional:
            self._producer.commit_transaction(SECONDS_MAX)
        else:
            self._producer.flush(SECONDS_MAX)


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

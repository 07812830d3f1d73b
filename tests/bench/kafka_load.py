"""The clients of the Kafka benchmarks, each in a process of its own so that nobody borrows its time.

    python -m tests.bench.kafka_load WORK JSON

WORK is the name of a function here, JSON its arguments. The result is one line of JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from tests.bench.memory import get_memory

TOPIC = "bench"
PARTITIONS = 3
AT_ONCE = 1000
SECONDS_MAX = 300


def run(work: Callable[..., dict[str, Any]], **arguments: Any) -> dict[str, Any]:
    """Do the work in a new process and return its result."""
    command = [sys.executable, "-m", "tests.bench.kafka_load", work.__name__, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{work.__name__} failed:\n{done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def produce(address: str, size: int, count: int, acks: str = "1", producers: int = 1) -> dict[str, Any]:
    """Send `count` messages as fast as the client can; the time ends when all are acknowledged."""
    clients = [_producer(address, acks) for _ in range(producers)]
    for client in clients:
        client.list_topics(TOPIC, timeout=10)
    get_memory(size * count)
    threads = [threading.Thread(target=_send, args=(one, size, count // producers)) for one in clients]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - started
    left = sum(len(one) for one in clients)
    if left:
        raise RuntimeError(f"{left} messages were not acknowledged")
    return {"count": count // producers * producers, "seconds": seconds}


def consume(address: str, count: int, size: int) -> dict[str, Any]:
    """Read `count` messages of all partitions; each must have the right size."""
    # Else it asks for nothing for up to a second when it holds enough, and that is what would be measured.
    settings = {"bootstrap.servers": address, "group.id": "bench", "fetch.queue.backoff.ms": 1, "log_level": 0}
    consumer = Consumer(settings)
    consumer.list_topics(TOPIC, timeout=10)
    started = time.perf_counter()
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    got = 0
    while got < count:
        messages = consumer.consume(10_000, 5)
        if not messages:
            raise RuntimeError(f"only {got} of {count} messages came")
        if any(message.error() for message in messages) or len(messages[-1].value()) != size:
            raise RuntimeError("a message is not what was sent")
        got += len(messages)
    seconds = time.perf_counter() - started
    consumer.close()
    return {"count": got, "seconds": seconds}


def latency(address: str, size: int, rate: int, seconds: float) -> dict[str, Any]:
    """Single messages at a steady pace, each acknowledged before it counts; latencies in ms."""
    producer = Producer({"bootstrap.servers": address, "acks": "1", "linger.ms": 0, "log_level": 0})
    latencies: list[float] = []
    failures: list[str] = []

    def send(at: int) -> None:
        begun = time.perf_counter()

        def delivered(error: object, _: object) -> None:
            if error is None:
                latencies.append((time.perf_counter() - begun) * 1000)
            else:
                failures.append(str(error))

        producer.produce(TOPIC, bytes(size), partition=at % PARTITIONS, on_delivery=delivered)

    for at in range(rate):
        send(at)
        producer.poll(0)
    producer.flush(10)
    latencies.clear()
    started = time.perf_counter()
    for at in range(int(rate * seconds)):
        due = started + at / rate
        while (left := due - time.perf_counter()) > 0:
            producer.poll(min(left, 0.001))
        send(at)
        producer.poll(0)
    producer.flush(10)
    took = time.perf_counter() - started
    if failures:
        raise RuntimeError(failures[0])
    latencies.sort()
    return {
        "count": len(latencies),
        "rate": len(latencies) / took,
        "p50_ms": latencies[len(latencies) // 2],
        "p99_ms": latencies[int(len(latencies) * 0.99)],
        "max_ms": latencies[-1],
    }


def _producer(address: str, acks: str) -> Producer:
    return Producer(
        {
            "bootstrap.servers": address,
            "acks": acks,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1_048_576,
            "log_level": 0,
        }
    )


def _send(producer: Producer, size: int, count: int) -> None:
    messages = [{"value": bytes(size)}] * AT_ONCE
    sent = 0
    partition = 0
    while sent < count:
        try:
            queued = producer.produce_batch(TOPIC, messages[: count - sent], partition=partition % PARTITIONS)
        except BufferError:
            queued = 0
        sent += queued
        partition += 1
        producer.poll(0 if queued else 0.005)
    producer.flush(SECONDS_MAX)


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](**json.loads(sys.argv[2]))))

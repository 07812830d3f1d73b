"""The load of `bench_security`: one client against several brokers in turns, with what each costs its broker."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any, NamedTuple

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.bench.kafka_brokers import cpu_seconds

TOPIC = "bench"
SIZE = 100


class Way(NamedTuple):
    """A client's settings, and the processes of the broker or cluster that it talks to."""

    settings: Mapping[str, Any]
    pids: tuple[int, ...]

    def cpu_seconds(self) -> float:
        """Processor time that they and their children have used so far."""
        parents = [psutil.Process(pid) for pid in self.pids]
        return sum(cpu_seconds(one.pid) for parent in parents for one in (parent, *parent.children(recursive=True)))


class Cost(NamedTuple):
    """Of one run: messages per second, and processor time of the broker per message."""

    rate: float
    cpu_us: float


class Turns(NamedTuple):
    """Every run by the name of its way, in the order of the rounds."""

    rates: dict[str, list[float]]
    cpus: dict[str, list[float]]

    def share(self, name: str, other: str = "open") -> float:
        """The median over the rounds of what a way's rate is of another's in the same round."""
        return median(one / two for one, two in zip(self.rates[name], self.rates[other], strict=True))

    def cpu_share(self, name: str, other: str = "open") -> float:
        """The same by processor time: 0.5 means that a message costs the broker twice as much.

        Over all rounds together: the kernel counts in ticks of 10 ms, and a short round has few of them.
        """
        return sum(self.cpus[other]) / (sum(self.cpus[name]) or 1e-9)


def in_turns(ways: Mapping[str, Callable[[], Cost]], rounds: int) -> Turns:
    """All ways, one after the other in each round."""
    turns = Turns({name: [] for name in ways}, {name: [] for name in ways})
    for number in range(rounds):
        names = list(ways) if number % 2 == 0 else list(reversed(ways))
        for name in names:
            cost = ways[name]()
            turns.rates[name].append(cost.rate)
            turns.cpus[name].append(cost.cpu_us)
    return turns


def produced(way: Way, messages: int, size: int = SIZE) -> Cost:
    """All acknowledged."""
    producer = Producer({**way.settings, "linger.ms": 5, "queue.buffering.max.messages": messages + 1000})
    failed: list[Any] = []
    value = b"x" * size
    producer.list_topics(TOPIC, 10)
    started, used = time.perf_counter(), way.cpu_seconds()
    for _ in range(messages):
        producer.produce(TOPIC, value, on_delivery=lambda error, _: failed.append(error) if error else None)
        producer.poll(0)
    producer.flush(60)
    cost = _cost(way, started, used, messages)
    assert not failed, failed[0]
    return cost


def consumed(way: Way, messages: int) -> Cost:
    """From the beginning of the topic."""
    consumer = Consumer({**way.settings, "group.id": TOPIC, "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    left = messages
    assert consumer.consume(1, 10)
    started, used = time.perf_counter(), way.cpu_seconds()
    while left > 0:
        found = consumer.consume(min(left, 10_000), 10)
        assert found
        assert found[0].error() is None
        left -= len(found)
    cost = _cost(way, started, used, messages)
    consumer.close()
    return cost


def published(way: Way, requests: int) -> Cost:
    """Single publishes over HTTP, on one connection that is kept. The settings are an address and headers."""
    host, _, port = way.settings["address"].rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    body = json.dumps({"value": "x" * SIZE})
    asked = {"Content-Type": "application/json", **way.settings["headers"]}
    started, used = time.perf_counter(), way.cpu_seconds()
    for _ in range(requests):
        connection.request("POST", f"/topics/{TOPIC}/messages", body, asked)
        answer = connection.getresponse()
        answer.read()
        assert answer.status < 300
    cost = _cost(way, started, used, requests)
    connection.close()
    return cost


def _cost(way: Way, started: float, used: float, messages: int) -> Cost:
    return Cost(messages / (time.perf_counter() - started), (way.cpu_seconds() - used) / messages * 1e6)

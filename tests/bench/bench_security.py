"""`make bench-security`: what logins, access rules and TLS cost, against the same client without them.

    python -m tests.bench.bench_security [--quick]

One broker is open, one asks for logins and has 100 access rules. The same client works against both in turns, round by
round. Prints a Markdown table; exit code 1 if a bar was not met.
"""

from __future__ import annotations

import http.client
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from tests.bench.command import command, finish
from tests.bench.measure import Bar, at_least, told
from tests.e2e.http import Http
from tests.e2e.process import BrokerProcess
from tests.e2e.secured import SecuredBroker

TOPIC = "bench"
SIZE = 100
RULES = 100


def bench(*, messages: int, requests: int, rounds: int) -> list[Bar]:
    """All bars."""
    with tempfile.TemporaryDirectory(prefix="goqueue-bench-") as folder:
        plain = BrokerProcess(Path(folder) / "open").start()
        secured = SecuredBroker(Path(folder) / "secured")
        try:
            Http(plain.http).post("/topics", {"name": TOPIC, "num_partitions": 1})
            secured.done("POST", "/topics", {"name": TOPIC, "num_partitions": 1})
            secured.user("bench")
            for operation, resource in (("write", "topic"), ("read", "topic"), ("read", "group")):
                secured.allow("bench", operation, resource, TOPIC)
            for number in range(RULES):
                secured.allow("bench", "read", "topic", f"other-{number}")
            made = secured.done("POST", "/admin/security/keys", {"principal": "User:bench"})
            return [
                *kafka(plain, secured, messages, rounds),
                *over_http(plain, secured, made["key"], requests, rounds),
            ]
        finally:
            plain.stop()
            secured.stop()


def kafka(plain: BrokerProcess, secured: SecuredBroker, messages: int, rounds: int) -> list[Bar]:
    """Producing and fetching: open, with a login, with a login over TLS."""
    login = secured.confluent("bench")
    ways = {
        "open": {"bootstrap.servers": plain.kafka},
        "login": login | {"bootstrap.servers": secured.plain_kafka, "security.protocol": "SASL_PLAINTEXT"},
        "tls": login,
    }
    for settings in ways.values():
        produced(settings, messages // 4)
    written = in_turns({name: lambda way=way: produced(way, messages) for name, way in ways.items()}, rounds)
    read = in_turns({name: lambda way=way: consumed(way, messages) for name, way in ways.items()}, rounds)
    return [
        at_least("produce with SCRAM and 100 rules, share of open", share(written, "login"), 0.97),
        at_least("fetch with SCRAM and 100 rules, share of open", share(read, "login"), 0.97),
        told("produce over TLS, share of open", share(written, "tls")),
        told("fetch over TLS, share of open", share(read, "tls")),
        told("messages of 100 B produced, open, per second", median(written["open"]), digits=0),
        told("messages of 100 B fetched, open, per second", median(read["open"]), digits=0),
    ]


def over_http(plain: BrokerProcess, secured: SecuredBroker, key: str, requests: int, rounds: int) -> list[Bar]:
    """Single publishes on one connection that is kept."""
    address = secured.plain_http.partition("://")[2]
    rates = in_turns(
        {
            "open": lambda: published(plain.http, {}, requests),
            "login": lambda: published(address, {"Authorization": f"Bearer {key}"}, requests),
        },
        rounds,
    )
    return [
        at_least("single HTTP publishes with an API key, share of open", share(rates, "login"), 0.9),
        told("single HTTP publishes, open, per second", median(rates["open"]), digits=0),
    ]


def in_turns(ways: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Rates of all ways, one after the other in each round."""
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        names = list(ways) if number % 2 == 0 else list(reversed(ways))
        for name in names:
            rates[name].append(ways[name]())
    return rates


def share(rates: dict[str, list[float]], name: str) -> float:
    """The median over the rounds of what a way is of the open one in the same round."""
    return median(one / other for one, other in zip(rates[name], rates["open"], strict=True))


def produced(settings: dict[str, Any], messages: int) -> float:
    """Messages per second, all acknowledged."""
    producer = Producer({**settings, "linger.ms": 5, "queue.buffering.max.messages": messages + 1000})
    failed: list[Any] = []
    value = b"x" * SIZE
    producer.list_topics(TOPIC, 10)
    started = time.perf_counter()
    for _ in range(messages):
        producer.produce(TOPIC, value, on_delivery=lambda error, _: failed.append(error) if error else None)
        producer.poll(0)
    producer.flush(60)
    seconds = time.perf_counter() - started
    assert not failed, failed[0]
    return messages / seconds


def consumed(settings: dict[str, Any], messages: int) -> float:
    """Messages per second, from the beginning of the topic."""
    consumer = Consumer({**settings, "group.id": TOPIC, "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    left = messages
    assert consumer.consume(1, 10)
    started = time.perf_counter()
    while left > 0:
        found = consumer.consume(min(left, 10_000), 10)
        assert found
        assert found[0].error() is None
        left -= len(found)
    seconds = time.perf_counter() - started
    consumer.close()
    return messages / seconds


def published(address: str, headers: dict[str, str], requests: int) -> float:
    """Requests per second."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    body = json.dumps({"value": "x" * SIZE})
    asked = {"Content-Type": "application/json", **headers}
    started = time.perf_counter()
    for _ in range(requests):
        connection.request("POST", f"/topics/{TOPIC}/messages", body, asked)
        answer = connection.getresponse()
        answer.read()
        assert answer.status < 300
    seconds = time.perf_counter() - started
    connection.close()
    return requests / seconds


def main() -> int:
    quick = command(__doc__).parse_args().quick
    sizes = {"messages": 20_000, "requests": 200, "rounds": 3}
    return finish(bench(**(sizes if quick else {"messages": 200_000, "requests": 2_000, "rounds": 7})), quick=quick)


if __name__ == "__main__":
    sys.exit(main())

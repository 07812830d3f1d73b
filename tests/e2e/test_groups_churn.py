"""Members come, go and crash while messages flow, and the broker is killed in the middle.

At every instant each partition is owned by at most one member; every acknowledged record is
read at least once, and nothing is read that was not sent.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest
from confluent_kafka import KafkaError, Message, Producer
from tests.e2e.group_members import MemberProcess, create_topic, overlaps, quick_broker

PARTITIONS = 8
# Long enough for a crashed member's session (6 s) to end and its partitions to be read by others.
SETTLE_SECONDS = 30.0


class Load:
    """A steady producer; `acknowledged` is what the broker has promised to keep."""

    def __init__(self, address: str) -> None:
        self.acknowledged: dict[tuple[int, int], str] = {}
        self.sent: set[str] = set()
        self._producer = Producer({"bootstrap.servers": address, "acks": "all", "linger.ms": 5, "log_level": 0})
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            self._thread.join()
            self._producer.flush(30)

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            for _ in range(20):
                self.sent.add(str(number))
                self._producer.produce("t", str(number), partition=number % PARTITIONS, on_delivery=self._delivered)
                number += 1
            self._producer.poll(0)
            time.sleep(0.02)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged[message.partition(), message.offset()] = (message.value() or b"").decode()


def churn(address: str, protocol: str, restart: object, *, steps: int, seed: int) -> tuple[Load, list[MemberProcess]]:
    """Random comings and goings under load; returns once all that was acknowledged has been read."""
    chance = Random(seed)
    load = Load(address)
    made: list[MemberProcess] = []

    def start() -> MemberProcess:
        made.append(MemberProcess(address, "g", protocol, "t", f"m{len(made)}"))
        return made[-1]

    alive = [start(), start()]
    with load.running():
        for step in range(steps):
            # The newest has come to own something, and sometimes has had it for a while.
            alive[-1].wait_until_it_owns()
            time.sleep(chance.choice([0.0, 0.3, 0.8]))
            choices = ["join"] * (len(alive) < 4) + ["leave", "crash"] * (len(alive) > 1)
            choice = chance.choice(choices)
            if choice == "join":
                alive.append(start())
            elif choice == "leave":
                alive.pop(chance.randrange(len(alive))).leave()
            else:
                alive.pop(chance.randrange(len(alive))).kill()
            if step == steps // 2 and callable(restart):
                restart()
    deadline = time.monotonic() + SETTLE_SECONDS
    while missing(load, made) and time.monotonic() < deadline:
        time.sleep(0.1)
    for one in alive:
        one.leave()
    for one in made:
        one.wait()
    return load, made


def read(members: list[MemberProcess]) -> dict[tuple[int, int], str]:
    return {
        (partition, offset): value
        for member in members
        for event in list(member.events)
        if event["event"] == "read"
        for partition, offset, value in event["records"]
    }


def missing(load: Load, members: list[MemberProcess]) -> dict[tuple[int, int], str]:
    found = read(members)
    return {place: value for place, value in load.acknowledged.items() if place not in found}


def check(load: Load, members: list[MemberProcess]) -> None:
    assert len(load.acknowledged) > 500, "the load was real"
    assert missing(load, members) == {}
    found = read(members)
    assert {place: found[place] for place in load.acknowledged} == load.acknowledged
    assert set(found.values()) <= load.sent, "nothing is invented"
    assert overlaps(members, time.monotonic()) == []
    assert sum(any(event["event"] == "assigned" for event in one.events) for one in members) >= 3


def test_members_come_and_go_while_the_broker_is_killed(tmp_path_factory: pytest.TempPathFactory) -> None:
    with quick_broker(tmp_path_factory.mktemp("broker")) as broker:
        create_topic(broker.kafka, "t", PARTITIONS)

        def kill() -> None:
            broker.kill()
            broker.start()

        load, members = churn(broker.kafka, "consumer", kill, steps=4, seed=7)

    check(load, members)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("protocol", ["range", "roundrobin", "cooperative-sticky", "consumer"])
def test_long_churn(tmp_path_factory: pytest.TempPathFactory, protocol: str, seed: int) -> None:
    with quick_broker(tmp_path_factory.mktemp("broker")) as broker:
        create_topic(broker.kafka, "t", PARTITIONS)

        def kill() -> None:
            broker.kill()
            broker.start()

        load, members = churn(broker.kafka, protocol, kill, steps=25, seed=seed)

    check(load, members)

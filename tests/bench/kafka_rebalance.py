"""How long a group takes to share its partitions anew when a member joins.

Members are confluent-kafka consumers in threads, with 100 partitions that carry no
messages, so that the broker's processor time is the coordinator's work and heartbeats.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition
from tests.bench.kafka_brokers import cpu_seconds, real_broker
from tests.bench.measure import Bar, at_most, told
from tests.e2e.kafka_raw import RawClient

PARTITIONS = 100
MEMBERS = 10
QUICK_MEMBERS = 3
SECONDS_MAX = 60.0
HEARTBEAT_MS = 200
DEFAULT_HEARTBEAT_MS = 3000
# librdkafka sends one JoinGroup a second at most. The group is at rest when that second is over for
# all who formed it; before, what would be measured is how long the client holds its answer back.
CLIENT_JOIN_INTERVAL_SECONDS = 1.0
TOPIC = "shared"


class Member(threading.Thread):
    """One consumer. `owned` is what it has now; `lost` what was ever taken from it."""

    def __init__(self, address: str, group: str, protocol: str, heartbeat_ms: int) -> None:
        super().__init__(daemon=True)
        self.owned: set[int] = set()
        self.lost: set[int] = set()
        self._stopping = threading.Event()
        settings: dict[str, object] = {
            "bootstrap.servers": address,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
        if protocol == "consumer":
            settings["group.protocol"] = "consumer"
        else:
            settings["partition.assignment.strategy"] = protocol
            settings["heartbeat.interval.ms"] = heartbeat_ms
            settings["session.timeout.ms"] = max(6000, 3 * heartbeat_ms)
        self._consumer = Consumer(settings)

    def run(self) -> None:
        self._consumer.subscribe([TOPIC], on_assign=self._assigned, on_revoke=self._revoked)
        while not self._stopping.is_set():
            self._consumer.poll(0.02)
        self._consumer.close()

    def stop(self) -> None:
        self._stopping.set()

    def _assigned(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self.owned |= {one.partition for one in partitions}
        consumer.incremental_assign(list(partitions))

    def _revoked(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        gone = {one.partition for one in partitions}
        self.owned -= gone
        self.lost |= gone
        consumer.incremental_unassign(list(partitions))


def bench_rebalance(directory: str | None, *, is_quick: bool) -> list[Bar]:
    """Both protocols, with the quick heartbeat of the bar and with the default one."""
    members = QUICK_MEMBERS if is_quick else MEMBERS
    bars: list[Bar] = []
    for protocol in ("consumer", "cooperative-sticky"):
        for heartbeat_ms in (HEARTBEAT_MS,) if is_quick else (HEARTBEAT_MS, DEFAULT_HEARTBEAT_MS):
            bars += _measure(directory, protocol, heartbeat_ms, members)
    return bars


class Joined(NamedTuple):
    """What it took to let one more member in."""

    seconds: float
    cpu_ms: float
    # Partitions that were taken from a member which has them again: paused for nothing.
    paused: int
    moved: int


def let_one_more_join(address: str, protocol: str, heartbeat_ms: int, count: int, cpu: Callable[[], float]) -> Joined:
    """Form a group of all but one of `count` members, and time how long the last one takes to get its share."""
    with RawClient(address) as client:
        client.create_topic(TOPIC, PARTITIONS)
    members = [Member(address, "rebalance", protocol, heartbeat_ms) for _ in range(count)]
    try:
        return _time_the_last(members, heartbeat_ms, cpu)
    finally:
        for member in members:
            member.stop()
        for member in members:
            if member.is_alive():
                member.join(10)


def _time_the_last(members: Sequence[Member], heartbeat_ms: int, cpu: Callable[[], float]) -> Joined:
    *first, last = members
    for member in first:
        member.start()
    _wait_until_shared(first)
    time.sleep(CLIENT_JOIN_INTERVAL_SECONDS + 2 * heartbeat_ms / 1000)
    before = [set(member.owned) for member in first]
    for member in first:
        member.lost.clear()
    cpu_before = cpu()
    started = time.perf_counter()
    last.start()
    _wait_until_shared(members)
    seconds = time.perf_counter() - started
    cpu_ms = (cpu() - cpu_before) * 1000
    paused = sum(len(member.lost & member.owned) for member in first)
    moved = sum(len(had - member.owned) for had, member in zip(before, first, strict=True))
    return Joined(seconds, cpu_ms, paused, moved)


def _measure(directory: str | None, protocol: str, heartbeat_ms: int, count: int) -> list[Bar]:
    settings = {"GOQUEUE_GROUPS_HEARTBEAT_INTERVAL_MS": str(heartbeat_ms)}
    with real_broker(directory, **settings) as broker:
        joined = let_one_more_join(broker.kafka, protocol, heartbeat_ms, count, lambda: cpu_seconds(broker.pid))
    what = f"rebalance of {PARTITIONS} partitions to {count} members, {protocol}, heartbeat {heartbeat_ms} ms"
    limit_s = 1.0 if heartbeat_ms == HEARTBEAT_MS else 2 * heartbeat_ms / 1000 + 1
    if protocol == "cooperative-sticky":
        # Here a newcomer has to send JoinGroup twice, and librdkafka lets a second pass between the two,
        # whatever broker it talks to: `make bench-peers` shows the same of Apache Kafka.
        limit_s += CLIENT_JOIN_INTERVAL_SECONDS
    return [
        at_most(what, joined.seconds, limit_s, unit=" s"),
        at_most("its processor time in the broker, heartbeats included", joined.cpu_ms, 100, unit=" ms", digits=0),
        at_most("partitions paused though they did not move", joined.paused, 0, digits=0),
        told("partitions that moved", joined.moved, digits=0),
    ]


def _wait_until_shared(members: Sequence[Member]) -> None:
    """Every partition has exactly one owner, and nobody has more than one too many."""
    deadline = time.monotonic() + SECONDS_MAX
    most = -(-PARTITIONS // len(members))
    while True:
        owned = [set(member.owned) for member in members]
        if sum(map(len, owned)) == PARTITIONS == len(set().union(*owned)) and max(map(len, owned)) <= most:
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f"the group did not settle: {[len(one) for one in owned]}")
        time.sleep(0.002)

"""A partition with files of every kind: segments, all indexes, snapshots, a delay log, a delivery log, a due index.

It knows what readers must see, and compares: messages in order, committed ones only, lookups by time and by priority,
messages that wait for their time, and what a queue group has settled.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.e2e.campaign.readers import Row, read_kafka
from tests.e2e.cluster.real_nodes import RealCluster, RealNode
from tests.e2e.http import Http
from tests.e2e.transactional_clients import ConfluentTransactional

from goqueue.records import TopicPartition as Place

TOPIC = "everything"
GROUP = "workers"
LANES = ("critical", "high", "normal", "low", "background")
SECONDS_MAX = 60.0
_SETTINGS = {"segment.bytes": "4096", "goqueue.delay.headers": "true", "goqueue.priority.headers": "true"}


@dataclass
class Everything:
    """The topic of one partition, and what it must hold."""

    cluster: RealCluster
    rows: list[Row] = field(default_factory=list)
    # Slots of messages that wait for a time far away.
    waiting: list[str] = field(default_factory=list)
    lag: int = 0
    # Values of messages that were due some seconds after they were sent.
    soon: list[str] = field(default_factory=list)

    def fill(self) -> None:
        """Write something of every kind."""
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, 1, 3, config=_SETTINGS)])[TOPIC].result(30)
        self._produce(200)
        self._transact(16)
        self._produce(100)
        http = self._http()
        far = [{"value": f"far {number}", "delay": "1h"} for number in range(100)]
        http.post(f"/topics/{TOPIC}/messages", {"messages": far})
        taken = http.post(f"/topics/{TOPIC}/receive", {"group": GROUP, "limit": 90, "visibility": "1h"})["messages"]
        receipts = [one["receipt_handle"] for one in taken]
        assert http.post("/messages/ack", {"receipts": receipts, "durable": True})["results"]
        self._know()

    def add(self) -> None:
        """Write a little more, enough for another segment, and a message that is due in some seconds."""
        self._produce(45)
        value = f"soon {len(self.soon) + 1}"
        self._http().post(f"/topics/{TOPIC}/messages", {"messages": [{"value": value, "delay": "8s"}]})
        self.soon.append(value)
        self._know()

    def check(self) -> None:
        """Readers see what was written, and each message that was due, once."""
        deadline = time.monotonic() + SECONDS_MAX
        while set(self.soon) - self._values() and time.monotonic() < deadline:
            time.sleep(0.5)
        found = read_kafka(self.cluster.bootstrap_servers, TOPIC)
        known = len(self.rows)
        assert found[:known] == self.rows, "readers see something else than was written"
        came = [row.value.decode() for row in found if row.value.startswith(b"soon")]
        assert sorted(came) == sorted(self.soon), "what was due came more than once, or not at all"
        # It may have come before what there was was written down.
        assert all(row.value.startswith(b"soon") for row in found[known:]), "readers see what nobody wrote"
        self.lag += len(found) - known
        self.rows = found
        http = self._http()
        listed = http.get(f"/topics/{TOPIC}/delayed?limit=1000")["messages"]
        assert _far(listed) == self.waiting, "the messages that wait are not the same"
        assert self._lag() == self.lag, "the group has settled something else"
        self._check_times()
        self._check_lanes(http)

    def leader(self) -> int:
        """Who leads it now; negative if nobody does, or nobody answers."""
        for node in self.cluster.nodes:
            try:
                (one,) = _of(node).get(f"/cluster/partitions?topic={TOPIC}")["partitions"]
            except (OSError, AssertionError, ValueError):
                continue
            return int(one["leader"])
        return -1

    def preferred(self) -> int:
        """Its first replica, to which leadership returns."""
        (one,) = self._http().get(f"/cluster/partitions?topic={TOPIC}")["partitions"]
        return int(one["replicas"][0])

    def _know(self) -> None:
        self.rows = read_kafka(self.cluster.bootstrap_servers, TOPIC)
        listed = self._http().get(f"/topics/{TOPIC}/delayed?limit=1000")["messages"]
        self.waiting = _far(listed)
        self.lag = self._lag()

    def _lag(self) -> int:
        return int(self._http().get(f"/groups/{GROUP}/offsets")["total_lag"])

    def _values(self) -> set[str]:
        return {row.value.decode() for row in read_kafka(self.cluster.bootstrap_servers, TOPIC)}

    def _produce(self, count: int) -> None:
        producer = Producer(
            {"bootstrap.servers": self.cluster.bootstrap_servers, "enable.idempotence": True, "batch.num.messages": 10}
        )
        failed: list[str] = []
        for number in range(count):
            lane = LANES[number % len(LANES)]
            producer.produce(
                TOPIC,
                f"{lane} {number}".encode() + bytes(40),
                headers={"goqueue-priority": lane},
                on_delivery=lambda error, _: failed.append(str(error)) if error is not None else None,
            )
            if number % 10 == 9:
                producer.flush(SECONDS_MAX)
        assert producer.flush(SECONDS_MAX) == 0
        assert not failed, failed

    def _transact(self, count: int) -> None:
        producer = ConfluentTransactional(self.cluster.bootstrap_servers, "mover")
        for number in range(count):
            producer.begin()
            producer.send(Place(TOPIC, 0), [f"transaction {number}".encode()])
            producer.commit() if number % 2 else producer.abort()
        producer.close()

    def _check_times(self) -> None:
        consumer = Consumer({"bootstrap.servers": self.cluster.bootstrap_servers, "group.id": "times"})
        for row in self.rows[:: max(1, len(self.rows) // 20)]:
            (found,) = consumer.offsets_for_times([TopicPartition(TOPIC, 0, row.timestamp_ms)], SECONDS_MAX)
            # Of several with one time, the first; records that no committed reader sees count as well.
            first = min(one.offset for one in self.rows if one.timestamp_ms >= row.timestamp_ms)
            assert found.offset <= first, f"time {row.timestamp_ms} is found at {found.offset}, not {first}"
            before = [one for one in self.rows if one.offset < found.offset]
            assert all(one.timestamp_ms < row.timestamp_ms for one in before[-1:]), "a message of that time is missed"
        consumer.close()

    def _check_lanes(self, http: Http) -> None:
        found = http.get(f"/topics/{TOPIC}/partitions/0/messages/priority?limit=1000")["messages"]
        expected = sorted((LANES.index(row.headers.get("goqueue-priority", "normal")), row.offset) for row in self.rows)
        assert [(LANES.index(one["priority"]), one["offset"]) for one in found] == expected[: len(found)]
        assert len(found) >= min(len(expected), 100)

    def _http(self) -> Http:
        ready = [node for node in self.cluster.nodes if node.is_running and node.is_ready()]
        return _of(ready[0])


def _of(node: RealNode) -> Http:
    return Http(node.http.removeprefix("http://"))


def _far(listed: list[dict[str, Any]]) -> list[str]:
    """The slots of those that wait for a time far away."""
    soon = datetime.now(UTC) + timedelta(minutes=10)
    return sorted(one["slot"] for one in listed if datetime.fromisoformat(one["deliver_at"]) > soon)

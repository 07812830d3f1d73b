"""A node on its own with all kinds of state becomes the first of three, its copies are raised, and then it dies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.e2e.cluster.real_nodes import RealCluster, real_cluster
from tests.e2e.cluster.test_cluster_smoke import ask, read_committed
from tests.e2e.cluster.test_replace import goqueue, until
from tests.e2e.http import Http
from tests.e2e.process import BrokerProcess
from tests.etcd_server import require_etcd

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SCHEMA = {"schemaType": "JSON", "schema": '{"type": "integer"}'}
JOBS = 20


class Alone:
    """The node on its own: what it was given, and where its data is."""

    def __init__(self, home: Path) -> None:
        self.broker = BrokerProcess(home / "alone").start()
        self.http = Http(self.broker.http)
        for topic, partitions in (("old", 3), ("jobs", 2), ("later", 1), ("beats", 1), ("paid", 2)):
            self.http.post("/topics", {"name": topic, "num_partitions": partitions})

    def fill(self) -> None:
        """Records, offsets, a queue that is half done, delays, a schedule, transactions, a schema."""
        servers = {"bootstrap.servers": self.broker.kafka}
        producer = Producer({**servers, "acks": "all"})
        for number in range(300):
            producer.produce("old", str(number).encode(), partition=number % 3)
        assert producer.flush(30) == 0
        consumer = Consumer({**servers, "group.id": "readers", "enable.auto.commit": False})
        consumer.commit(offsets=[TopicPartition("old", number, 40 + number) for number in range(3)], asynchronous=False)
        consumer.close()
        self.http.publish("jobs", *[str(number) for number in range(JOBS)])
        received = [self.receive() for _ in range(JOBS // 2)]
        for one in received[:-1]:
            self.http.post("/messages/ack", {"receipt_handle": one["receipt_handle"], "durable": True})
        self.acked = {one["value"] for one in received[:-1]}
        self.http.post("/topics/later/messages", {"value": "in an hour", "delay": "1h"})
        self.http.post("/topics/later/messages", {"value": "soon", "delay": "60s"})
        self.http.post("/schedules", {"name": "beat", "cron": "* * * * * *", "topic": "beats", "value": "beat"})
        paying = Producer({**servers, "transactional.id": "till"})
        paying.init_transactions(30)
        for end in (paying.abort_transaction, paying.commit_transaction):
            paying.begin_transaction()
            for number in range(10):
                paying.produce("paid", f"{end.__name__}-{number}".encode(), partition=number % 2)
            end(30)
        self.schema = self.http.post("/subjects/old-value/versions", SCHEMA)["id"]

    def receive(self) -> dict[str, Any]:
        asked = {"group": "workers", "wait": "5s", "limit": 1, "visibility": "5s"}
        (message,) = self.http.post("/topics/jobs/receive", asked)["messages"]
        return dict(message)


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Alone]:
    require_etcd()
    found = Alone(tmp_path)
    yield found
    found.broker.kill()


def test_nothing_is_lost_on_the_way_from_one_to_three_and_when_the_first_dies(alone: Alone, tmp_path: Path) -> None:
    alone.fill()
    assert alone.broker.stop() == 0
    with real_cluster(tmp_path / "three", options=["--from", str(alone.broker.data_dir)]) as cluster:
        check(cluster, alone, asked=2)
        said = goqueue("cluster", "copies", "3", "--config", str(cluster.nodes[0].settings))
        assert "partitions are getting copies" in said
        rows = ask(cluster.nodes[1], "/cluster/partitions")["partitions"]
        assert {"old", "jobs", "later", "beats", "paid", "__consumer_offsets", "__transaction_state", "__schemas"} <= {
            one["topic"] for one in rows
        }
        assert [one for one in rows if sorted(one["isr"]) != [1, 2, 3] or one["min_insync"] != 2] == []

        cluster.nodes[0].kill()
        until(
            lambda: all(one["leader"] in {2, 3} for one in ask(cluster.nodes[1], "/cluster/partitions")["partitions"]),
            "others lead",
        )
        check(cluster, alone, asked=3)
        left = drain(cluster)
        assert left == {str(number) for number in range(JOBS)} - alone.acked
        until(lambda: "soon" in values(cluster, "later"), "a delayed message comes when it is due")
        assert values(cluster, "later") == ["soon"]
        before = len(values(cluster, "beats"))
        until(lambda: len(values(cluster, "beats")) >= before + 2, "a recurring message comes")
    with pytest.raises(AssertionError, match="belongs to node 1 of cluster"):
        alone.broker.start()


def check(cluster: RealCluster, alone: Alone, *, asked: int) -> None:
    """What does not change by being looked at."""
    node = cluster.nodes[asked - 1]
    servers = ",".join(one.kafka for one in cluster.nodes[1:])
    assert sorted(map(int, values(cluster, "old"))) == list(range(300))
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "readers", "enable.auto.commit": False})
    committed = consumer.committed([TopicPartition("old", number) for number in range(3)], timeout=60)
    consumer.close()
    assert [one.offset for one in committed] == [40, 41, 42]
    paid = read_committed(cluster, "paid", 10) if asked == 2 else []
    assert {one.partition(b"-")[0] for one in paid} <= {b"commit_transaction"}
    assert len(paid) in {0, 10}
    held = ask(node, "/topics/later/delayed")
    assert "in an hour" in json.dumps(held) or held["count"] >= 1
    assert [one["name"] for one in ask(node, "/schedules")["schedules"]] == ["beat"]
    assert ask(node, f"/schemas/ids/{alone.schema}")["schema"] == SCHEMA["schema"]


def values(cluster: RealCluster, topic: str) -> list[str]:
    found = ask(cluster.nodes[1], f"/topics/{topic}/messages?from=earliest&limit=1000")["messages"]
    return [one["value"] for one in found]


def drain(cluster: RealCluster) -> set[str]:
    """What the queue still has to give, the one with a lease that has ended included."""
    found: set[str] = set()
    quiet = 0
    while quiet < 2:
        body = {"group": "workers", "wait": "6s", "limit": 10}
        messages = ask(cluster.nodes[2], "/topics/jobs/receive", body)["messages"]
        quiet = 0 if messages else quiet + 1
        for one in messages:
            found.add(one["value"])
            ask(cluster.nodes[1], "/messages/ack", {"receipt_handle": one["receipt_handle"]})
    return found

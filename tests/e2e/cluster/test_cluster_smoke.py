"""Three real processes and their metadata: the leader of a partition is killed, and nothing is lost."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.e2e.cluster.loads.numbered import PARTITIONS
from tests.e2e.cluster.real_nodes import RealCluster, RealNode, real_cluster
from tests.e2e.cluster.workload import QueueLoad, StreamLoad


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with real_cluster(tmp_path_factory.mktemp("nodes")) as found:
        yield found


def create(cluster: RealCluster, topic: str, partitions: int = PARTITIONS) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(topic, partitions, 3)])[topic].result(30)


def ask(node: RealNode, path: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(f"{node.http}{path}", data, timeout=20) as response:
        return json.loads(response.read())


def test_kafka_clients_are_told_every_node_and_who_leads(cluster: RealCluster) -> None:
    create(cluster, "told")
    admin = AdminClient({"bootstrap.servers": cluster.nodes[1].kafka})
    found = admin.list_topics(timeout=20)
    assert sorted(found.brokers) == [1, 2, 3]
    assert {f"{one.host}:{one.port}" for one in found.brokers.values()} == {one.kafka for one in cluster.nodes}
    partitions = admin.list_topics("told", timeout=20).topics["told"].partitions
    assert {one.leader for one in partitions.values()} == {1, 2, 3}
    assert all(sorted(one.replicas) == [1, 2, 3] for one in partitions.values())
    described = admin.describe_cluster(request_timeout=20).result()
    assert sorted(one.id for one in described.nodes) == [1, 2, 3]
    assert described.controller.id in {1, 2, 3}


def test_who_does_not_say_how_safe_a_message_must_be_gets_it_onto_every_replica(cluster: RealCluster) -> None:
    create(cluster, "unsaid")
    reply = ask(cluster.nodes[2], "/topics/unsaid/messages", {"messages": [{"value": str(one)} for one in range(20)]})
    assert (reply["acks"], reply["durability"], reply["replicas"]) == ("all", "synced", 3)
    found = ask(cluster.nodes[0], "/topics/unsaid/messages?from=earliest")["messages"]
    assert sorted(int(one["value"]) for one in found) == list(range(20)), "it can be read at once, on any node"


def test_what_is_published_through_any_node_to_any_partition_is_stored_once_and_read_on_all(
    cluster: RealCluster,
) -> None:
    """A topic made on one node is known to the others at once, and nobody writes what somebody else leads."""
    ask(cluster.nodes[0], "/topics", {"name": "anywhere", "num_partitions": PARTITIONS})
    for node in cluster.nodes:
        for partition in range(PARTITIONS):
            body = {"value": f"{node.number}-{partition}", "partition": partition}
            (stored,) = ask(node, "/topics/anywhere/messages", body)["results"]
            assert stored["partition"] == partition
    sent = sorted(f"{node.number}-{partition}" for node in cluster.nodes for partition in range(PARTITIONS))
    for node in cluster.nodes:
        found = ask(node, "/topics/anywhere/messages?from=earliest&limit=100")["messages"]
        assert sorted(one["value"] for one in found) == sent
        assert sorted(one["offset"] for one in found if one["partition"] == 0) == [0, 1, 2]


def test_a_repeat_is_recognised_on_whichever_node_it_is_sent(cluster: RealCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    settings = {"goqueue.dedup.window.ms": "60000"}
    admin.create_topics([NewTopic("repeats", PARTITIONS, 3, config=settings)])["repeats"].result(30)
    for number in range(5):
        body = {"value": "v", "deduplication_id": f"id-{number}"}
        first, *others = [ask(node, "/topics/repeats/messages", body)["results"][0] for node in cluster.nodes]
        assert all(one["duplicate"] and one["partition"] == first["partition"] for one in others), (first, others)


def test_every_node_lists_what_is_held_back_on_all_of_them(cluster: RealCluster) -> None:
    create(cluster, "later")
    held = [{"value": str(one), "delay": "9000h", "partition": one} for one in range(PARTITIONS)]
    ask(cluster.nodes[0], "/topics/later/messages", {"messages": held})
    for node in cluster.nodes:
        assert ask(node, "/topics/later/delayed")["count"] == PARTITIONS


def test_a_killed_broker_costs_no_acknowledged_message(cluster: RealCluster) -> None:
    create(cluster, "stream")
    create(cluster, "jobs")
    stream, jobs = StreamLoad(cluster.bootstrap_servers, "stream"), QueueLoad(cluster.urls, "jobs")
    stream.start()
    jobs.start()
    time.sleep(1)
    cluster.nodes[0].kill_broker()
    time.sleep(2)
    cluster.wait_ready()
    stream.stop()
    jobs.stop()
    stream.check()
    jobs.check()
    assert sum(map(len, stream.acknowledged.values())) > 1000
    assert len(jobs.published) > 50


@pytest.mark.slow
def test_a_frozen_node_answers_nobody_and_loses_nothing_when_it_goes_on(cluster: RealCluster) -> None:
    create(cluster, "frozen")
    stream = StreamLoad(",".join(node.kafka for node in cluster.nodes), "frozen")
    stream.start()
    time.sleep(1)
    frozen = cluster.nodes[1]
    frozen.freeze()
    try:
        assert not frozen.is_ready()
        deadline = time.monotonic() + 30
        while 2 in {one["leader"] for one in ask(cluster.nodes[0], "/cluster/partitions?topic=frozen")["partitions"]}:
            assert time.monotonic() < deadline, "others lead when its session has ended"
            time.sleep(0.2)
    finally:
        frozen.thaw()
    cluster.wait_ready()
    cluster.wait_whole()
    stream.stop()
    stream.check()


def test_every_node_shows_the_same_cluster(cluster: RealCluster) -> None:
    rows = [ask(node, "/cluster") for node in cluster.nodes]
    assert len({one["controller"] for one in rows}) == 1
    for one in rows:
        assert [node["id"] for node in one["nodes"]] == [1, 2, 3]


def test_transactions_reach_partitions_and_groups_of_every_node(cluster: RealCluster) -> None:
    """Coordinators of ids and groups, and leaders of partitions, are on different nodes for most of these."""
    create(cluster, "tx-in")
    create(cluster, "tx-out")
    servers = {"bootstrap.servers": cluster.bootstrap_servers}
    plain = Producer({**servers, "acks": "all"})
    for number in range(60):
        plain.produce("tx-in", str(number).encode(), partition=number % PARTITIONS)
    assert plain.flush(30) == 0
    for turn in range(4):
        producer = Producer({**servers, "transactional.id": f"copy-{turn}"})
        producer.init_transactions(30)
        consumer = Consumer(
            {**servers, "group.id": f"copiers-{turn}", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        )
        consumer.subscribe(["tx-in"])
        copied = 0
        deadline = time.monotonic() + 60
        while copied < 60 and time.monotonic() < deadline:
            messages = [one for one in consumer.consume(100, 1.0) if one.error() is None]
            if not messages:
                continue
            # One that is aborted first: nothing of it may be seen.
            producer.begin_transaction()
            for one in messages:
                producer.produce("tx-out", b"aborted", partition=one.partition())
            producer.abort_transaction(30)
            producer.begin_transaction()
            for one in messages:
                producer.produce("tx-out", f"{turn}:".encode() + one.value(), partition=one.partition())
            positions = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), 30)
            producer.commit_transaction(30)
            copied += len(messages)
        consumer.close()
        assert copied == 60
    found = read_committed(cluster, "tx-out", 240)
    assert sorted(found) == sorted(f"{turn}:{number}".encode() for turn in range(4) for number in range(60))


def read_committed(cluster: RealCluster, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": f"all-of-{topic}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    found: list[bytes] = []
    deadline = time.monotonic() + 60
    while len(found) < count and time.monotonic() < deadline:
        found += [one.value() for one in consumer.consume(100, 1.0) if one.error() is None]
    consumer.close()
    return found


# Every series of the cluster that the requirement lists, without its prefix `goqueue_cluster_`.
SERIES = (
    "nodes_total",
    "nodes_healthy",
    "node_state",
    "is_controller",
    "partition_count",
    "leaders_per_node",
    "followers_per_node",
    "isr_size",
    "under_replicated_partitions",
    "offline_partitions",
    "isr_shrinks_total",
    "isr_expands_total",
    "leader_elections_total",
    "leader_election_latency_seconds_count",
    "unclean_leader_elections_total",
    "preferred_leader_imbalance",
    "replication_lag",
    "fetch_requests_total",
    "fetch_latency_seconds_count",
    "bytes_replicated_total",
    "high_watermark",
    "controller_elections_total",
    "controller_age_seconds",
    "inter_broker_network_in_bytes_total",
    "inter_broker_network_out_bytes_total",
    "inter_broker_latency_seconds_count",
    "failure_detections_total",
    "heartbeats_received_total",
    "heartbeats_missed_total",
    "clock_skew_seconds",
)


def test_every_series_of_the_cluster_is_fed(cluster: RealCluster) -> None:
    create(cluster, "measured")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for number in range(30):
        producer.produce("measured", value=b"x" * 100, partition=number % PARTITIONS)
    assert producer.flush(30) == 0
    for node in cluster.nodes:
        fed = _series_of(node)
        deadline = time.monotonic() + 20
        while set(SERIES) - fed.keys() and time.monotonic() < deadline:
            # Peers are asked every few seconds.
            time.sleep(0.2)
            fed = _series_of(node)
        assert sorted(set(SERIES) - fed.keys()) == []
        for name in ("fetch_requests_total", "bytes_replicated_total", "high_watermark", "heartbeats_received_total"):
            assert fed[name] > 0, name
        assert abs(fed["clock_skew_seconds"]) < 0.5


def _series_of(node: RealNode) -> dict[str, float]:
    """The sum of every series of the cluster that has a sample, by name."""
    with urllib.request.urlopen(f"{node.http}/metrics", timeout=20) as response:
        lines = response.read().decode().splitlines()
    found: dict[str, float] = {}
    for line in lines:
        if line.startswith("goqueue_cluster_"):
            name = line.partition("{")[0].partition(" ")[0].removeprefix("goqueue_cluster_")
            found[name] = found.get(name, 0.0) + float(line.rpartition(" ")[2])
    return found


def test_any_node_says_how_far_replicas_and_clocks_are_apart(cluster: RealCluster) -> None:
    create(cluster, "watched")
    for node in cluster.nodes:
        rows = ask(node, "/cluster/partitions?topic=watched")["partitions"]
        assert len(rows) == PARTITIONS
        for row in rows:
            followers = {str(one) for one in row["replicas"] if one != row["leader"]}
            assert row["lag"].keys() == followers
        deadline = time.monotonic() + 20
        while None in (skews := [one["clock_skew_ms"] for one in ask(node, "/cluster/nodes")["nodes"]]):
            assert time.monotonic() < deadline, skews
            time.sleep(0.2)
        assert all(abs(one) < 500 for one in skews)
        health = ask(node, "/cluster/health")
        assert health["warnings"] == []
        assert "JoinedCluster" in {one["event"] for one in ask(node, "/cluster/events?limit=1000")["events"]}
        assert health["clock_skew_ms_max"] == max(map(abs, skews))

"""What an operator does to a running cluster while clients work: restarts, new secrets and addresses, copies, force."""

from __future__ import annotations

import json
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.e2e.cluster.real_nodes import RealCluster, RealNode, real_cluster
from tests.e2e.cluster.test_cluster_smoke import ask, create
from tests.e2e.cluster.test_replace import goqueue, until
from tests.e2e.cluster.workload import QueueLoad, StreamLoad
from tests.etcd_server import free_ports, require_etcd

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    require_etcd()
    with real_cluster(tmp_path_factory.mktemp("nodes")) as found:
        yield found


def restart(cluster: RealCluster, node: RealNode) -> None:
    node.stop()
    node.start()
    cluster.wait_ready([node])
    cluster.wait_whole()


def partitions(node: RealNode, topic: str) -> list[dict[str, Any]]:
    return list(ask(node, f"/cluster/partitions?topic={topic}")["partitions"])


def metric(node: RealNode, name: str, labels: str = "") -> float:
    with urllib.request.urlopen(f"{node.http}/metrics", timeout=20) as response:
        lines = response.read().decode().splitlines()
    wanted = [line for line in lines if line.startswith((f"{name} ", f"{name}{{")) and labels in line]
    return sum(float(line.rpartition(" ")[2]) for line in wanted)


def test_a_rolling_restart_reaches_no_application(cluster: RealCluster) -> None:
    create(cluster, "rolled")
    create(cluster, "rolled-jobs")
    stream, jobs = StreamLoad(cluster.bootstrap_servers, "rolled"), QueueLoad(cluster.urls, "rolled-jobs")
    stream.start()
    jobs.start()
    for node in cluster.nodes:
        restart(cluster, node)
    stream.stop()
    jobs.stop()
    stream.check()
    jobs.check()
    assert sum(map(len, stream.acknowledged.values())) > 1000


def test_the_secret_is_rotated_node_by_node(cluster: RealCluster) -> None:
    """As the page says: the new one second, then first, then alone. Nodes of both kinds copy from each other."""
    (secret,) = {node.settings.parent / "secret" for node in cluster.nodes}
    old = secret.read_text().strip()
    own = {node.number: secret.with_name(f"secret{node.number}") for node in cluster.nodes}
    for node in cluster.nodes:
        own[node.number].write_text(old + "\n")
        own[node.number].chmod(0o600)
        settings = node.settings.read_text()
        node.settings.write_text(settings.replace(f'secret_file = "{secret}"', f'secret_file = "{own[node.number]}"'))
    create(cluster, "secret")
    stream = StreamLoad(cluster.bootstrap_servers, "secret")
    stream.start()
    for lines in ([old, "the new secret of this cluster"], ["the new secret of this cluster", old]):
        for node in cluster.nodes:
            own[node.number].write_text("\n".join(lines) + "\n")
            restart(cluster, node)
    for node in cluster.nodes:
        own[node.number].write_text("the new secret of this cluster\n")
        restart(cluster, node)
    stream.stop()
    stream.check()
    # Who does not know it copies nothing.
    last = cluster.nodes[2]
    last.stop()
    own[3].write_text("something else, that no other node knows\n")
    last.start()
    until(lambda: "200" in last.readiness() or "503" in last.readiness(), "it answers")
    assert {tuple(sorted(one["isr"])) for one in partitions(cluster.nodes[0], "secret")} == {(1, 2)}
    assert not last.is_ready()
    last.stop()
    own[3].write_text("the new secret of this cluster\n")
    last.start()
    cluster.wait_ready([last])
    cluster.wait_whole()


def test_a_node_moves_to_other_addresses(cluster: RealCluster) -> None:
    """The others are not restarted and find it; so do clients that know one of the others."""
    create(cluster, "moved")
    stream = StreamLoad(",".join(node.kafka for node in cluster.nodes[:2]), "moved")
    stream.start()
    moved = cluster.nodes[2]
    settings = moved.settings.read_text()
    kafka, http, peer = free_ports(3)
    before = moved.kafka
    moved.stop()
    own_peer = next(one for one in settings.split('"') if one.startswith("3=127.0.0.1"))
    settings = settings.replace(moved.kafka, f"127.0.0.1:{kafka}").replace(own_peer, f"3=127.0.0.1:{peer}")
    moved.settings.write_text(settings.replace(moved.http.removeprefix("http://"), f"127.0.0.1:{http}"))
    moved.read_settings()
    moved.start()
    cluster.wait_ready([moved])
    cluster.wait_whole()
    stream.stop()
    stream.check()
    assert before != moved.kafka
    told = AdminClient({"bootstrap.servers": cluster.nodes[0].kafka}).list_topics(timeout=20).brokers
    assert f"{told[3].host}:{told[3].port}" == moved.kafka
    # It leads again, at its new address.
    goqueue("cluster", "elect", "moved", "--config", str(cluster.nodes[0].settings))
    until(lambda: 3 in {one["leader"] for one in partitions(cluster.nodes[1], "moved")}, "node 3 leads")


def test_a_node_without_a_session_is_not_ready_and_is_again_although_nothing_changes(cluster: RealCluster) -> None:
    cluster.wait_whole()
    stores = [child_of(node, b"etcd") for node in cluster.nodes[:2]]
    for pid in stores:
        os.kill(pid, signal.SIGSTOP)
    try:
        for node in cluster.nodes:
            until(lambda node=node: "no session with the metadata store" in node.readiness(), "it is not ready")  # type: ignore[misc]
            assert ask_health(node)["status"] == "unhealthy"
            until(lambda node=node: "QuorumLost" in kinds(node), "it is an event")  # type: ignore[misc]
    finally:
        for pid in stores:
            os.kill(pid, signal.SIGCONT)
    cluster.wait_ready()
    for node in cluster.nodes:
        assert ask_health(node)["warnings"] == []
        until(lambda node=node: "QuorumRestored" in kinds(node), "it is an event")  # type: ignore[misc]


def test_copies_are_added_and_removed(cluster: RealCluster) -> None:
    config = str(cluster.nodes[0].settings)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic("copied", 2, 1)])["copied"].result(30)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for number in range(100):
        producer.produce("copied", str(number).encode(), partition=number % 2)
    assert producer.flush(30) == 0
    # One copy, and nobody who is behind.
    assert "copied-0" in goqueue("cluster", "partitions", "--topic", "copied", "--server", cluster.nodes[0].http)
    assert "2 partitions are getting copies" in goqueue(
        "cluster", "copies", "3", "--topic", "copied", "--config", config
    )
    assert all(sorted(one["isr"]) == [1, 2, 3] for one in partitions(cluster.nodes[2], "copied"))
    kept = {one["partition"]: one["replicas"][:2] for one in partitions(cluster.nodes[0], "copied")}

    said = goqueue("cluster", "copies", "1", "--remove", "--topic", "copied", "--config", config, is_refused=True)
    assert "min.insync.replicas is 2" in said
    assert "2 partitions have more than 2 copies" in goqueue(
        "cluster", "copies", "2", "--topic", "copied", "--config", config
    )
    goqueue("cluster", "copies", "2", "--remove", "--topic", "copied", "--config", config)
    rows = partitions(cluster.nodes[1], "copied")
    assert {one["partition"]: one["replicas"] for one in rows} == kept
    gone = {one["partition"]: ({1, 2, 3} - set(one["replicas"])).pop() for one in rows}
    homes = [cluster.nodes[node - 1].data_dir / "logs" / "copied" / str(number) for number, node in gone.items()]
    until(lambda: not any(home.exists() for home in homes), "removed copies leave the disk")
    found = ask(cluster.nodes[2], "/topics/copied/messages?from=earliest&limit=1000")["messages"]
    assert sorted(int(one["value"]) for one in found) == list(range(100))


def test_a_forced_election_says_what_it_would_lose_and_then_what_it_lost(cluster: RealCluster) -> None:
    create(cluster, "risky")
    first, second, third = cluster.nodes
    config = str(first.settings)
    second.stop()
    producer = Producer({"bootstrap.servers": f"{first.kafka},{third.kafka}", "acks": "all"})
    for number in range(60):
        producer.produce("risky", str(number).encode(), partition=number % 6)
    assert producer.flush(60) == 0
    # Their brokers are gone for now, and their etcd is not, so that there is a majority.
    frozen = [child_of(first, b"goqueue"), child_of(third, b"goqueue")]
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    try:
        second.start()
        until(second.is_ready, "it answers")
        until(lambda: all(one["leader"] < 0 for one in partitions(second, "risky")), "nobody leads it")
        assert ask_health(second)["status"] == "unhealthy"
        assert len(ask(second, "/cluster/partitions?state=offline&topic=risky")["partitions"]) == 6

        said = goqueue("cluster", "elect", "risky", "--unclean", "--config", config, is_refused=True)
        assert "--accept-data-loss" in said
        assert all(one["leader"] < 0 for one in partitions(second, "risky")), "it was only asked"
        done = goqueue("cluster", "elect", "risky", "--unclean", "--accept-data-loss", "--config", config)
        assert "risky-5: node 2 leads" in done
        until(lambda: all(one["leader"] == 2 for one in partitions(second, "risky")), "node 2 leads")
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
    cluster.wait_ready()
    cluster.wait_whole()
    assert metric(second, "goqueue_cluster_lost_records_total") == 60
    assert metric(second, "goqueue_cluster_unclean_leader_elections_total") == 6
    lost = ask(second, "/cluster/events?event=RecordsLost&limit=1000")["events"]
    assert {(one["node"], one["partition"]) for one in lost} == {
        (node, number) for node in (1, 3) for number in range(6)
    }
    assert "10 records, offsets 0 to 9" in lost[0]["detail"]
    # Of internal topics it may have cut what only it had, too.
    assert metric(first, "goqueue_cluster_truncated_records_total", 'topic="risky"') == 60


def test_events_of_a_start_are_kept_from_its_beginning(cluster: RealCluster) -> None:
    """BootstrapStarted and what came of it, on every node, in its log and among the metrics too."""
    for node in cluster.nodes:
        until(lambda node=node: "BootstrapComplete" in kinds(node), "it has caught up")  # type: ignore[misc]
        assert kinds(node)[0] == "BootstrapStarted"
        assert {"JoinedCluster", "NodeJoined"} <= set(kinds(node))
        assert "cluster: BootstrapComplete" in node.log.read_text()
        assert metric(node, "goqueue_cluster_events_total") >= len(kinds(node))
    assert any("BecameController" in kinds(node) for node in cluster.nodes)


def test_requests_of_a_protocol_of_votes_are_refused_with_where_it_went(cluster: RealCluster) -> None:
    for path in ("heartbeat", "join", "leave", "vote"):
        request = urllib.request.Request(f"{cluster.nodes[0].http}/cluster/{path}", data=b"{}", method="POST")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=20)
        with refused.value:
            assert refused.value.code == 404
            assert "metadata store" in json.loads(refused.value.read())["error"]["hint"]


def kinds(node: RealNode) -> list[str]:
    return [one["event"] for one in ask(node, "/cluster/events?limit=1000&scope=nodes")["events"][::-1]]


def ask_health(node: RealNode) -> Any:
    try:
        return ask(node, "/cluster/health")
    except urllib.error.HTTPError as refused:
        with refused:
            return json.loads(refused.read())


def child_of(node: RealNode, program: bytes) -> int:
    """The process of a node's broker, or of its etcd."""
    for pid in Path(f"/proc/{node.pid}/task/{node.pid}/children").read_text().split():
        if program in b" ".join(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:3]):
            return int(pid)
    raise AssertionError(f"node {node.number} has no {program.decode()}")

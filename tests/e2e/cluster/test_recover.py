"""Most etcd servers lose their data: the metadata goes on from the one that has it, or from a backup."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.cluster.real_nodes import RealCluster, RealNode, real_cluster
from tests.e2e.cluster.test_cluster_smoke import ask, create
from tests.e2e.cluster.test_replace import goqueue, under_replicated, until, voters
from tests.e2e.cluster.workload import StreamLoad
from tests.etcd_server import require_etcd, require_etcdctl

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def generation(node: RealNode) -> int:
    """As this node's etcd has it; 0 before the first restore."""
    require_etcdctl()
    found = subprocess.run(
        ["etcdctl", f"--endpoints={node.etcd}", "get", "--prefix", "/goqueue", "-w", "json"],
        env={"ETCDCTL_API": "3", "PATH": "/usr/bin:/bin:/usr/local/bin"},
        capture_output=True,
        check=True,
        timeout=30,
    )
    for pair in json.loads(found.stdout).get("kvs", ()):
        if base64.b64decode(pair["key"]).endswith(b"/generation"):
            return int(base64.b64decode(pair["value"]))
    return 0


def leader_epochs(config: Path) -> dict[str, int]:
    rows = json.loads(goqueue("cluster", "partitions", "--topic", "orders", "--config", str(config), "-o", "json"))
    return {one["partition"]: one["epoch"] for one in rows}


def produced(cluster: RealCluster) -> StreamLoad:
    """A topic in which records were acknowledged."""
    create(cluster, "orders")
    load = StreamLoad(cluster.bootstrap_servers, "orders")
    load.start()
    until(lambda: sum(map(len, load.acknowledged.values())) > 500, "records are acknowledged")
    load.stop()
    return load


def lose_etcd(cluster: RealCluster, *nodes: RealNode) -> None:
    for node in cluster.nodes:
        node.kill()
    for node in nodes:
        shutil.rmtree(node.data_dir / "etcd")


def start_in_order(cluster: RealCluster) -> None:
    """The node with the metadata first, as the command says, then the others."""
    cluster.nodes[0].start()
    cluster.wait_ready(cluster.nodes[:1])
    for node in cluster.nodes[1:]:
        node.start()
    cluster.wait_ready()
    # Servers that disagree give one epoch to two nodes.
    epochs = [one["broker_epoch"] for one in ask(cluster.nodes[0], "/cluster/nodes")["nodes"]]
    assert len(set(epochs)) == 3, epochs
    assert len({ask(one, "/cluster")["controller"] for one in cluster.nodes}) == 1


def check_recovered(cluster: RealCluster, load: StreamLoad, before: dict[str, int]) -> None:
    """All nodes serve, etcd has three voters again, every epoch is a new one, and every record is there."""
    first = cluster.nodes[0]
    until(lambda: under_replicated(first.settings) == [], "every copy is in sync again")
    until(lambda: set(voters(first)) == {"node-1", "node-2", "node-3"}, "all three vote again")
    after = leader_epochs(first.settings)
    assert all(after[place] > before[place] + 500_000 for place in before), (before, after)
    load.check()
    more = StreamLoad(cluster.bootstrap_servers, "orders")
    more.start()
    until(lambda: sum(map(len, more.acknowledged.values())) > 100, "records are acknowledged again")
    more.stop()
    assert not more.failed


def test_the_cluster_goes_on_from_the_only_etcd_that_has_its_data(tmp_path: Path) -> None:
    require_etcd()
    with real_cluster(tmp_path) as cluster:
        first, second, third = cluster.nodes
        load = produced(cluster)
        before = leader_epochs(first.settings)
        config = str(first.settings)
        assert "stop all nodes" in goqueue("cluster", "recover", "--config", config, is_refused=True)
        lose_etcd(cluster, second, third)
        said = goqueue("cluster", "recover", "--config", str(second.settings), is_refused=True)
        assert "holds no data of etcd" in said

        refused = subprocess.run(
            [sys.executable, "-m", "goqueue", "cluster", "recover", "--config", config],
            capture_output=True,
            text=True,
            check=False,
        )
        assert refused.returncode == 1
        assert "what is lost, or can be:" in refused.stdout
        assert "add --yes" in refused.stdout
        said = goqueue("cluster", "recover", "--config", config, "--yes")
        assert "generation 1 of the metadata has begun" in said
        assert (first.data_dir / "etcd.before-generation-1").is_dir()
        start_in_order(cluster)
        assert generation(first) == 1
        check_recovered(cluster, load, before)


def test_the_cluster_goes_on_from_a_backup_when_no_etcd_has_its_data(tmp_path: Path) -> None:
    require_etcd()
    with real_cluster(tmp_path) as cluster:
        load = produced(cluster)
        first = cluster.nodes[0]
        config, backup = str(first.settings), str(tmp_path / "metadata.json")
        before = leader_epochs(first.settings)
        goqueue("cluster", "backup", backup, "--config", config)
        lose_etcd(cluster, *cluster.nodes)
        said = goqueue("cluster", "recover", "--config", config, "--from-backup", backup, "--yes")
        assert "every change of metadata since that backup" in said
        start_in_order(cluster)
        check_recovered(cluster, load, before)
        assert generation(first) == 1

        # The same backup once more: epochs of the first time are not used again.
        lose_etcd(cluster, *cluster.nodes)
        goqueue("cluster", "recover", "--config", config, "--from-backup", backup, "--yes")
        start_in_order(cluster)
        assert generation(first) == 2
        until(lambda: under_replicated(first.settings) == [], "every copy is in sync again")
        assert all(epoch > before[place] + 1_500_000 for place, epoch in leader_epochs(first.settings).items())


def test_an_etcd_with_certificates_is_recovered_too(tmp_path: Path) -> None:
    require_etcd()
    with real_cluster(tmp_path, options=["--secure", "--allow-insecure"]) as cluster:
        create(cluster, "orders")
        first, second, third = cluster.nodes
        before = leader_epochs(first.settings)
        lose_etcd(cluster, second, third)
        said = goqueue("cluster", "recover", "--config", str(first.settings), "--yes")
        assert "generation 1 of the metadata has begun" in said
        start_in_order(cluster)
        until(lambda: under_replicated(first.settings) == [], "every copy is in sync again")
        after = leader_epochs(first.settings)
        assert all(after[place] > before[place] + 500_000 for place in before), (before, after)

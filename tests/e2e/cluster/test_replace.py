"""A machine is lost with all that it had: another takes its place under load, and nothing acknowledged is lost."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.cluster.real_nodes import RealCluster, RealNode, real_cluster
from tests.e2e.cluster.test_cluster_smoke import create
from tests.e2e.cluster.workload import StreamLoad
from tests.etcd_server import require_etcd, require_etcdctl

SECONDS_MAX = 90.0


def goqueue(*words: str, is_refused: bool = False) -> str:
    """Run a command; returns what it said, on standard error if it is to be refused."""
    done = subprocess.run(
        [sys.executable, "-m", "goqueue", *words], capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert (done.returncode != 0) == is_refused, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stderr if is_refused else done.stdout


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


def under_replicated(config: Path) -> Any:
    return json.loads(goqueue("cluster", "partitions", "--under-replicated", "--config", str(config), "-o", "json"))


def voters(node: RealNode) -> dict[str, str]:
    """The peer URL of every member of etcd that votes, by name, as this node's etcd lists them."""
    require_etcdctl()
    listed = subprocess.run(
        ["etcdctl", f"--endpoints={node.etcd}", "member", "list", "-w", "json"],
        env={"ETCDCTL_API": "3", "PATH": "/usr/bin:/bin:/usr/local/bin"},
        capture_output=True,
        check=True,
        timeout=30,
    )
    found = json.loads(listed.stdout)["members"]
    return {one.get("name", ""): one["peerURLs"][0] for one in found if not one.get("isLearner")}


def lose_machine(node: RealNode) -> None:
    """Its processes and its disk are gone, the directory of its etcd with them."""
    node.kill()
    shutil.rmtree(node.data_dir)
    node.settings.unlink()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_lost_machine_is_replaced_under_load_at_another_address_and_then_a_second_one(tmp_path: Path) -> None:
    require_etcd()
    with real_cluster(tmp_path) as cluster:
        create(cluster, "orders")
        load = StreamLoad(cluster.bootstrap_servers, "orders")
        load.start()
        first, second, third = cluster.nodes
        config = str(first.settings)

        said = goqueue("cluster", "replace", "2", "--config", config, is_refused=True)
        assert "node 2 has a session" in said
        assert "something answers at" in said
        assert second.kafka in said

        lose_machine(second)
        until(lambda: "can be replaced" in _checked(2, config), "the session of node 2 ends")
        said = goqueue("cluster", "replace", "2", "--config", config, "--host", "127.0.0.2")
        assert "is removed and cannot vote again" in said
        assert set(voters(first)) == {"node-1", "node-3"}
        _start_again(cluster, second)
        until(lambda: under_replicated(first.settings) == [], "every copy is in sync again")
        until(lambda: set(voters(first)) == {"node-1", "node-2", "node-3"}, "its etcd votes again")
        assert voters(first)["node-2"].startswith("http://127.0.0.2:")

        # The third at its own address; the settings of the others still name the former one of the second.
        lose_machine(third)
        until(lambda: "can be replaced" in _checked(3, config), "the session of node 3 ends")
        goqueue("cluster", "replace", "3", "--config", config)
        _start_again(cluster, third)
        until(lambda: under_replicated(first.settings) == [], "every copy is in sync again")
        until(lambda: set(voters(first)) == {"node-1", "node-2", "node-3"}, "its etcd votes again")

        load.stop()
        load.check()
        assert sum(map(len, load.acknowledged.values())) > 0


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_with_tls_the_new_machine_gets_certificates_for_its_address(tmp_path: Path) -> None:
    require_etcd()
    with real_cluster(tmp_path, options=["--secure", "--allow-insecure"]) as cluster:
        create(cluster, "orders")
        first, second, _ = cluster.nodes
        node_folder = second.settings.parent
        second.kill()
        shutil.rmtree(node_folder)
        config = str(first.settings)
        until(lambda: "can be replaced" in _checked(2, config), "the session of node 2 ends")
        said = goqueue("cluster", "replace", "2", "--config", config, "--host", "127.0.0.2")
        assert f"copy the folder {node_folder}" in said
        _start_again(cluster, second)
        until(lambda: under_replicated(first.settings) == [], "every copy is in sync again")


def _checked(node: int, config: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "goqueue", "cluster", "replace", str(node), "--check", "--config", config],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    return done.stdout


def _start_again(cluster: RealCluster, node: RealNode) -> None:
    node.read_settings()
    node.start()
    cluster.wait_ready([node])

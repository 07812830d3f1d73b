"""`goqueue cluster up` as its page shows it: started, used, crashed, stopped, and started again."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.e2e.process import BrokerProcess
from tests.etcd_server import free_ports, require_etcd

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
BLOCK = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)
START_SECONDS_MAX = 90
PARCELS = [f"parcel {number}" for number in range(1, 5)]


class Cluster:
    """`cluster up` in a process, on free ports."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / "trial"
        # Below those that the kernel gives to clients: one of them would take the port of a node that is down.
        base = max(free_ports(3)) % 11_000 + 20_000
        self.kafka, self.http, self.peer, self.etcd = base, base + 10, base + 20, base + 30
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def ports(self) -> list[str]:
        """Options that name them."""
        ports = {"kafka": self.kafka, "http": self.http, "peer": self.peer, "etcd": self.etcd}
        return [text for name, port in ports.items() for text in (f"--{name}-port", str(port))]

    def start(self) -> None:
        """Start it on a terminal, on which it shows its table."""
        self.output = self.home / "output"
        self.output.write_bytes(b"")
        terminal, inside = os.openpty()
        command = [str(BIN / "goqueue"), "cluster", "up", "--nodes", "3", "--data-dir", str(self.folder), *self.ports]
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "160"}
        self._process = subprocess.Popen(command, stdout=inside, stderr=inside, env=environment, cwd=self.home)
        os.close(inside)
        threading.Thread(target=self._keep, args=(terminal,), daemon=True).start()
        self.until(lambda: "The cluster is ready." in self.output.read_text(), START_SECONDS_MAX)

    def _keep(self, terminal: int) -> None:
        with self.output.open("ab") as output, suppress(OSError):
            while shown := os.read(terminal, 65536):
                output.write(shown)
                output.flush()
        os.close(terminal)

    def stop(self) -> int:
        if self._process is None:
            return 0
        self._process.send_signal(signal.SIGINT)
        code = self._process.wait(60)
        self._process = None
        return code

    def kill_broker(self, number: int) -> int:
        pid = int(json.loads((self.folder / f"node{number}.ready").read_text())["pid"])
        os.kill(pid, signal.SIGKILL)
        return pid

    def run(self, code: str) -> str:
        """Run a block of the page against this cluster."""
        for number in range(3):
            code = code.replace(f"127.0.0.1:{9092 + number}", f"127.0.0.1:{self.kafka + number}")
            code = code.replace(f"127.0.0.1:{8080 + number}", f"127.0.0.1:{self.http + number}")
        environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
        command = ["bash", "-euo", "pipefail", "-c", code]
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd=self.home, timeout=60, check=False
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def partitions(self, *options: str) -> list[dict[str, Any]]:
        shown = self.run(f"goqueue cluster partitions --config ./trial/node1.toml -o json {' '.join(options)}")
        return list(json.loads(shown))

    def until(self, is_so: Callable[[], bool], seconds_max: float = 60) -> None:
        deadline = time.monotonic() + seconds_max
        while not is_so():
            alive = self._process is None or self._process.poll() is None
            assert alive, self.output.read_text()
            assert time.monotonic() < deadline, "it did not come to be"
            time.sleep(0.1)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    require_etcd()
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed")
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.stop()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_second_ctrl_c_does_not_wait_and_leaves_no_process(cluster: Cluster) -> None:
    cluster.start()
    process, cluster._process = cluster._process, None
    assert process is not None
    # The nodes, their workers and their etcd servers.
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) >= 6

    process.send_signal(signal.SIGINT)
    cluster.until(lambda: "a second Ctrl-C does not wait" in cluster.output.read_text())
    process.send_signal(signal.SIGINT)

    assert process.wait(60) == 128 + signal.SIGINT
    _, left = psutil.wait_procs(children, timeout=10)
    assert left == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_page_works_and_the_cluster_survives_a_kill_a_lost_etcd_and_a_restart(cluster: Cluster) -> None:
    cluster.start()
    outputs = [cluster.run(block) for block in BLOCK.findall((ROOT / "docs/howto/cluster.md").read_text())]
    assert "created topic parcels with 6 partitions" in outputs[0]
    (checked,) = [one for one in outputs if "created topic weights" in one]
    assert "refused" in checked
    assert checked.count('"value"') == 3, checked
    assert any("2 partitions are getting copies" in one for one in outputs)
    assert any("2 partitions are losing copies" in one for one in outputs)
    assert {len(one["replicas"]) for one in cluster.partitions("--topic", "notes")} == {1}
    # The table was redrawn all the while, also with partitions of one copy.
    assert "3 of 3 nodes" in cluster.output.read_text()

    cluster.kill_broker(2)
    began = time.monotonic()
    cluster.until(lambda: all(one["leader"] in (1, 3) for one in cluster.partitions("--topic", "parcels")), 20)
    took = time.monotonic() - began
    assert took < 10, f"failover took {took:.1f} s"
    read = f"kcat -C -b 127.0.0.1:{cluster.kafka} -t parcels -e -q"
    assert sorted(cluster.run(read).splitlines()) == PARCELS
    # The supervisor starts it again, and it catches up.
    cluster.until(lambda: cluster.partitions("--under-replicated", "--topic", "parcels") == [])

    assert cluster.stop() == 0
    # A voter that lost its data joins the others again.
    shutil.rmtree(cluster.folder / "node2" / "etcd")
    cluster.start()
    cluster.until(lambda: "votes again" in (cluster.folder / "log" / "node2.log").read_text())
    cluster.until(lambda: cluster.partitions("--offline") == [])
    assert sorted(cluster.run(read).splitlines()) == PARCELS
    assert cluster.stop() == 0


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_node_on_its_own_becomes_three_and_keeps_its_records(cluster: Cluster) -> None:
    alone = BrokerProcess(cluster.home / "alone").start()
    cluster.run(
        f"goqueue topic create old --partitions 2 --server http://{alone.http} "
        f"&& seq 1 100 | kcat -P -b {alone.kafka} -t old -X acks=all"
    )
    assert alone.stop() == 0
    cluster.run(f"goqueue cluster init ./trial --from {alone.data_dir} {' '.join(cluster.ports)}")
    # From here on it is the cluster's.
    with pytest.raises(AssertionError, match="belongs to node 1 of cluster"):
        alone.start()
    cluster.start()
    cluster.run("goqueue cluster copies 3 --config ./trial/node1.toml")
    cluster.until(lambda: all(one["in_sync"].count(",") == 2 for one in cluster.partitions("--topic", "old")))
    assert {one["replicas"].count(",") for one in cluster.partitions()} == {2}
    cluster.kill_broker(1)
    cluster.until(lambda: all(one["leader"] in (2, 3) for one in cluster.partitions("--topic", "old")))
    assert len(cluster.run(f"kcat -C -b 127.0.0.1:{cluster.kafka + 1} -t old -e -q").splitlines()) == 100

"""Other nodes beside a test's broker: `GOQUEUE_TEST_NODES=3` runs the tests of one broker against a cluster of three.

The test's broker is one node among three. Every topic has three replicas of which two must be in sync, so most
partitions and coordinators are elsewhere. What a test does to its broker (kill, restart, freeze) happens to that node.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.etcd_server import EtcdServer, free_ports

if TYPE_CHECKING:
    from tests.e2e.process import BrokerProcess

NODES = int(os.environ.get("GOQUEUE_TEST_NODES", "1"))
# Which of them a test asks. The second, since the first node of a cluster is its first controller.
ASKED = int(os.environ.get("GOQUEUE_TEST_ASKED", "2"))

_prefixes = itertools.count(1)
_etcd: list[EtcdServer] = []
_clusters: list[Companions] = []


class Companions:
    """The nodes that a test does not see. They run until the test's broker has ended for good."""

    def __init__(self, asked: BrokerProcess, home: Path) -> None:
        from tests.e2e.process import BrokerProcess

        self._asked = asked
        self._started = False
        secret = home / "secret"
        secret.write_text("a secret of this test run\n")
        secret.chmod(0o600)
        peers = dict(enumerate(free_ports(NODES), 1))
        self._shared = {
            "GOQUEUE_CLUSTER_PEERS": ",".join(f"{number}=127.0.0.1:{port}" for number, port in peers.items()),
            "GOQUEUE_CLUSTER_SECRET_FILE": str(secret),
            # Tests that speak to one connection after a restart wait until that node leads again.
            "GOQUEUE_CLUSTER_LEADER_RETURN_MS": "500",
            "GOQUEUE_METADATA_MODE": "external",
            "GOQUEUE_METADATA_PREFIX": f"/test-{os.getpid()}-{next(_prefixes)}",
        }
        self.others = {
            number: BrokerProcess(home / f"node{number}", environment=asked.environment, companions=self)
            for number in peers
            if number != ASKED
        }
        _clusters.append(self)

    def settings_of(self, process: BrokerProcess) -> dict[str, str]:
        """What makes that process a node of this cluster."""
        number = next((number for number, one in self.others.items() if one is process), ASKED)
        return {**self._shared, "GOQUEUE_METADATA_ENDPOINTS": _shared_etcd().url, "GOQUEUE_BROKER_NODEID": str(number)}

    def begin(self) -> None:
        """Start them, without waiting, when the test's broker starts for the first time."""
        if not self._started:
            self._started = True
            for one in self.others.values():
                one.environment = dict(self._asked.environment)
                one.grpc = one.grpc or self._asked.grpc
                one.spawn()

    def wait_ready(self, deadline: float) -> None:
        """Wait until all of them serve."""
        for number, one in self.others.items():
            if not one.wait_ready(deadline):
                raise AssertionError(f"node {number} has ended:\n{one.output}")

    def end(self) -> None:
        """Kill them."""
        for one in self.others.values():
            with contextlib.suppress(AssertionError):
                one.kill()
        if self in _clusters:
            _clusters.remove(self)

    @property
    def is_left_over(self) -> bool:
        """Whether the test's broker does not run any more."""
        return self._started and not self._asked.running


def end_left_over_clusters() -> None:
    """Kill the companions of brokers that have ended. Called between tests."""
    for one in [one for one in _clusters if one.is_left_over]:
        one.end()


def _shared_etcd() -> EtcdServer:
    """One etcd for all clusters of this run: each has its own prefix."""
    if not _etcd:
        home = Path(tempfile.mkdtemp(prefix="goqueue-test-etcd-"))
        _etcd.append(EtcdServer(home).start())
        atexit.register(_end_all, home)
    return _etcd[0]


def _end_all(home: Path) -> None:
    while _clusters:
        _clusters[0].end()
    for server in _etcd:
        server.stop()
    shutil.rmtree(home, ignore_errors=True)

"""Clusters of three nodes on this machine: GoQueue with its etcd, and Apache Kafka with three KRaft nodes."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil
from confluent_kafka.admin import AdminClient
from tests.bench.cluster_kafka import kafka_cluster
from tests.bench.peers.common import Wrong
from tests.bench.peers.peer_kafka import ApacheKafka
from tests.e2e.cluster.network import Network
from tests.e2e.cluster.real_nodes import RealCluster, real_cluster

NODES = (1, 2, 3)
IN_SYNC_SECONDS_MAX = 180.0


class Node(Protocol):
    """What a node of either kind can be asked to do."""

    @property
    def pid(self) -> int:
        """Its parent process."""
        ...

    def start(self) -> None:
        """Start its processes, without waiting."""
        ...

    def stop(self) -> None:
        """A clean stop."""
        ...

    def kill(self) -> None:
        """kill -9 of all its processes."""
        ...


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """A cluster that answers. The faults are functions of a node's number."""

    address: str
    nodes: dict[int, Node]
    kill_broker: Callable[[int], None]
    freeze: Callable[[int], None]
    # With namespaces only.
    network: Network | None = None
    # What GoQueue's nodes show of themselves and of their etcd; empty for others.
    metrics: tuple[str, ...] = ()
    etcd_metrics: tuple[str, ...] = ()

    def kill_node(self, number: int) -> None:
        """As a power cut does it."""
        self.nodes[number].kill()

    def isolate(self, number: int) -> None:
        """Nobody reaches the node, and it reaches nobody."""
        assert self.network is not None, "the nodes have no namespaces"
        self.network.isolate(number)

    def cpu_seconds(self) -> float:
        """Processor time of all processes of all nodes so far."""
        total = 0.0
        for node in self.nodes.values():
            with suppress(psutil.NoSuchProcess):
                parent = psutil.Process(node.pid)
                for one in (parent, *parent.children(recursive=True)):
                    times = one.cpu_times()
                    total += times.user + times.system
        return total

    def wait_in_sync(self, topic: str) -> None:
        """Until every partition of the topic has all its replicas in sync, and so has a leader."""
        admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        deadline = time.monotonic() + IN_SYNC_SECONDS_MAX
        while True:
            found = admin.list_topics(topic, timeout=30).topics[topic].partitions.values()
            if found and all(len(one.isrs) == len(NODES) for one in found):
                return
            if time.monotonic() > deadline:
                raise Wrong(f"not every replica of {topic} is in sync after {IN_SYNC_SECONDS_MAX} s")
            time.sleep(0.2)


@dataclass(frozen=True, slots=True)
class ClusterPeer:
    """One kind of cluster, as the benchmark sees it."""

    name: str
    # What `acks=all` means: on the disk of every in-sync replica, or in the memory of their kernels.
    synced: bool
    # Whether something outlives a broker that dies, and tells the others.
    has_supervisor: bool
    # With namespaces (True) each node has a network of its own.
    start: Callable[[Path, bool], AbstractContextManager[RunningCluster]]


def cluster_peers(*, synced: bool) -> tuple[list[ClusterPeer], str | None]:
    """GoQueue, and Apache Kafka if it is installed; and why it is not."""
    peers = [
        ClusterPeer("GoQueue", synced, True, lambda home, namespaces: _goqueue(home, synced, namespaces=namespaces))
    ]
    reason = ApacheKafka().missing()
    if reason is None:
        peers.append(ClusterPeer("Apache Kafka", synced, False, _kafka))
    return peers, reason


@contextmanager
def _goqueue(home: Path, synced: bool, *, namespaces: bool) -> Iterator[RunningCluster]:
    settings = f'\n[durability]\nacks_all = "{"synced" if synced else "written"}"\n'
    # Old segments of a load that goes on for long are removed soon.
    settings += "\n[log]\nretention_check_ms = 5000\n"
    with real_cluster(home, namespaces=namespaces, settings=settings) as cluster:
        nodes = {node.number: node for node in cluster.nodes}
        yield RunningCluster(
            cluster.bootstrap_servers,
            {**nodes},
            kill_broker=lambda number: nodes[number].kill_broker(),
            freeze=lambda number: nodes[number].freeze(),
            network=cluster.network,
            metrics=_urls(cluster, [f"{node.http}/metrics" for node in cluster.nodes]),
            etcd_metrics=_urls(cluster, [f"{node.etcd}/metrics" for node in cluster.nodes]),
        )


def _urls(cluster: RealCluster, urls: Sequence[str]) -> tuple[str, ...]:
    # In namespaces etcd uses TLS, with certificates that the benchmark does not have.
    return tuple(urls) if cluster.network is None else ()


@contextmanager
def _kafka(home: Path, namespaces: bool) -> Iterator[RunningCluster]:
    with ExitStack() as stack:
        network = Network() if namespaces else None
        if network is not None:
            stack.callback(network.remove)
            network.make()
        nodes = stack.enter_context(kafka_cluster(home, network))
        yield RunningCluster(
            ",".join(node.address for node in nodes.values()),
            {**nodes},
            kill_broker=lambda number: nodes[number].kill(),
            freeze=lambda number: nodes[number].signal(signal.SIGSTOP),
            network=network,
        )
